"""Durations as authors write them: text such as "1h30m" or a timedelta, to whole microseconds and back."""

import re
from datetime import timedelta
from fractions import Fraction

from flowstone.errors import BadData

UNITS = {"w": 604_800_000_000, "d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1000}
"""Microseconds of each unit."""
LONGEST = 36_525 * UNITS["d"]
"""A hundred years: with more, instants leave the calendar."""

PART = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*(ms|[smhdw])\s*")
BARE = re.compile(r"[0-9]+(\.[0-9]*)?\Z")
HINT = 'write it like "500ms", "2s", "10m", "1h30m" or "2d"'


def parse(value: str | timedelta) -> int:
    """Microseconds of a duration. Raises BadData for anything that has no unit, is negative or longer than 100 years."""
    given: object = value  # authors' code is not always checked against the signature
    if isinstance(given, timedelta):
        total = given // timedelta(microseconds=1)
    elif isinstance(given, str):
        total = _parse_text(given.strip())
    elif isinstance(given, int | float) and not isinstance(given, bool):
        raise _bare(f"{given:g}" if isinstance(given, float) else str(given))
    else:
        raise BadData(f"a {type(given).__name__} is no duration", hint=HINT)
    if total < 0:
        raise BadData("a duration cannot be negative", hint=HINT)
    if total > LONGEST:
        raise BadData("a duration cannot be longer than 100 years", hint=HINT)
    return total


def _parse_text(text: str) -> int:
    if BARE.match(text):
        raise _bare(text)
    if text.startswith("-") and PART.match(text[1:]):
        return -1
    total = Fraction(0)
    position = 0
    while part := PART.match(text, position):
        total += Fraction(part[1]) * UNITS[part[2]]
        position = part.end()
    if position == 0 or position < len(text):
        raise BadData(f"{text[:40]!r} is no duration", hint=HINT)
    return round(total)


def _bare(number: str) -> BadData:
    return BadData(f'{number} could be seconds or milliseconds: write "{number}s" or "{number}ms"', hint=HINT)


def to_text(us: int) -> str:
    """Microseconds as text that `parse` reads to the same number: "1h30m", "2.5s", "500ms"."""
    if us == 0:
        return "0s"
    text = ""
    for unit in "dhm":
        count, us = divmod(us, UNITS[unit])
        text += f"{count}{unit}" if count else ""
    if us >= UNITS["s"] or (us and text):
        text += f"{_decimal(us, 6)}s"
    elif us:
        text += f"{_decimal(us, 3)}ms"
    return text


def _decimal(number: int, places: int) -> str:
    whole, rest = divmod(number, 10**places)
    return f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".")
