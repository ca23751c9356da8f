"""`flow timeline`: one row per step on one honest time axis; in a pipe one line per attempt or wait."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from flowstone.journal.notes import resolved_words
from flowstone.journal.phase import Phase
from flowstone.journal.scale import Scale, scale_of
from flowstone.journal.timeline import Span, busy, span_document, working
from flowstone.journal.words import duration_words, took_words
from flowstone_cli.clean import cells, fit, left, one_line, right
from flowstone_cli.render import spoken
from flowstone_cli.render.bars import Bars, axis, labels
from flowstone_cli.render.rows import Drawn, Lane, Row, Test, drawn, most_at_once, named, only, select, tree
from flowstone_cli.render.status import name_width
from flowstone_cli.render.text import Part, count, line, tsv
from flowstone_cli.terminal import Stream
from flowstone_cli.view import RunView

WITH_BARS = 60
"""The narrowest window with bars; below it attempts are told in words."""
WITH_NOTES = 100
NOTE = 13


@dataclass(frozen=True, slots=True)
class Look:
    """Which part of a timeline is asked for."""

    everything: bool = False
    """All rows, however many."""
    only: str | None = None
    """failed, waiting or slow."""
    step: str | None = None
    """A pattern that rows must fit."""
    expand: str | None = None
    """A pattern of fan-outs that are drawn whole."""
    since: int | None = None
    until: int | None = None
    """From when to when, in microseconds."""


class _Drawing:
    """What every line of one drawing needs."""

    def __init__(self, view: RunView, scale: Scale | None, end: int, stream: Stream) -> None:
        self.view = view
        self.scale = scale
        self.end = end
        self.stream = stream


def people(view: RunView, found: Sequence[Span], children: Mapping[str, Lane], stream: Stream, look: Look) -> str:
    """The drawing, as wide as the window. `children`: the child runs by id, theirs too."""
    start, end = _window(view, look)
    lane = Lane(found, view.phase, view.row.finished_at is not None)
    rows = _selected(tree(lane, children, lambda span: _within(span, look, end)), look, end)
    chosen = drawn(
        rows, end, stream.glyph, everything=look.everything, expand=None if look.expand is None else named(look.expand)
    )
    intervals = busy((_working(span, children) for one in (lane, *children.values()) for span in one.spans), end)
    worked = working(intervals)
    if stream.spoken:
        return spoken.timeline(
            view, chosen, scale_of(_clipped(intervals, start, end), start, end, WITH_BARS), worked, end, stream
        )
    if stream.width < WITH_BARS:
        drawing = _Drawing(view, None, end, stream)
        return _narrow_head(view, worked, stream) + "".join(_line(one, drawing) for one in chosen)
    at = _bars_from(stream)
    scale = scale_of(_clipped(intervals, start, end), start, end, stream.width - at)
    drawing = _Drawing(view, scale, end, stream)
    made = _head(view, worked, scale, stream)
    made += line(stream, " " * at, labels(scale, start - view.row.created_at))
    made += line(stream, " " * at, (axis(scale, stream), "quiet"))
    return made + "".join(_line(one, drawing) for one in chosen)


def _working(span: Span, children: Mapping[str, Lane]) -> Span:
    """A span as it counts for what is busy: when a child run that is not here worked nobody knows, so all the time."""
    return replace(span, kind="step") if span.kind == "child" and span.child not in children else span


def shown(view: RunView, found: Sequence[Span], look: Look) -> list[Span]:
    """The spans that are asked for, by their start: what a pipe gets."""
    _, end = _window(view, look)
    within = [span for span in found if _within(span, look, end)]
    if look.only is None and look.step is None:
        return within
    lane = Lane(within, view.phase, view.row.finished_at is not None)
    rows = _selected(tree(lane, {}), look, end)
    return sorted((span for row in rows for span in row.everything), key=lambda span: span.start_n)


def piped(found: Sequence[Span]) -> str:
    """Events, start, end, milliseconds, kind, status, step, attempt, child, error."""
    made = []
    for span in found:
        one = span_document(span)
        numbers = f"{span.start_n}-{'' if span.end_n is None else span.end_n}"
        marks = ["resolved"] if span.resolved else []
        status = ", ".join([span.status, *marks, *(["cut"] if span.cut else [])])
        times = (one["start_at"], one["end_at"], one["duration_ms"])
        made.append(tsv(numbers, *times, span.kind, status, span.step, span.attempt, span.child, _resolved(span) or span.error))
    return "".join(made)


def _resolved(span: Span) -> str:
    return resolved_words(span.resolved, span.by, span.comment) if span.resolved else ""


def _selected(rows: list[Row], look: Look, end: int) -> list[Row]:
    tests: list[Test] = []
    if look.step is not None:
        tests.append(named(look.step))
    if look.only is not None:
        tests.append(only(look.only, rows, end))
    for test in tests:
        rows = select(rows, test)
    return rows


def _window(view: RunView, look: Look) -> tuple[int, int]:
    """From when to when the axis goes."""
    until = end_of(view)
    start = view.row.created_at if look.since is None else max(view.row.created_at, look.since)
    return start, until if look.until is None else min(until, look.until)


def _within(span: Span, look: Look, end: int) -> bool:
    until = end if span.end_at is None else span.end_at
    return (look.since is None or until >= look.since) and (look.until is None or span.start_at <= look.until)


def _clipped(intervals: Iterable[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    return [(max(start, one), min(end, other)) for one, other in intervals if other >= start and one <= end]


def end_of(view: RunView) -> int:
    """Until when the axis goes: the run's end, now while something may still come, else its last event."""
    if view.row.finished_at is not None:
        return view.row.finished_at
    return view.worked_until if view.phase is Phase.INTERRUPTED else max(view.now, view.row.updated_at)


