"""The time axis: where it is cut, and that it never lies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowstone.journal.scale import CUT_CELLS, scale_of
from flowstone.journal.timeline import busy, spans
from support.journal_builder import SECOND, START, five_minutes

MILLISECOND = 1000
DAY = 86_400 * SECOND


@st.composite
def axes(draw):
    """Busy intervals (sorted, disjoint, some without length), and how many columns there are."""
    lengths = st.one_of(st.integers(0, 200_000), st.integers(0, 10**12))
    at, found = START, []
    for _ in range(draw(st.integers(0, 12))):
        begin = at + draw(lengths) + (1 if found else 0)
        at = begin + draw(lengths)
        found.append((begin, at))
    return found, START, at + draw(lengths), draw(st.integers(1, 200))


def test_the_five_minutes_session_has_two_cuts_and_361_ms_per_cell():
    journal = five_minutes()
    scale = scale_of(busy(spans(journal.events), journal.at), START, journal.at, 44)
    assert [cut.hidden for cut in scale.cuts] == [8 * SECOND, 41 * SECOND]
    assert (scale.hidden, round(scale.per_cell / 1000)) == (49 * SECOND, 361)
    assert [(tick.kind, tick.value) for tick in scale.ticks()] == [
        ("start", 0), ("cut", 8 * SECOND), ("cut", 41 * SECOND), ("end", 62 * SECOND),
    ]  # fmt: skip


def test_a_wait_of_days_between_short_steps_is_drawn_through_its_cut():
    work = [(START, START + SECOND), (START + SECOND + 2 * DAY, START + 2 * SECOND + 2 * DAY)]
    scale = scale_of(work, START, work[1][1], 44)
    (cut,) = scale.cuts
    assert scale.cells(START + SECOND, START + SECOND + 2 * DAY) == range(cut.column, cut.column + CUT_CELLS)
    assert scale.cells(*work[0]) == range(cut.column)
    assert scale.cells(*work[1]) == range(cut.column + CUT_CELLS, 44)
    assert scale.column(START + DAY) == cut.column + 1


def test_a_gap_of_a_third_is_not_cut():
    assert scale_of([(0, 65 * SECOND)], 0, 100 * SECOND, 80).cuts == ()
    assert len(scale_of([(0, 64 * SECOND)], 0, 100 * SECOND, 80).cuts) == 1


def test_a_gap_of_a_tenth_of_a_second_is_not_cut():
    assert scale_of([(0, 1)], 0, 100_001, 80).cuts == ()


def test_there_is_at_most_one_cut_per_16_columns():
    work = [(at * DAY, at * DAY + 1) for at in (0, 1, 11, 111, 1111, 11111)]
    assert [len(scale_of(work, 0, 11111 * DAY + 1, columns).cuts) for columns in (15, 16, 31, 32, 79)] == [0, 1, 1, 2, 4]


def test_a_linear_scale_has_no_cuts():
    assert scale_of([(0, 1)], 0, DAY, 80, cut=False).cuts == ()


def test_a_moment_between_two_cuts_has_a_cell_of_its_own():
    work = [(0, SECOND), (DAY, DAY), (2 * DAY, 2 * DAY + SECOND)]
    scale = scale_of(work, 0, 2 * DAY + SECOND, 44)
    first, second = scale.cuts
    assert scale.cells(DAY, DAY) == range(first.column + CUT_CELLS, second.column)


@pytest.mark.parametrize("end", [START, START - SECOND])
def test_a_run_without_length_fits_in_one_cell(end):
    scale = scale_of([], START, end, 44)
    assert scale.cells(START, START) == range(1)
    assert (scale.hidden, scale.shown) == (0, 0)


@given(axes())
def test_nothing_that_runs_is_cut(axis):
    work, start, end, columns = axis
    scale = scale_of(work, start, end, columns)
    for cut in scale.cuts:
        assert all(finish <= cut.start or begin >= cut.end for begin, finish in work)


@given(axes())
def test_work_is_never_drawn_in_the_cells_of_a_cut(axis):
    work, start, end, columns = axis
    scale = scale_of(work, start, end, columns)
    cut_cells = {cut.column + cell for cut in scale.cuts for cell in range(CUT_CELLS)}
    for begin, finish in work:
        cells = scale.cells(begin, finish)
        assert cells
        assert set(cells) <= set(range(columns)) - cut_cells


@given(axes(), st.lists(st.integers(-SECOND, 10**13), min_size=2, max_size=30))
def test_later_instants_are_never_further_left(axis, offsets):
    work, start, end, columns = axis
    scale = scale_of(work, start, end, columns)
    instants = sorted([start + offset for offset in offsets] + [at for interval in work for at in interval])
    for place in (scale.column, scale.last_column):
        found = [place(at) for at in instants]
        assert found == sorted(found)
        assert all(0 <= column < columns for column in found)


@given(axes())
def test_what_is_shown_and_what_is_hidden_is_all(axis):
    work, start, end, columns = axis
    scale = scale_of(work, start, end, columns)
    assert scale.shown + scale.hidden == end - start
    assert scale.shown >= 0
    cells = columns - CUT_CELLS * len(scale.cuts)
    assert scale.shown == 0 or abs(cells * scale.per_cell - scale.shown) < 1


@given(axes())
def test_ticks_stand_in_order_outside_of_cuts(axis):
    work, start, end, columns = axis
    scale = scale_of(work, start, end, columns)
    ticks = scale.ticks()
    assert [tick.column for tick in ticks] == sorted(tick.column for tick in ticks)
    assert len(ticks) <= columns + 2
    for cut in scale.cuts:
        assert not any(cut.column <= tick.column < cut.column + CUT_CELLS for tick in ticks if tick.kind == "tick")
