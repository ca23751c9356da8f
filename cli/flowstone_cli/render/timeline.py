"""`flow timeline`: one row per step on one honest time axis; in a pipe one line per attempt or wait."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from flowstone.journal.labels import label_of
from flowstone.journal.phase import Phase
from flowstone.journal.scale import Scale, scale_of
from flowstone.journal.timeline import Span, busy, span_document, working
from flowstone.journal.words import duration_words, took_words
from flowstone_cli.clean import cells, fit, left, one_line, right
from flowstone_cli.render.bars import Bars, axis, labels
from flowstone_cli.render.status import MOST_STEPS, name_width
from flowstone_cli.render.text import Part, count, line, tsv
from flowstone_cli.terminal import Stream
from flowstone_cli.view import RunView

WITH_BARS = 60
"""The narrowest window with bars; below it attempts are told in words."""
WITH_NOTES = 100
NOTE = 13


@dataclass(slots=True)
class _Row:
    """All spans of one step."""

    key: str
    spans: list[Span] = field(default_factory=list)

    @property
    def last(self) -> Span:
        return self.spans[-1]


def people(view: RunView, found: Sequence[Span], stream: Stream, *, everything: bool) -> str:
    """The drawing, as wide as the window."""
    end = _end(view)
    rows = _rows(found)
    intervals = busy(found, end)
    worked = working(intervals)
    shown, hidden = (rows, 0) if everything else _chosen(rows)
    more = line(stream, f"{stream.glyph('…')} {hidden:,} more rows: flow timeline {view.id} --all") if hidden else ""
    if stream.width < WITH_BARS:
        return _narrow_head(view, worked, stream) + "".join(_in_words(row, view, end, stream) for row in shown) + more
    start = _bars_from(stream)
    scale = scale_of(intervals, view.row.created_at, end, stream.width - start)
    made = _head(view, worked, scale, stream)
    made += line(stream, " " * start, labels(scale))
    made += line(stream, " " * start, (axis(scale, stream), "quiet"))
    return made + "".join(_bar_row(row, view, scale, end, stream) for row in shown) + more


def piped(found: Sequence[Span]) -> str:
    """Events, start, end, milliseconds, kind, status, step, attempt, child, error."""
    made = []
    for span in found:
        one = span_document(span)
        numbers = f"{span.start_n}-{'' if span.end_n is None else span.end_n}"
        status = f"{span.status}, cut" if span.cut else span.status
        times = (one["start_at"], one["end_at"], one["duration_ms"])
        made.append(tsv(numbers, *times, span.kind, status, span.step, span.attempt, span.child, span.error))
    return "".join(made)


def _rows(found: Sequence[Span]) -> list[_Row]:
    rows: dict[str, _Row] = {}
    for span in found:
        if span.kind != "state":
            rows.setdefault(span.step, _Row(span.step)).spans.append(span)
    return list(rows.values())


def _chosen(rows: list[_Row]) -> tuple[list[_Row], int]:
    """The rows that are drawn when there are many: all that did not simply succeed, the first and last, the slowest."""
    if len(rows) <= MOST_STEPS:
        return rows, 0
    wanted = [index for index, row in enumerate(rows) if row.last.status != "succeeded" or len(row.spans) > 1]
    slowest = sorted(range(len(rows)), key=lambda index: -(rows[index].last.lasted() or 0))[:3]
    chosen = sorted({0, len(rows) - 1, *slowest, *wanted[: MOST_STEPS - 5]})
    return [rows[index] for index in chosen], len(rows) - len(chosen)


def _end(view: RunView) -> int:
    """Until when the axis goes: the run's end, now while something may still come, else its last event."""
    if view.row.finished_at is not None:
        return view.row.finished_at
    return view.row.updated_at if view.phase is Phase.INTERRUPTED else max(view.now, view.row.updated_at)


def _bars_from(stream: Stream) -> int:
    start = 2 + name_width(stream.width) + 1 + 8 + 1
    return start + NOTE + 2 if stream.width >= WITH_NOTES else start


