"""A worker: takes up runs that are due, again and again, several at once, until it is told to stop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from flowstone.clock import Clock
from flowstone.errors import FlowError, StorageFailed
from flowstone.ports import RunRow
from flowstone.running.stopping import Stop


class Sweeps(Protocol):
    """What a worker asks of the engine."""

    clock: Clock
    stop: Stop

    def due(self, limit: int) -> Sequence[RunRow]:
        """Runs that would get further now and that nobody executes."""
        ...

    def drive(self, run_id: str, *, park_after: int | None = ..., verb: str = ...) -> Awaitable[RunRow]:
        """Carry a run on until it ends or parks."""
        ...


async def work(
    engine: Sweeps,
    *,
    concurrency: int,
    poll: int,
    once: bool,
    tell: Callable[[RunRow, RunRow | FlowError], None],
) -> int:
    """Sweep every `poll` microseconds (or just `once`) and drive what is due, at most `concurrency` runs at a time.

    `tell` hears of each run: its row when it was taken up, and its row afterwards or the error that ended the pass. One run's
    error is no other run's. Returns how many passes were made. Raises StorageFailed, since no run can go on then.
    """
    going: dict[asyncio.Task[None], str] = {}
    passes = 0

    async def drive(row: RunRow) -> None:
        try:
            tell(row, await engine.drive(row.id, park_after=0, verb="recover"))
        except StorageFailed:
            raise
        except FlowError as error:
            tell(row, error)

    while engine.stop.code is None:
        free = concurrency - len(going)
        for row in engine.due(free + len(going))[: max(free, 0)]:
            if row.id not in going.values():
                going[asyncio.ensure_future(drive(row))] = row.id
                passes += 1
        if once and not going:
            break
        pause = asyncio.ensure_future(engine.clock.wait(engine.clock.now() + poll))
        await asyncio.wait({pause, *going}, return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()
        for task in [task for task in going if task.done()]:
            del going[task]
            task.result()
    if going:
        await asyncio.wait(going)
    return passes
