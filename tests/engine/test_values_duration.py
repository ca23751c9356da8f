"""Durations as text, to microseconds and back."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowstone.errors import BadData
from flowstone.values.duration import LONGEST, parse, to_text


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("500ms", 500_000),
        ("2s", 2_000_000),
        ("10m", 600_000_000),
        ("1h30m", 5_400_000_000),
        ("1.5h", 5_400_000_000),
        ("2d", 172_800_000_000),
        ("1w", 604_800_000_000),
        ("0s", 0),
        ("0.1s", 100_000),
        ("0.001ms", 1),
        (" 1h 30m ", 5_400_000_000),
        (timedelta(milliseconds=3), 3_000),
        (timedelta(microseconds=1), 1),
        (timedelta(0), 0),
    ],
)
def test_durations_are_read(text: Any, microseconds: int) -> None:
    assert parse(text) == microseconds


@pytest.mark.parametrize(("value", "number"), [(10, "10"), ("10", "10"), (1.5, "1.5"), ("1.5", "1.5"), (" 10 ", "10")])
def test_a_bare_number_is_refused_with_both_readings(value: Any, number: str) -> None:
    with pytest.raises(BadData) as refusal:
        parse(value)
    assert str(refusal.value) == f'{number} could be seconds or milliseconds: write "{number}s" or "{number}ms"'


@pytest.mark.parametrize("value", ["-2s", timedelta(seconds=-1), -1, "-1h30m"])
def test_negative_durations_are_refused(value: Any) -> None:
    with pytest.raises(BadData):
        parse(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "s",
        "1x",
        "1h30",
        "10 minutes",
        "1h-30m",
        "٣s",
        "1.s",
        ".5s",
        "1e3s",
        "PT10M",
        True,
        None,
        [],
        b"2s",
        "nan s",
        "9" * 5000 + "w",
    ],
)
def test_other_things_are_refused_with_examples(value: Any) -> None:
    with pytest.raises(BadData) as refusal:
        parse(value)
    assert refusal.value.hint is not None
    assert "1h30m" in refusal.value.hint


def test_durations_end_at_a_hundred_years() -> None:
    assert parse("36525d") == LONGEST
    with pytest.raises(BadData, match="100 years"):
        parse("36526d")
    with pytest.raises(BadData, match="100 years"):
        parse("9" * 20 + "w")


@given(st.integers(0, LONGEST))
def test_text_is_read_to_the_same_number(microseconds: int) -> None:
    assert parse(to_text(microseconds)) == microseconds


@pytest.mark.parametrize(
    ("microseconds", "text"), [(0, "0s"), (500_000, "500ms"), (2_500_000, "2.5s"), (5_400_000_000, "1h30m"), (1, "0.001ms")]
)
def test_text_is_short(microseconds: int, text: str) -> None:
    assert to_text(microseconds) == text
