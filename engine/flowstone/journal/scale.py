"""The time axis of a timeline: one linear scale with cuts where nothing runs (CLI.md 3.2). Pure numbers, no drawing.

Instants and durations are microseconds, places are columns (cells) from 0. A cut takes 4 cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

CUT_CELLS = 4
COLUMNS_PER_CUT = 16
SHORTEST_CUT = 100_000
CUT_SHARE = 0.35
"""A gap is cut while it takes more than this share of the time that is still shown."""
LABEL_CELLS = 11
"""How far apart ticks stand at least, so that their labels fit."""

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """A stretch of time that is left out; `column` is the first of its 4 cells."""

    start: int
    end: int
    column: int

    @property
    def hidden(self) -> int:
        """How much time it leaves out."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis."""

    column: int
    kind: str
    """start, tick, cut or end."""
    value: int
    """What its label says: time since the start, or since the last cut; for a cut how much it hides."""
    after_cut: bool = False
    """Whether a cut lies before it: its label then begins with `+`."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps instants to columns; the same for every row. Make it with `scale_of`."""

    start: int
    end: int
    columns: int
    per_cell: float
    """Microseconds of shown time in one cell."""
    cuts: tuple[Cut, ...]

    @property
    def hidden(self) -> int:
        """The time left out by all cuts."""
        return sum(cut.hidden for cut in self.cuts)

    @property
    def shown(self) -> int:
        """The time that the cells stand for."""
        return self.end - self.start - self.hidden

    def column(self, at: int) -> int:
        """The first cell of a bar that starts at `at`; inside a cut the cut's middle."""
        passed, before = self._before(at)
        if passed < len(self.cuts) and at >= self.cuts[passed].start:
            cut = self.cuts[passed]
            return cut.column if at == cut.start else cut.column + 1
        return self._cell(floor(before / self.per_cell), passed)

    def last_column(self, at: int) -> int:
        """The last cell of a bar that ends at `at`; one that ends with a cut ends in the cut's last cell."""
        for cut in self.cuts:
            if cut.start < at <= cut.end:
                return cut.column + (CUT_CELLS - 1 if at == cut.end else 2)
        passed, before = self._before(at)
        return self._cell(ceil(before / self.per_cell) - 1, passed)

    def cells(self, start: int, end: int) -> range:
        """The cells of a bar from `start` to `end`: at least one, and none of a cut that it only touches."""
        first, last = self.column(start), self.last_column(end)
        if last < first:  # no time to show: a cell beside a cut, not one in it
            first = last = next(cell for cell in (first, last, first - 1) if not self._in_cut(cell))
        return range(first, last + 1)

    def stretches(self) -> list[Interval | None]:
        """Per cell the time that it stands for, as (start, end); None for the cells of a cut."""
        made: list[Interval | None] = []
        hidden, passed, cell = 0, 0, 0
        while len(made) < self.columns:
            if passed < len(self.cuts) and len(made) >= self.cuts[passed].column:
                made += [None] * CUT_CELLS
                hidden += self.cuts[passed].hidden
                passed += 1
                continue
            begin, end = (self.start + hidden + round(edge * self.per_cell) for edge in (cell, cell + 1))
            made.append((begin, max(begin, min(end, self.end))))
            cell += 1
        return made[: self.columns]

    def is_short(self, start: int, end: int) -> bool:
        """Whether a bar is shorter than half a cell, and crosses no cut."""
        shown = self._before(end)[1] - self._before(start)[1]
        return shown < self.per_cell / 2 and len(self.cells(start, end)) == 1

    def ticks(self) -> list[Tick]:
        """Marks of the axis by column: start, round times where their labels fit, cuts, end."""
        marks = [Tick(0, "start", 0)]
        step = _round_time(self.per_cell * LABEL_CELLS)
        origin, free_from = self.start, LABEL_CELLS // 2
        for cut in (*self.cuts, None):
            stop, edge = (self.end, self.columns) if cut is None else (cut.start, cut.column)
            at = origin + step
            while at < stop:
                column = self.column(at)
                if column >= free_from and column + LABEL_CELLS <= edge:
                    marks.append(Tick(column, "tick", at - origin, origin != self.start))
                at += step
            if cut is not None:
                marks.append(Tick(cut.column, "cut", cut.hidden, True))
                origin, free_from = cut.end, cut.column + CUT_CELLS + LABEL_CELLS // 2
        return [*marks, Tick(self.columns - 1, "end", self.end - self.start)]

    def _before(self, at: int) -> tuple[int, int]:
        """How many cuts end before or at `at`, and the shown time before it."""
        at = min(max(at, self.start), self.end)
        passed, before = 0, at - self.start
        for cut in self.cuts:
            if at < cut.start:
                break
            before -= min(at, cut.end) - cut.start
            passed += at >= cut.end
        return passed, before

    def _cell(self, cell: int, passed: int) -> int:
        """The column of a cell of shown time, kept between the cuts beside it."""
        first = self.cuts[passed - 1].column + CUT_CELLS if passed else 0
        last = self.cuts[passed].column - 1 if passed < len(self.cuts) else self.columns - 1
        return min(max(cell + CUT_CELLS * passed, first), last)

    def _in_cut(self, column: int) -> bool:
        return any(cut.column <= column < cut.column + CUT_CELLS for cut in self.cuts)


