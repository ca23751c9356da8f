"""The only place that asks what time it is. Instants are integer microseconds since 1970, UTC."""

import time
from datetime import UTC, datetime
from typing import Protocol

MICROSECONDS = 1_000_000


class Clock(Protocol):
    """Tells the instant and waits for one; passed in wherever time matters, so that tests can move it."""

    def now(self) -> int:
        """The present instant in microseconds UTC."""
        ...

    async def wait(self, until: int) -> None:
        """Return at `until` or earlier; callers compare again and call again."""
        ...


class SystemClock:
    """The machine's wall clock."""

    SLICE = 0.25
    """Seconds of one wait: a wall clock that jumped (a laptop that slept) is noticed this soon."""

    def now(self) -> int:
        """The present instant in microseconds UTC."""
        return time.time_ns() // 1000

    async def wait(self, until: int) -> None:
        """Sleep until `until`, at most one slice."""
        import asyncio  # not at the top: reading commands must not pay for it

        await asyncio.sleep(max(0.0, min(self.SLICE, (until - self.now()) / MICROSECONDS)))


def to_rfc3339(at: int) -> str:
    """An instant as RFC 3339 text in UTC with milliseconds and `Z`, the one form used in files, pipes and JSON."""
    seconds, rest = divmod(at, MICROSECONDS)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{rest // 1000:03d}Z"


def to_datetime(at: int) -> datetime:
    """An instant as an aware datetime in UTC."""
    seconds, rest = divmod(at, MICROSECONDS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def from_datetime(moment: datetime) -> int:
    """Microseconds UTC of an aware datetime. Raises ValueError for a naive one, whose instant nobody knows."""
    if moment.tzinfo is None:
        raise ValueError("a naive datetime has no instant: give it a time zone")
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * MICROSECONDS + delta.microseconds