def _head(view: RunView, worked: int, scale: Scale, stream: Stream) -> str:
    phase, wide = view.phase.value, stream.width >= WITH_NOTES
    took = f"{took_words(view.took)}, working {duration_words(worked)}"
    hides = f"{count(len(scale.cuts), 'cut')} {'hides' if len(scale.cuts) == 1 else 'hide'} {took_words(scale.hidden)}"
    gap = "   " if wide else "  "
    parts = [took, *([hides] if scale.cuts else []), f"{_cell_words(scale.per_cell)}/cell"]
    rest = gap + gap.join(parts)
    if wide and cells(rest + _legend(stream)) + len(view.id) + 14 <= stream.width:
        rest += gap + _legend(stream)
    workflow = fit(one_line(view.row.workflow), max(8, stream.width - len(view.id) - len(rest) - 3), stream.glyph("…"))
    return line(stream, (stream.glyph(phase), phase), f" {workflow} {view.id}", rest)


def _cell_words(per_cell: float) -> str:
    if per_cell < 10_000:
        return f"{per_cell / 1000:.2g} ms"
    return f"{per_cell / 1000:.0f} ms" if per_cell < 1_000_000 else duration_words(round(per_cell))


def _legend(stream: Stream) -> str:
    signs = (("█", "work"), ("failed", "failed try"), ("·", "backoff"), ("┄", "person"), ("▒", "undo"))
    return " ".join(f"{stream.glyph(sign)} {word}" for sign, word in signs) + " // cut"


def _narrow_head(view: RunView, worked: int, stream: Stream) -> str:
    workflow = fit(one_line(view.row.workflow), max(0, stream.width - len(view.id) - 3), stream.glyph("…"))
    phase = view.phase.value
    made = line(stream, (stream.glyph(phase), phase), f" {workflow} {view.id}" if workflow else f" {view.id}")
    return made + line(stream, f"{took_words(view.took)}, working {duration_words(worked)}")


def _start(row: _Row, end: int, view: RunView, stream: Stream) -> list[Part]:
    """Sign, name and duration of a row."""
    word = _word(row, view)
    width = name_width(stream.width)
    name = left(fit(one_line(label_of(row.key)), width, stream.glyph("…")), width)
    took = right(duration_words(_spent(row, end)), 8 if stream.width >= 60 else 7)
    return [(stream.glyph(word), word), f" {name} {took}"]


def _spent(row: _Row, end: int) -> int:
    """Microseconds of its attempts and the waits between them; what a retry put aside and time without a process are left out."""
    kept = [span for span in row.spans if not span.cut] or row.spans
    total = 0
    for span in kept:
        total += span.lasted(end) or 0
        if span is not kept[-1] and span.next_attempt_at is not None and span.end_at is not None:
            total += max(0, span.next_attempt_at - span.end_at)
    return total


def _word(row: _Row, view: RunView) -> str:
    last = row.last
    if ":undo" in row.key and last.status == "succeeded":
        return "undone"
    if last.end_at is None:
        if last.is_wait:
            return "sleeping" if last.kind == "sleep" else "waiting"
        return "interrupted" if view.phase is Phase.INTERRUPTED else "running"
    if last.status == "failed" and last.next_attempt_at is not None and view.row.finished_at is None:
        return "retrying"
    return last.status


def _note(row: _Row) -> str:
    last = row.last
    if last.child:
        return f"child {last.child}"
    if last.is_wait:
        return f"by {last.by}" if last.by else ""
    return count(len(row.spans), "try")


def _in_words(row: _Row, view: RunView, end: int, stream: Stream) -> str:
    note = ""
    if stream.width >= 40:
        note = (row.last.by or "") if row.last.is_wait else _note(row) if len(row.spans) > 1 or row.last.child else ""
    return line(stream, *_start(row, end, view, stream), f"  {note}" if note else "")


def _bar_row(row: _Row, view: RunView, scale: Scale, end: int, stream: Stream) -> str:
    bars = Bars(scale, stream)
    alive = view.phase is not Phase.INTERRUPTED
    for span in row.spans:
        bars.wait(span, end)
    for span in row.spans:
        bars.work(span, end, undo=":undo" in row.key)
    for span in row.spans:
        bars.mark(span, end, alive=alive)
    if row.last.is_wait and row.last.by:
        comment = f': "{row.last.comment}"' if row.last.comment else ""
        sign = stream.glyph(row.last.status)
        bars.say(one_line(f"{sign} {row.last.by}{comment}"))
    parts = _start(row, end, view, stream)
    if stream.width >= WITH_NOTES:
        parts.append(" " + left(fit(one_line(_note(row)), NOTE, stream.glyph("…")), NOTE))
    return line(stream, *parts, " ", *bars.parts())
