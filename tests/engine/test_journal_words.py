"""Durations in words: the forms of CLI.md 3.2, and their edges."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowstone.journal.words import ago_words, due_words, duration_words, lasting_words, left_words, milliseconds, took_words

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


@pytest.mark.parametrize(
    ("us", "words"),
    [
        (0, "0ms"),
        (3, "<1ms"),
        (499, "<1ms"),
        (500, "1ms"),
        (12_000, "12ms"),
        (999_499, "999ms"),
        (999_500, "1.00s"),
        (1_230_000, "1.23s"),
        (9_995_001, "10.0s"),
        (12_400_000, "12.4s"),
        (59_960_000, "1m00s"),
        (3 * MINUTE + 7 * SECOND, "3m07s"),
        (2 * HOUR + 14 * MINUTE, "2h14m"),
        (2 * DAY + 3 * HOUR, "2d03h"),
        (2 * DAY - SECOND, "2d00h"),
        (-5 * SECOND, "0ms"),
    ],
)
def test_a_duration_has_at_most_three_digits_that_matter(us, words):
    assert duration_words(us) == words


def test_the_time_a_run_took_is_in_seconds_from_the_start():
    assert [took_words(us) for us in (20_000, 490_000, 49 * SECOND, 62 * SECOND)] == ["0.02s", "0.49s", "49.0s", "1m02s"]


def test_what_is_due_is_told_forwards_and_what_is_past_backwards():
    assert due_words(2 * DAY) == "in 2d00h"
    assert due_words(-3 * MINUTE) == "3 min ago"
    assert ago_words(4 * MINUTE) == "4m ago"
    assert ago_words(2 * DAY + 3 * HOUR) == "2d ago"
    assert left_words(3 * DAY) == "3d left"


@given(st.integers(-10, 10**15))
def test_words_stay_short_and_never_hold_sixty_seconds_or_minutes(us):
    words = duration_words(us)
    assert len(words) <= 6
    assert re.search(r"\d[mh]60|^60\.|^60m|^24h|d24h|^1000ms", words) is None or words.startswith("60ms")


UNITS = {"ms": 1000, "s": SECOND, "m": MINUTE, " min": MINUTE, "h": HOUR, "d": DAY}
SHOWS = {
    "duration": duration_words,
    "took": took_words,
    "lasting": lasting_words,
    "left": lambda us: left_words(us).removesuffix(" left"),
    "ago": lambda us: ago_words(us).removesuffix(" ago"),
    "due": lambda us: due_words(us + 1).removeprefix("in "),
    "expired": lambda us: due_words(-us).removesuffix(" ago"),
}
"""What shows a duration → the shown text."""
durations = st.one_of(
    st.integers(0, 10**15),
    st.builds(
        lambda count, unit, off: max(0, count * unit + off),
        st.integers(0, 120),
        st.sampled_from([*UNITS.values()]),
        st.integers(-2 * SECOND, 2 * SECOND),
    ),
    st.builds(lambda unit, off: unit + off, st.sampled_from([MINUTE, HOUR, DAY, 100 * DAY]), st.integers(-HOUR, HOUR)),
).map(lambda us: max(0, us))


def read(text: str) -> tuple[int, int]:
    """What a shown duration says, and its smallest unit, in microseconds."""
    if text == "<1ms":
        return 0, 1000
    total, unit = 0, 0
    for number, decimals, name in re.findall(r"(\d+)(\.\d+)?( min|ms|[smhd])", text):
        unit = UNITS[name] // 10 ** max(0, len(decimals) - 1)
        total += int(number) * UNITS[name] + round(float(f"0{decimals or '.0'}") * UNITS[name])
    return total, unit


@pytest.mark.parametrize("shows", SHOWS.values(), ids=list(SHOWS))
@given(us=durations)
def test_what_is_shown_is_the_truth_to_half_of_its_smallest_unit(shows, us):
    shown, unit = read(shows(us))
    assert abs(shown - us) <= unit // 2 + 501  # the other half millisecond: JSON has whole ones
    assert shown < us + unit


@pytest.mark.parametrize("shows", SHOWS.values(), ids=list(SHOWS))
@given(one=durations, other=durations)
def test_a_longer_time_never_looks_shorter(shows, one, other):
    shorter, longer = sorted((one, other))
    assert read(shows(shorter))[0] <= read(shows(longer))[0]


@given(us=durations)
def test_the_exact_documents_and_the_words_show_the_same(us):
    for shows in (duration_words, took_words):
        assert shows(milliseconds(us) * 1000) == shows(us) or us < 500


def test_a_deadline_in_a_bit_less_than_a_day_is_a_day_everywhere():
    soon = DAY - 20 * SECOND
    assert (due_words(soon), left_words(soon), lasting_words(soon)) == ("in 1d00h", "1d left", "1d00h")