def scale_of(busy: Sequence[Interval], start: int, end: int, columns: int, *, cut: bool = True) -> Scale:
    """The scale of `columns` cells from `start` to `end`; `busy` are sorted, disjoint intervals, which are never cut.

    With `cut=False` it has no cuts, nor if nothing was busy: the waits are then all there is to see. An `end` before `start` (a
    clock set back) counts as `start`.
    """
    columns, end = max(1, columns), max(start, end)
    shown = end - start
    chosen: list[Interval] = []
    if cut and busy:
        gaps = [gap for gap in _gaps(busy, start, end) if gap[1] - gap[0] > SHORTEST_CUT]
        for gap in sorted(gaps, key=lambda gap: gap[0] - gap[1])[: columns // COLUMNS_PER_CUT]:
            if gap[1] - gap[0] <= CUT_SHARE * shown:
                break
            chosen.append(gap)
            shown -= gap[1] - gap[0]
    chosen.sort()
    cells = columns - CUT_CELLS * len(chosen)
    per_cell = shown / cells if shown else 1.0
    return Scale(start, end, columns, per_cell, tuple(_placed(chosen, start, cells, per_cell)))


def _gaps(busy: Sequence[Interval], start: int, end: int) -> list[Interval]:
    gaps, free_from = [], start
    for begin, finish in busy:
        if begin > free_from:
            gaps.append((free_from, min(begin, end)))
        free_from = max(free_from, finish)
    if free_from < end:
        gaps.append((free_from, end))
    return gaps


def _placed(chosen: Sequence[Interval], start: int, cells: int, per_cell: float) -> list[Cut]:
    """Cuts with their columns. At least one cell stands before, between and after them, so that marks there have a place."""
    placed: list[Cut] = []
    hidden, previous = 0, 0
    for index, (begin, finish) in enumerate(chosen):
        cell = ceil((begin - start - hidden) / per_cell)
        previous = min(max(cell, previous + 1), cells - (len(chosen) - index))
        placed.append(Cut(begin, finish, previous + CUT_CELLS * index))
        hidden += finish - begin
    return placed


def _round_time(least: float) -> int:
    """The smallest round duration that is at least `least`."""
    second = 1_000_000
    for unit, factors in (
        (1000, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (second, (1, 2, 5, 10, 20, 30)),
        (60 * second, (1, 2, 5, 10, 20, 30)),
        (3600 * second, (1, 2, 6, 12)),
    ):
        for factor in factors:
            if unit * factor >= least:
                return unit * factor
    day = 86_400 * second
    return day * ceil(least / day)
