"""One pass of a run: the body is run to where it waits, what it asks is started, what comes back is recorded and handed out.

The first of the two verbs that run user code. A pass ends when the run has ended, waits for something outside, or must stop.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowstone.authoring.current import CurrentStep
from flowstone.clock import MICROSECONDS, Clock
from flowstone.errors import StorageFailed
from flowstone.identity import invocation_id
from flowstone.interrupts import Misuse
from flowstone.journal.events import Draft, Kind, Raw, body_text
from flowstone.journal.states import StepStatus, Verb
from flowstone.ports import Change
from flowstone.running.attempt import attempt_step
from flowstone.running.body import Body
from flowstone.running.ending import ending_of, left_open
from flowstone.running.output import OutputLog
from flowstone.running.retrying import failure_draft
from flowstone.running.steps.asked import Asked
from flowstone.running.steps.call import AskedStep
from flowstone.running.steps.gate import AskedApproval
from flowstone.running.steps.sleep import AskedSleep
from flowstone.running.timers import Timers
from flowstone.running.writer import Writer

TICK = MICROSECONDS // 4
"""How often a pass that waits looks for mail; a cancel is noticed well within a second."""
GRACE = 10.0
"""Seconds that running attempts get to end when the pass is told to stop."""
DEFAULT_PARK_AFTER = 60 * MICROSECONDS


@dataclass(slots=True)
class Stop:
    """Tells a pass to stop: set `code` (STOPPED for Ctrl-C, else the signal's name) and call `wake`."""

    code: str | None = None
    wake: Callable[[], None] = field(default=lambda: None)


class Pass:
    """One pass. The body stands at its frontier (see Body.replay) and the run is owned when `run` is called."""

    def __init__(
        self, body: Body, writer: Writer, clock: Clock, output: OutputLog, stop: Stop, *, epoch: int, park_after: int | None
    ) -> None:
        self._body = body
        self._writer = writer
        self._ledger = writer.ledger
        self._clock = clock
        self._output = output
        self._stop = stop
        self._epoch = epoch
        self._park_after = park_after
        self._timers = Timers()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[str, int] = output.running
        self._missing: dict[str, Asked[Any]] = {}
        self._misuse: str | None = None
        self._crash: BaseException | None = None
        """An error of ours in a task of this pass."""
        self._mail_read = -1
        self._wake = asyncio.Event()
        self._ticker: asyncio.Task[None] | None = None
        self._ticker_due = 0
        stop.wake = self._wake.set

    async def run(self) -> None:
        """Go on until the run ends or parks. Raises LostOwnership, StorageFailed, TryAgain; then nothing more is written."""
        try:
            await self._run()
        finally:
            if self._ticker is not None:
                self._ticker.cancel()
            await self._cancel_tasks()
            await outside_of_tasks(self._body.close)

    async def _run(self) -> None:
        while True:
            await outside_of_tasks(self._turn)
            if self._writer.failed is not None:
                raise self._writer.failed
            if self._crash is not None:
                raise self._crash
            misused = self._misuse or self._misused_by_body()
            if misused or self._body.ended:
                await self._end(misused)
                return
            if self._stop.code is not None:
                await self._halt(self._stop.code)
                return
            self._start_fresh()
            self._cancel_given_up()
            await self._read_mail()
            if self._body.pending_completion:
                continue
            if self._tasks or not self._writer.idle:
                await self._wait(None)
            elif (due := self._worth_waiting_for()) is not None:
                await self._wait(due)
            elif await self._park():
                return

    def _turn(self) -> None:
        body = self._body
        body.drain()
        while body.pending_completion and not body.ended:
            body.hand_out_next()
            body.drain()

    def _misused_by_body(self) -> str | None:
        interrupt = self._body.interrupt
        return interrupt.message if isinstance(interrupt, Misuse) else None

    # starting what the body asks

    def _start_fresh(self) -> None:
        fresh, self._body.fresh = self._body.fresh, []
        for asked in fresh:
            if asked.record is not None:
                if asked.record.open and not asked.given_up:
                    self._take_up(asked)
            elif asked.given_up:
                continue
            elif isinstance(asked, AskedStep):
                self._start_attempt(asked)
            else:
                self._spawn(self._begin(asked))

    def _take_up(self, asked: Asked[Any]) -> None:
        """Go on with an operation that an earlier pass left open."""
        if isinstance(asked, AskedStep) and not (
            asked.record is not None
            and asked.record.status is StepStatus.RETRYING
            and asked.record.last.next_attempt_at is not None
        ):
            self._start_attempt(asked)
        else:
            self._arm(asked)

    def _start_attempt(self, asked: AskedStep) -> None:
        if asked.step is None:
            self._missing[asked.key] = asked
        else:
            self._spawn(self._attempt(asked))

    async def _begin(self, asked: Asked[Any]) -> None:
        await self._writer.append([asked.opening(self._clock.now())])
        asked.record = self._ledger.operations[asked.key]
        if asked.record.open:
            self._arm(asked)

    def _arm(self, asked: Asked[Any]) -> None:
        record = asked.record
        assert record is not None
        if isinstance(asked, AskedSleep):
            due = record.wake_at
        elif isinstance(asked, AskedStep):
            due = record.last.next_attempt_at
        else:
            due = record.opened["deadline"]
        if due is not None:
            self._timers.add(due, asked)
        self._mail_read = -1  # a gate may have been answered before it opened

    async def _attempt(self, asked: AskedStep) -> None:
        assert asked.step is not None
        number = 1 if asked.record is None else asked.record.last.number + 1
        mark = asked.opening(self._clock.now()) if number == 1 else Draft(Kind.STEP_STARTED, asked.key, number)
        await self._writer.append([mark], durable=not asked.policy.repeatable)
        asked.record = self._ledger.operations[asked.key]
        current = CurrentStep(
            run_id=self._body.run_id,
            key=asked.key,
            invocation_id=invocation_id(self._body.run_id, asked.key),
            attempt=number,
            epoch=self._epoch,
            predecessor=None if asked.predecessor is None else invocation_id(self._body.run_id, asked.predecessor),
            misuse=self._note_misuse,
        )
        self._running[asked.key] = number
        try:
            recorded = await attempt_step(asked.step, asked.arguments, current, timeout=asked.timeout)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _cancelling():
                raise  # the pass is ending: it writes what became of this attempt
            draft = failure_draft(asked.key, number, error, asked.policy, asked.record.failures, self._clock.now())
        else:
            asked.fresh = recorded
            notes = {"notes": current.notes} if current.notes else {}
            draft = Draft(Kind.STEP_SUCCEEDED, asked.key, number, body_text(result=Raw(recorded.text), **notes))
        finally:
            self._running.pop(asked.key, None)
        if self._misuse is not None:
            return
        try:
            await self._writer.append([draft])
        except StorageFailed as error:
            error.unsaved = error.unsaved or (asked.fresh.text if asked.fresh is not None else None)
            raise
        if asked.record.open:
            self._arm(asked)

    def _note_misuse(self, message: str) -> None:
        self._misuse = self._misuse or message
        self._wake.set()

    def _cancel_given_up(self) -> None:
        """Record as cancelled what was started and the body no longer waits for."""
        given_up, self._body.given_up = self._body.given_up, []
        for asked in given_up:
            record = self._ledger.operations.get(asked.key)
            if record is not None and record.open and asked.key not in self._running:
                self._spawn(self._writer.append(left_open([record])))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and self._writer.failed is None:
            self._crash = task.exception()
        self._wake.set()

    # waiting

    async def _wait(self, due: int | None) -> None:
        """Until something has happened here, `due` has come, or it is time to look for mail."""
        now = self._clock.now()
        next_due = self._timers.next_due()
        target = min(instant for instant in (now + TICK, due, next_due) if instant is not None)
        if self._ticker is None or self._ticker.done() or target < self._ticker_due:
            if self._ticker is not None:
                self._ticker.cancel()
            self._ticker_due = target
            self._ticker = asyncio.ensure_future(self._tick(target))
        await self._wake.wait()
        self._wake.clear()
        self._act_on_timers()

    async def _tick(self, target: int) -> None:
        while self._clock.now() < target:
            await self._clock.wait(target)
        await self._writer.keep_logs()
        if await self._writer.changed():
            await self._writer.catch_up()
        self._wake.set()

    def _act_on_timers(self) -> None:
        for asked in self._timers.pop_due(self._clock.now()):
            if asked.record is None or not asked.record.open or asked.given_up:
                continue
            if isinstance(asked, AskedSleep):
                self._spawn(self._writer.append([asked.woken()]))
            elif isinstance(asked, AskedStep):
                self._start_attempt(asked)
            else:
                self._mail_read = -1

    async def _read_mail(self) -> None:
        """Close gates that are answered or have expired. An expiry is written only if no answer has come in meanwhile."""
        while self._mail_read != self._ledger.mail:
            seen = self._ledger.mail
            drafts: list[Draft] = []
            for asked in self._open_approvals():
                assert asked.record is not None
                drafts += asked.read(asked.record, self._clock.now())
            if not drafts or await self._writer.append_alone(drafts, Change(seen_mail=seen)):
                self._mail_read = seen
            else:
                await self._writer.catch_up()

    def _open_approvals(self) -> Sequence[AskedApproval]:
        asked = (self._body.asked.get(operation.key) for operation in self._ledger.open_gates())
        return [one for one in asked if isinstance(one, AskedApproval) and one.record is not None and not one.given_up]

    def _worth_waiting_for(self) -> int | None:
        """The instant this process waits for: a sleep or a retry soon enough; a person is not waited for."""
        dues = [
            due
            for operation in self._ledger.waits.values()
            if (due := operation.wake_at or operation.last.next_attempt_at) is not None and not operation.is_gate
        ]
        if not dues:
            return None
        limit = self._park_after
        if limit is None:
            if not self._ledger.open_gates() and not self._missing:
                return min(dues)
            limit = DEFAULT_PARK_AFTER
        return min(dues) if min(dues) - self._clock.now() <= limit else None

    async def _park(self) -> bool:
        """Leave the process with the run waiting; False if mail came in between, which is then read."""
        gates = self._ledger.open_gates()
        seen = self._ledger.mail
        if gates or self._missing:
            missing = [str(asked.function) for asked in self._missing.values()]
            draft = Draft(
                Kind.RUN_SUSPENDED,
                text=body_text(
                    code="WAITING" if gates else "FUNCTION_NOT_FOUND",
                    gates=[gate.key for gate in gates],
                    reasons=[gate.name for gate in gates] + missing,
                ),
            )
            change = Change(verb=Verb.SUSPEND, release=True, seen_mail=seen)
            parked = await self._writer.append_alone([draft], change)
        elif self._ledger.waits:
            parked = await self._writer.append_alone([], Change(release=True, seen_mail=seen))
        else:
            self._misuse = "the body waits for something that no operation will ever give it"
            return False
        if not parked:
            await self._writer.catch_up()
        return parked

    # ending

    async def _end(self, misused: str | None) -> None:
        await self._cancel_tasks()
        drafts, verb = ending_of(self._body, misused)
        open_operations = [operation for operation in self._ledger.operations.values() if operation.open]
        await self._writer.append_alone([*left_open(open_operations), *drafts], Change(verb=verb, release=True))

    async def _halt(self, code: str) -> None:
        """Stop on a signal: attempts that run get a while to end, then all is put down and the run is given up."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)
        await self._cancel_tasks()
        cut_off = [
            Draft(Kind.STEP_INTERRUPTED, operation.key, operation.last.number, body_text(code=code))
            for operation in self._ledger.operations.values()
            if operation.open and operation.last.status == "running"
        ]
        if code == "STOPPED":
            gates = self._ledger.open_gates()
            body = body_text(code=code, gates=[gate.key for gate in gates], reasons=[gate.name for gate in gates])
            last, verb = Draft(Kind.RUN_SUSPENDED, text=body), Verb.SUSPEND
        else:
            body = body_text(code=code, owner=self._ledger.owner, pid=None, host=None, found_by=None)
            last, verb = Draft(Kind.RUN_INTERRUPTED, text=body), None
        await self._writer.append_alone([*cut_off, last], Change(verb=verb, release=True))

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def outside_of_tasks(function: Callable[[], None]) -> None:
    """Call in a plain callback of this loop, since a body's tasks must not run inside another task."""
    loop = asyncio.get_running_loop()
    called: asyncio.Future[None] = loop.create_future()

    def call() -> None:
        try:
            function()
        except BaseException as error:
            called.set_exception(error)
        else:
            called.set_result(None)

    loop.call_soon(call)
    await called


def _cancelling() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
