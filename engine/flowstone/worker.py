"""A worker: takes up runs that are due, again and again, several at once, until it is told to stop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from flowstone.clock import Clock
from flowstone.errors import FlowError, StorageFailed, TryAgain
from flowstone.ports import RunRow
from flowstone.running.recovery import FIRST_BACKOFF, LONGEST_BACKOFF
from flowstone.running.stopping import Stop


class Sweeps(Protocol):
    """What a worker asks of the engine."""

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        ...

    @property
    def stop(self) -> Stop:
        """What a signal sets."""
        ...

    def due(self, limit: int) -> Sequence[RunRow]:
        """Runs that would get further now and that nobody executes."""
        ...

    def drive(self, run_id: str, *, park_after: int | None = ..., verb: str = ..., follow: bool = ...) -> Awaitable[RunRow]:
        """Carry a run on until it ends or parks."""
        ...


@dataclass(frozen=True, slots=True)
class Only:
    """An engine of which only the runs of some workflows are seen."""

    engine: Sweeps
    workflows: frozenset[str]

    @property
    def clock(self) -> Clock:
        """The engine's."""
        return self.engine.clock

    @property
    def stop(self) -> Stop:
        """The engine's."""
        return self.engine.stop

    def due(self, limit: int) -> Sequence[RunRow]:
        """Those of the workflows."""
        return [row for row in self.engine.due(_ALL) if row.workflow in self.workflows][:limit]

    def drive(self, run_id: str, *, park_after: int | None = -1, verb: str = "resume", follow: bool = True) -> Awaitable[RunRow]:
        """As the engine does."""
        return self.engine.drive(run_id, park_after=park_after, verb=verb, follow=follow)


_ALL = 1_000_000_000

Tell = Callable[[RunRow, RunRow | FlowError | None], None]
"""Hears of each run twice: its row when it was taken up, then that and its row afterwards, or the error that ended the pass."""


async def work(engine: Sweeps, *, concurrency: int, poll: int, once: bool, tell: Tell) -> int:
    """Sweep every `poll` microseconds and drive what is due, at most `concurrency` runs at a time; `once`: until nothing is due.

    One run's error is no other run's. Returns how many passes were made. Raises StorageFailed, since no run can go on then.
    """
    going: dict[asyncio.Task[None], str] = {}
    resting = _Resting()
    passes = 0

    async def drive(row: RunRow) -> None:
        tell(row, None)
        try:
            tell(row, await drive_unfollowed(engine, row))
            resting.forget(row.id)
        except StorageFailed:
            raise
        except FlowError as error:
            resting.add(row.id, engine.clock.now())
            tell(row, error)
        except Exception as error:  # ours or an author's: the other runs have nothing to do with it
            resting.add(row.id, engine.clock.now())
            tell(row, FlowError(f"run {row.id} broke off: {type(error).__name__}: {error}", hint=f"flow resume {row.id}"))

    while engine.stop.code is None:
        now = engine.clock.now()
        taken = {*going.values(), *resting.at(now)}
        free = max(concurrency - len(going), 0)
        found = [row for row in engine.due(free + len(taken)) if row.id not in taken] if free else []
        for row in found[:free]:
            going[asyncio.ensure_future(drive(row))] = row.id
            passes += 1
        if once and not going:
            break
        await _something(engine, going, now + poll)
        for task in [task for task in going if task.done()]:
            del going[task]
            task.result()
    if going:
        await asyncio.wait(going)
    return passes


async def drive_unfollowed(engine: Sweeps, row: RunRow) -> RunRow:
    """Drive a run that a sweep has found. Raises TryAgain if another process was first: it is not followed."""
    after = await engine.drive(row.id, park_after=0, verb="recover", follow=False)
    if after.owner is not None:
        raise TryAgain(f"run {row.id} was taken up by another process", hint=f"flow status {row.id}")
    return after


async def _something(engine: Sweeps, going: dict[asyncio.Task[None], str], until: int) -> None:
    """Wait until a run has ended, the instant has come, or it is time to stop."""
    while engine.clock.now() < until and engine.stop.code is None and not any(task.done() for task in going):
        pause = asyncio.ensure_future(engine.clock.wait(until))
        await asyncio.wait({pause, *going}, return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()


@dataclass(slots=True)
class _Resting:
    """Runs whose pass was refused (code and journal disagree, a file cannot be imported): tried again later each time."""

    _until: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Run → the instant of the next try, and the pause before it."""

    def add(self, run_id: str, now: int) -> None:
        pause = min(2 * self._until[run_id][1], LONGEST_BACKOFF) if run_id in self._until else FIRST_BACKOFF
        self._until[run_id] = (now + pause, pause)

    def forget(self, run_id: str) -> None:
        self._until.pop(run_id, None)

    def at(self, now: int) -> set[str]:
        """The runs that rest then."""
        return {run_id for run_id, (until, _) in self._until.items() if until > now}
