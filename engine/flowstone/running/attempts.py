"""The attempts of a pass: begun with a start mark, ended with a record, repeated when their instant comes.

Serves the steps that a body asks for and those of the engine's own (undo, on_error): all are `Call`s.
"""

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from flowstone.authoring.current import CurrentStep
from flowstone.authoring.definition import Policy
from flowstone.clock import Clock
from flowstone.errors import StorageFailed, ValueRefused
from flowstone.journal.events import Draft, Kind, Raw, body_text
from flowstone.journal.operations import Operation
from flowstone.running.attempt import SWALLOWED_CANCEL, TimedOut, abandon, attempt_step
from flowstone.running.functions import StepFunction
from flowstone.running.output import OutputLog
from flowstone.running.ownership import cut_off
from flowstone.running.retrying import failure_draft
from flowstone.running.timers import Timers
from flowstone.running.writer import Writer
from flowstone.values.codec import Recorded


class Call(Protocol):
    """A step as its attempts need it."""

    key: str
    predecessor: str | None
    step: StepFunction | None
    policy: Policy
    record: Operation | None
    fresh: Recorded | None

    @property
    def of_graph(self) -> bool:
        """Whether a node of a graph asks for it."""
        ...

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the function is called with."""
        ...

    @property
    def timeout(self) -> int | None:
        """Microseconds that an attempt may take."""
        ...

    def opening(self, now: int) -> Draft:
        """The start mark of the first attempt."""
        ...


class Attempts:
    """The tasks of one pass. The first error that is none of an author is kept in `crash`."""

    def __init__(self, run_id: str, epoch: int, writer: Writer, clock: Clock, output: OutputLog) -> None:
        self.misuse: str | None = None
        """What a step did that can never work: it called `flow`."""
        self.crash: BaseException | None = None
        self.timers = Timers()
        self.wake = asyncio.Event()
        """Set whenever something has happened."""
        self._run_id = run_id
        self._epoch = epoch
        self._writer = writer
        self._clock = clock
        self._output = output
        self._tasks: dict[asyncio.Task[None], str | None] = {}
        writer.alone = lambda: len(self._tasks) <= 1
        self._loop = asyncio.get_running_loop()

    @property
    def busy(self) -> bool:
        """Whether a task of this pass is going on."""
        return bool(self._tasks)

    def start(self, call: Call, before: Sequence[Draft] = ()) -> None:
        """Begin the next attempt of a step; `before` is written with its start mark."""
        self.spawn(self.attempt(call, before), call.key)

    def spawn(self, work: Coroutine[Any, Any, None], key: str | None = None) -> None:
        """Let something go on beside the body; `key` names the operation that it is for."""
        task = asyncio.ensure_future(work)
        self._tasks[task] = key
        task.add_done_callback(self._ended)

    async def cancel(self, spare: Callable[[str], bool] = lambda _: False) -> None:
        """Cancel what goes on and wait until it has ended; operations that are spared are waited for instead."""
        spared = {task for task, key in self._tasks.items() if key is not None and spare(key)}
        await self._cancel([task for task in self._tasks if task not in spared])
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._writer.rest()  # the end of an attempt may be on its way into the journal

    async def cancel_one(self, key: str) -> None:
        """Cancel what goes on for one operation."""
        mine = [task for task, owner in self._tasks.items() if owner == key and task is not asyncio.current_task()]
        await self._cancel(mine)
        await self._writer.rest()

    async def _cancel(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Cancel, and abandon what swallows that: it may go on, but nothing of it is recorded any more."""
        for task in tasks:
            task.cancel()
        if tasks:
            _, swallowing = await asyncio.wait(tasks, timeout=SWALLOWED_CANCEL)
            for task in swallowing:
                self._tasks.pop(task, None)
                abandon(task)

    def at_work(self, key: str) -> bool:
        """Whether something goes on for one operation."""
        return key in self._tasks.values()

    async def wait_for(self, key: str) -> None:
        """Wait until nothing goes on for one operation."""
        mine = [task for task, owner in self._tasks.items() if owner == key and task is not asyncio.current_task()]
        if mine:
            await asyncio.wait(mine)

    async def settle(self, seconds: float) -> None:
        """Wait until all has ended, at most that long."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)

    async def attempt(self, call: Call, before: Sequence[Draft] = ()) -> None:
        """Make one attempt: its start mark, the call, its end."""
        assert call.step is not None
        ledger, task = self._writer.ledger, asyncio.current_task()
        number = ledger.next_attempt(call.key)
        mark = Draft(Kind.STEP_STARTED, call.key) if call.record is not None else call.opening(self._clock.now())
        await self._writer.append([*before, mark._replace(attempt=number)], durable=bool(before) or not call.policy.repeatable)
        call.record = ledger.operations[call.key]
        current = CurrentStep(
            run_id=self._run_id,
            key=call.key,
            attempt=number,
            epoch=self._epoch,
            predecessor_key=call.predecessor,
            output=functools.partial(self._output.add, self._run_id, call.key, number),
            misuse=self._note_misuse,
            of_graph=call.of_graph,
        )
        self._output.running[self._run_id, call.key] = number
        try:
            call.fresh = await attempt_step(call.step, call.arguments, current, timeout=call.timeout)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _cancelling():
                raise  # the pass is ending: it writes what became of this attempt
            if task not in self._tasks:
                return  # abandoned; maybe it is thrown away just now
            if isinstance(error, TimedOut | ValueRefused) and not call.policy.repeatable:
                draft = cut_off(call.record, "TIMED_OUT" if isinstance(error, TimedOut) else "NOT_RECORDED")
            else:
                draft = failure_draft(call.key, number, error, call.policy, call.record.failures, self._clock.now())
        else:
            draft = Draft(Kind.STEP_SUCCEEDED, call.key, number, _succeeded(call.fresh, current))
        finally:
            self._output.ended(self._run_id, call.key)
        if self.misuse is not None or task not in self._tasks:
            return
        try:
            await self._writer.append([draft])
        except StorageFailed as error:
            error.unsaved = error.unsaved or (call.fresh.text if call.fresh is not None else None)
            raise
        if call.record.open and call.record.last.next_attempt_at is not None:
            self.timers.add(call.record.last.next_attempt_at, call)

    def _note_misuse(self, message: str) -> None:
        self.misuse = self.misuse or message
        self._loop.call_soon_threadsafe(self.wake.set)  # a blocking step runs in a thread

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None and self._writer.failed is None:
            self.crash = self.crash or task.exception()
        self.wake.set()


def _succeeded(result: Recorded, current: CurrentStep) -> str:
    """The body of step.succeeded: the result, the notes, and what a node of a graph said."""
    said = {"notes": current.notes} if current.notes else {}
    if "branch" in current.said:
        said["branch"] = current.said["branch"]
    if "state" in current.said:
        said["state"] = {name: json.loads(text) for name, text in current.said["state"].items()}
    return body_text(result=Raw(result.text), **said)


def _cancelling() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
