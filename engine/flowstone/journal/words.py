"""Durations in words, at most three digits that matter; exact values stand in the JSON documents. Input is microseconds."""

SECOND = 1_000_000


def duration_words(us: int) -> str:
    """`3ms`, `1.23s`, `12.4s`, `3m07s`, `2h14m`, `2d03h`. Rounded; a negative duration (a clock set back) counts as nothing."""
    us = max(0, us)
    if round(us / 1000) < 1000:
        return "<1ms" if 0 < us < 500 else f"{round(us / 1000)}ms"
    return took_words(us)


def took_words(us: int) -> str:
    """Like `duration_words`, but in seconds from the start (`0.02s`): how long a run took."""
    us = max(0, us)
    if round(us / 10_000) < 1000:
        return f"{us / SECOND:.2f}s"
    if round(us / 100_000) < 600:
        return f"{us / SECOND:.1f}s"
    seconds = round(us / SECOND)
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    minutes = round(us / SECOND / 60)
    if minutes < 1440:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    hours = round(us / SECOND / 3600)
    return f"{hours // 24}d{hours % 24:02d}h" if hours < 2400 else f"{round(hours / 24)}d"


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
    seconds = max(0, round(us / SECOND))
    for limit, size, unit in ((60, 1, "s"), (3600, 60, minute), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{seconds // size}{unit}"
    return f"{round(seconds / 86_400)}d"