def _bars_from(stream: Stream) -> int:
    start = 2 + name_width(stream.width) + 1 + 8 + 1
    return start + NOTE + 2 if stream.width >= WITH_NOTES else start


def _head(view: RunView, worked: int, scale: Scale, stream: Stream) -> str:
    phase, wide = view.phase.value, stream.width >= WITH_NOTES
    took = f"{took_words(view.took)}, working {duration_words(worked)}"
    hides = f"{count(len(scale.cuts), 'cut')} {'hides' if len(scale.cuts) == 1 else 'hide'} {took_words(scale.hidden)}"
    gap = "   " if wide else "  "
    backwards = any(one.at > other.at for one, other in pairwise(view.events))
    parts = [took, *([hides] if scale.cuts else []), f"{_cell_words(scale.per_cell)}/cell", *(["clock!"] if backwards else [])]
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


def _line(one: Drawn, drawing: _Drawing) -> str:
    stream, row = drawing.stream, one.row
    if row is None:
        return _hidden(one, drawing)
    word, width = row.word, name_width(stream.width)
    branches = one.branches if cells(one.branches) <= width // 2 else one.branches[-(width // 2) :]
    many = f"  {row.size:,}{stream.glyph('×')}" if row.size else ""
    name = branches + fit(one_line(row.label), max(1, width - cells(branches + many)), stream.glyph("…")) + many
    took = right(duration_words(row.spent(drawing.end)), 8 if stream.width >= WITH_BARS else 7)
    parts: list[Part] = [(stream.glyph(word), word), f" {left(fit(name, width), width)} {took}"]
    note = _note(row, drawing.view, stream)
    if drawing.scale is None:
        told = stream.width >= 40 and (row.size or row.last.is_wait or row.last.child or len(row.spans) > 1)
        parts.append(f"  {note}" if told and note else "")
        return line(stream, *parts) + _said(row, drawing)
    if stream.width >= WITH_NOTES:
        parts.append(" " + left(fit(one_line(note), NOTE, stream.glyph("…")), NOTE))
    made = line(stream, *parts, " ", *_bars(one, drawing.scale, drawing).parts())
    return made + (_counts(row, drawing) if one.folded else _said(row, drawing))


def _said(row: Row, drawing: _Drawing) -> str:
    """The line under a step whose outcome a person has said: who and why."""
    if row.size or not row.last.resolved:
        return ""
    stream = drawing.stream
    return line(stream, ("    " + fit(one_line(_resolved(row.last)), max(8, stream.width - 4), stream.glyph("…")), "quiet"))


def _bars(one: Drawn, scale: Scale, drawing: _Drawing) -> Bars:
    row, end, bars = one.row, drawing.end, Bars(scale, drawing.stream)
    assert row is not None
    found = row.everything
    if one.folded:
        work = [span for span in found if not span.is_wait]
        bars.at_once(work, end, max(1, most_at_once(work, end)))
        return bars
    for span in found:
        bars.wait(span, end)
    for span in found:
        bars.work(span, end, undo=span.kind == "undo")
    if row.size:
        return bars
    for span in found:
        bars.mark(span, end, alive=row.lane.phase is not Phase.INTERRUPTED)
    if row.last.is_wait and row.last.by:
        comment = f': "{row.last.comment}"' if row.last.comment else ""
        bars.say(one_line(f"{drawing.stream.glyph(row.last.status)} {row.last.by}{comment}"))
    else:
        types = dict.fromkeys(span.error.partition(":")[0] for span in found if span.error)
        bars.say(one_line(", ".join(types)), whole=True)
    return bars


def _note(row: Row, view: RunView, stream: Stream) -> str:
    if row.size:
        return "parallel"
    last = row.last
    if last.child:
        return f"{stream.glyph('→')} {last.child[: len(view.id)]}"
    if last.is_wait:
        return f"by {last.by}" if last.by else ""
    if last.kind == "undo" and len(row.spans) == 1:
        return "compensation"
    return count(len(row.spans), "try")


def _counts(row: Row, drawing: _Drawing) -> str:
    """The line under a folded fan-out, as many facts as there is room for."""
    ends = Counter(member.word for member in row.under)
    found = row.everything
    took = sorted(span.lasted(drawing.end) or 0 for span in found if not span.cut)
    again = sum(len(member.spans) > 1 for member in row.under if member.simple)
    facts = [f"{number:,} {word}" for word, number in ends.items()]
    facts += [f"{again:,} after retry"] if again else []
    facts += [f"{name} {duration_words(took[int(share * (len(took) - 1))])}" for name, share in _SHARES]
    facts.append(f"most at once {most_at_once((span for span in found if not span.is_wait), drawing.end)}")
    made = "   "
    for fact in facts:
        if drawing.stream.terminal and cells(f"{made} {fact}") <= drawing.stream.width:
            made += f" {fact} "
    return line(drawing.stream, (made, "quiet"))


_SHARES = (("p50", 0.5), ("p95", 0.95), ("max", 1.0))


def _hidden(one: Drawn, drawing: _Drawing) -> str:
    stream, view = drawing.stream, drawing.view
    dots = stream.glyph("…")
    if one.of is None:
        return line(stream, f"{dots} {one.hidden:,} more rows: flow timeline {view.id} --all")
    start = f"  {one.branches}{dots} {one.hidden:,} more"
    pattern = one.of.label + ("[*]" if any("[" in member.label for member in one.of.under) else "*")
    hint = f"--expand '{one_line(pattern)}'   or   --only slow"
    at = _bars_from(stream) if stream.width >= WITH_BARS else 0
    room = stream.width - max(at, cells(start) + 2)
    return line(stream, left(start, at) if cells(start) < at else start + "  ", hint if cells(hint) <= room else "")
