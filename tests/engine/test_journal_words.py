"""Durations in words: the forms of CLI.md 3.2, and their edges."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowstone.journal.words import ago_words, due_words, duration_words, left_words, took_words

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


@pytest.mark.parametrize(
    ("us", "words"),
    [
        (0, "0ms"),
        (3, "<1ms"),
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
