"""Waiting in a pass: until something happens here, an instant comes, or it is time to look for mail."""

import asyncio

from flowstone.clock import MICROSECONDS, Clock
from flowstone.ports import Owners
from flowstone.running.attempts import Attempts
from flowstone.running.writer import Writer

TICK = MICROSECONDS // 4
"""How often a pass that waits looks for mail; a cancel is noticed well within a second."""


class Ticking:
    """The one task that wakes a pass by the clock. At each tick mail is read, output kept, and the owner shows that it lives."""

    def __init__(self, attempts: Attempts, writer: Writer, clock: Clock, owners: Owners) -> None:
        self._attempts = attempts
        self._writer = writer
        self._clock = clock
        self._owners = owners
        self._task: asyncio.Task[None] | None = None
        self._target = 0

    async def wait(self, due: int | None = None) -> None:
        """Return when something has happened, `due` or the next timer's instant has come, or at the next tick."""
        wake = self._attempts.wake
        target = min(
            instant for instant in (self._clock.now() + TICK, due, self._attempts.timers.next_due()) if instant is not None
        )
        if self._task is None or self._task.done() or target < self._target:
            self.stop()
            self._target = target
            self._task = asyncio.ensure_future(self._tick(target))
        await wake.wait()
        wake.clear()

    def stop(self) -> None:
        """No more ticks."""
        if self._task is not None:
            self._task.cancel()

    async def _tick(self, target: int) -> None:
        try:
            await self._clock.wait(target)  # once: until a clock that is set back comes there again, nobody would look for mail
            self._owners.beat()
            await self._writer.keep_logs()
            await self.look()
        finally:
            self._attempts.wake.set()

    async def look(self) -> None:
        """Look for mail now, and wake the pass."""
        if await self._writer.changed():
            await self._writer.catch_up()
        self._attempts.wake.set()
