"""A clock that stands still until it is moved: for tests of time without waiting."""

import asyncio

from flowstone.clock import MICROSECONDS
from flowstone.values.duration import parse

START = 1_800_000_000 * MICROSECONDS


class ManualClock:
    """Tells the instant it was last moved to. `wait` returns when it is moved."""

    def __init__(self, start: int = START) -> None:
        self._now = start
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> int:
        """The present instant in microseconds UTC."""
        return self._now

    async def wait(self, until: int) -> None:
        """Return once the clock has been moved to `until` or beyond."""
        if self._now >= until:
            await asyncio.sleep(0)
            return
        moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((until, moved))
        await moved

    def move(self, duration: str) -> None:
        """Move on by a duration such as "10m", and wake who waits for an instant up to then."""
        self.move_to(self._now + parse(duration))

    def move_to(self, instant: int) -> None:
        """Move to an instant; it may lie in the past."""
        self._now = instant
        due = [moved for until, moved in self._waiting if until <= instant]
        self._waiting = [(until, moved) for until, moved in self._waiting if until > instant]
        for moved in due:
            if not moved.done():
                moved.get_loop().call_soon_threadsafe(_wake, moved)


def _wake(moved: "asyncio.Future[None]") -> None:
    if not moved.done():
        moved.set_result(None)
