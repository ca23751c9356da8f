"""Durations in words, at most three digits that matter; exact values stand in the JSON documents. Input is microseconds.

One rule for all of them: whole milliseconds first, as in the JSON documents, then the nearest whole of the smallest unit shown,
halves upwards. So two places that show one duration differ at most in how fine they are, and a longer one never looks shorter.
"""

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


def whole(us: int, unit: int) -> int:
    """How many whole units of so many microseconds: the nearest number, halves upwards."""
    return (milliseconds(us) * 1000 + unit // 2) // unit


def milliseconds(us: int) -> int:
    """A duration in whole milliseconds."""
    return (us + 500) // 1000


def duration_words(us: int) -> str:
    """`3ms`, `1.23s`, `12.4s`, `3m07s`, `2h14m`, `2d03h`. Rounded; a negative duration (a clock set back) counts as nothing."""
    us = max(0, us)
    if milliseconds(us) < 1000:
        return "<1ms" if 0 < us < 500 else f"{milliseconds(us)}ms"
    return took_words(us)


def took_words(us: int) -> str:
    """Like `duration_words`, but in seconds from the start (`0.02s`): how long a run took."""
    us = max(0, us)
    if (hundredths := whole(us, SECOND // 100)) < 1000:
        return f"{hundredths // 100}.{hundredths % 100:02d}s"
    if (tenths := whole(us, SECOND // 10)) < 600:
        return f"{tenths // 10}.{tenths % 10}s"
    if (seconds := whole(us, SECOND)) < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    if (minutes := whole(us, MINUTE)) < 1440:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    hours = whole(us, HOUR)
    return f"{hours // 24}d{hours % 24:02d}h" if hours < 2400 else f"{whole(us, DAY)}d"


def lasting_words(us: int) -> str:
    """How long something has been going on: tenths of a second only at first, so that what is redrawn seldom changes."""
    us = max(0, us)
    if (tenths := whole(us, SECOND // 10)) < 100:
        return f"{tenths // 10}.{tenths % 10}s"
    seconds = whole(us, SECOND)
    return f"{seconds}s" if seconds < 60 else took_words(seconds * SECOND)


def ago_words(us: int) -> str:
    """How long ago, in one unit: `4m ago`, `2d ago`."""
    return f"{_one_unit(us, 'm')} ago"


def left_words(us: int) -> str:
    """How much time is left, in one unit: `3d left`."""
    return f"{_one_unit(us, 'm')} left"


def due_words(us: int) -> str:
    """When something is due, `us` from now: `in 2d00h`; if it is past: `3 min ago`."""
    return f"in {duration_words(us)}" if us > 0 else f"{_one_unit(-us, ' min')} ago"


def _one_unit(us: int, minute: str) -> str:
    us = max(0, us)
    for limit, size, unit in ((60, SECOND, "s"), (60, MINUTE, minute), (24, HOUR, "h")):
        if (number := whole(us, size)) < limit:
            return f"{number}{unit}"
    return f"{whole(us, DAY)}d"
