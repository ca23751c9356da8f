"""The Gantt of a run as SVG: the rows, the scale and the cuts of `flow timeline`, drawn as shapes."""

from collections.abc import Iterator, Sequence

from flowstone.journal.scale import CUT_CELLS, Scale
from flowstone.journal.timeline import Span
from flowstone.journal.words import duration_words
from flowstone_cli.render.exports.markup import attribute, text
from flowstone_cli.render.rows import Drawn

COLUMNS = 120
_CELL, _ROW, _TOP, _NAMES, _TOOK = 8, 20, 36, 250, 70
_SIGNS = {"failed": "✗", "interrupted": "!", "cancelled": "⊘", "running": "▸"}


def gantt(lines: Sequence[Drawn], scale: Scale, end: int) -> Iterator[str]:
    """The pieces of one `svg` element."""
    left = _NAMES + _TOOK
    width, height = left + scale.columns * _CELL + 40, _TOP + _ROW * len(lines) + 8
    yield f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="When each step ran">\n'
    yield from _axis(scale, left, height)
    for number, one in enumerate(lines):
        top = _TOP + number * _ROW
        yield from _row(one, scale, left, top, end)
    yield "</svg>\n"


def _axis(scale: Scale, left: int, height: int) -> Iterator[str]:
    for tick in scale.ticks():
        at = left + tick.column * _CELL
        words = "0" if tick.kind == "start" else ("+" if tick.after_cut else "") + duration_words(tick.value)
        anchor = "end" if tick.kind == "end" else "start"
        yield f'<text x="{at}" y="14" text-anchor="{anchor}" class="tick">{text(words)}</text>\n'
        yield f'<line x1="{at}" y1="20" x2="{at}" y2="{height}" class="grid"/>\n'
    for cut in scale.cuts:
        at = left + cut.column * _CELL
        yield f'<rect x="{at}" y="20" width="{CUT_CELLS * _CELL}" height="{height - 20}" class="cut">'
        yield f"<title>{text(duration_words(cut.hidden))} with nothing running</title></rect>\n"
        yield f'<text x="{at + 2 * _CELL}" y="32" text-anchor="middle" class="tick">//</text>\n'


def _row(one: Drawn, scale: Scale, left: int, top: int, end: int) -> Iterator[str]:
    base = top + 14
    if one.row is None:
        yield f'<text x="20" y="{base}" class="quiet">{text(one.branches)}… {one.hidden:,} more</text>\n'
        return
    row = one.row
    many = f"  {row.size:,}×" if row.size else ""
    name = one.branches.replace(" ", "\u00a0") + row.label
    shown = name if len(name) <= 32 else f"{name[:20]}…{name[-11:]}"
    yield f'<g class="row"><title>{text(row.label)}: {text(row.word)}, {text(duration_words(row.spent(end)))}</title>\n'
    yield f'<text x="4" y="{base}">{text(shown + many)}</text>\n'
    yield f'<text x="{left - 10}" y="{base}" text-anchor="end" class="quiet">{text(duration_words(row.spent(end)))}</text>\n'
    found = row.everything
    for span in found:
        yield from _wait(span, scale, left, top, end)
    for span in found:
        if not span.is_wait:
            kind = "cut-off" if span.cut else "undo" if span.kind == "undo" else "work"
            yield _bar(scale, span.start_at, _over(span, end), left, top, kind, f"{span.step}~{span.attempt} {span.status}")
    if not row.size:
        yield from _marks(found, scale, left, base, end)
    yield "</g>\n"


def _wait(span: Span, scale: Scale, left: int, top: int, end: int) -> Iterator[str]:
    if span.is_wait:
        said = span.status + (f" by {span.by}" if span.by else "") + (f": {span.comment}" if span.comment else "")
        yield _bar(scale, span.start_at, _over(span, end), left, top, "sleep" if span.kind == "sleep" else "person", said)
    elif span.next_attempt_at is not None and span.end_at is not None:
        yield _bar(scale, span.end_at, min(span.next_attempt_at, end), left, top, "backoff", "waits for its next attempt")


def _marks(found: Sequence[Span], scale: Scale, left: int, base: int, end: int) -> Iterator[str]:
    for span in found:
        word = "running" if span.end_at is None and not span.is_wait else span.status
        if word in _SIGNS:
            at = left + (scale.cells(span.start_at, _over(span, end))[-1] + 1) * _CELL
            said = f"{word}: {span.error}" if span.error else word
            yield f'<text x="{at}" y="{base}" class="{word}">{_SIGNS[word]}<title>{text(said)}</title></text>\n'


def _bar(scale: Scale, start: int, over: int, left: int, top: int, kind: str, said: str) -> str:
    cells = scale.cells(start, over)
    place = f'x="{left + cells[0] * _CELL}" y="{top + 4}" width="{len(cells) * _CELL}" height="{_ROW - 8}"'
    return f"<rect {place} class={attribute(kind)}><title>{text(said)}</title></rect>\n"


def _over(span: Span, end: int) -> int:
    return max(span.start_at, end if span.end_at is None else span.end_at)
