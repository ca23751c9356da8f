"""The cells of a timeline: the axis, its labels, and one row's bars. Waits are painted first, work next, marks last."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, groupby
from math import ceil

from flowstone.journal.scale import CUT_CELLS, Scale
from flowstone.journal.timeline import Span
from flowstone.journal.words import duration_words
from flowstone_cli.clean import cells, head
from flowstone_cli.render.text import Part
from flowstone_cli.terminal import LEVELS, Stream


def labels(scale: Scale, begin: int = 0) -> str:
    """The line above the axis: what each mark stands for, where there is room. `begin`: how long after the run it begins."""
    row = [" "] * scale.columns
    ticks = scale.ticks()
    for kind in ("end", "start", "cut", "tick"):
        for tick in ticks:
            if tick.kind != kind:
                continue
            since = tick.value if kind == "cut" or tick.after_cut else tick.value + begin
            text = "0" if kind == "start" and not begin else ("+" if tick.after_cut else "") + duration_words(since)
            at = tick.column
            if kind == "cut":
                at += (CUT_CELLS - len(text)) // 2
            elif kind == "end":
                at -= len(text) - 1
            around = row[max(0, at - 1) : at + len(text) + 1]
            if at >= 0 and at + len(text) <= scale.columns and not any(cell.strip() for cell in around):
                row[at : at + len(text)] = text
    return "".join(row)


def axis(scale: Scale, stream: Stream) -> str:
    """The axis: a rule with a mark at each round time and `//` at each cut."""
    row = [stream.glyph("─")] * scale.columns
    for tick in scale.ticks():
        if tick.kind == "tick":
            row[tick.column] = stream.glyph("┬")
    _draw_cuts(row, scale)
    return "".join(row)


def _draw_cuts(row: list[str], scale: Scale) -> None:
    for cut in scale.cuts:
        row[cut.column : cut.column + CUT_CELLS] = " // "


class Bars:
    """One row, cell by cell."""

    def __init__(self, scale: Scale, stream: Stream) -> None:
        self._scale = scale
        self._stream = stream
        self._row = [" "] * scale.columns
        self._words = [""] * scale.columns
        _draw_cuts(self._row, scale)
        self._drawn_to = 0
        self._slashes = {cut.column + place for cut in scale.cuts for place in (1, 2)}

    def wait(self, span: Span, end: int) -> None:
        """A wait for time or a person, or the pause before the next attempt."""
        if span.kind == "sleep":
            self._bar(span.start_at, end if span.end_at is None else span.end_at, "─", "")
        elif span.is_wait:
            self._bar(span.start_at, end if span.end_at is None else span.end_at, "┄", "")
        elif span.next_attempt_at is not None and span.end_at is not None:
            self._bar(span.end_at, min(span.next_attempt_at, end), "·", "quiet" if span.cut else "")

    def work(self, span: Span, end: int, *, undo: bool) -> None:
        """An attempt; one that is shorter than half a cell is a thin one."""
        if span.is_wait:
            return
        until = end if span.end_at is None else span.end_at
        word = "quiet" if span.cut else "undone" if undo else ""
        if self._scale.is_short(span.start_at, until):
            self._put(self._scale.cells(span.start_at, until)[-1], "▏", word)
        else:
            self._bar(span.start_at, until, "▒" if undo else "█", word)

    def mark(self, span: Span, end: int, *, alive: bool) -> None:
        """How an attempt ended, if not well, or that it still goes on."""
        if span.is_wait:
            return
        until = end if span.end_at is None else span.end_at
        last = self._scale.cells(span.start_at, until)[-1]
        if span.end_at is None:
            self._put(last, "running" if alive else "interrupted", "running" if alive else "interrupted")
        elif span.status in ("failed", "interrupted", "cancelled"):
            self._put(last, span.status, "quiet" if span.cut else span.status)

    def at_once(self, found: Sequence[Span], end: int, most: int) -> None:
        """How many of the spans go on at the same time, cell by cell; the tallest sign is `most`."""
        starts = sorted(span.start_at for span in found)
        ends = sorted(max(span.start_at, end if span.end_at is None else span.end_at) for span in found)
        sums = [0, *accumulate(starts)], [0, *accumulate(ends)]

        def worked(until: int) -> int:
            """Microseconds that all of them together have taken until then."""
            begun, over = bisect_right(starts, until), bisect_right(ends, until)
            return begun * until - sums[0][begun] - (over * until - sums[1][over])

        for column, stretch in enumerate(self._scale.stretches()):
            if stretch is not None and (work := worked(stretch[1]) - worked(stretch[0])) > 0:
                share = work / max(1, stretch[1] - stretch[0]) / most
                self._put(column, LEVELS[min(len(LEVELS) - 1, max(0, ceil(share * len(LEVELS)) - 1))], "")

    def say(self, text: str, *, whole: bool = False) -> None:
        """Words after the last bar, where nothing else is drawn; with `whole` only if there is room for all of them."""
        at = self._drawn_to + 2
        free = 0
        while at + free < len(self._row) and self._row[at + free] == " " and at + free not in self._slashes:
            free += 1
        shown = head(text, free, self._stream.glyph("…"))
        if shown == text or (not whole and cells(shown) >= 5):
            self._row[at : at + cells(shown)] = _in_cells(shown)

    def parts(self) -> list[Part]:
        """The row as text and colours."""
        made: list[Part] = []
        for word, group in groupby(zip(self._row, self._words, strict=True), key=lambda cell: cell[1]):
            text = "".join(char for char, _ in group)
            made.append((text, word) if word else text)
        return made

    def _bar(self, start: int, end: int, sign: str, word: str) -> None:
        columns = self._scale.cells(start, end)
        first, last = columns[0], columns[-1]
        for cut in self._scale.cuts:  # one that begins or ends inside a cut is drawn beside the cut's slashes
            slashes = range(cut.column + 1, cut.column + CUT_CELLS - 1)
            first = cut.column if first in slashes else first
            last = cut.column + CUT_CELLS - 1 if last in slashes else last
        for column in range(first, last + 1):
            self._put(column, sign, word)

    def _put(self, column: int, sign: str, word: str) -> None:
        if column not in self._slashes:
            self._row[column] = self._stream.glyph(sign)
            self._words[column] = word
            self._drawn_to = max(self._drawn_to, column)


def _in_cells(text: str) -> list[str]:
    """Text as one entry per cell, so that wide letters keep the row's columns."""
    row: list[str] = []
    for char in text:
        width = cells(char)
        if width == 0 and row:
            row[-1] += char
        else:
            row += [char, *[""] * (width - 1)]
    return row
