"""One pass of a run: the body is run to where it waits, what it asks is started, what comes back is recorded and handed out.

The first of the two verbs that run user code. A pass ends when the run has ended, waits for something outside, or must stop.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from flowstone.clock import MICROSECONDS, Clock
from flowstone.interrupts import Misuse
from flowstone.journal.events import Draft, Kind, body_text
from flowstone.journal.operations import Operation
from flowstone.journal.states import StepStatus, Verb
from flowstone.ports import Change
from flowstone.running.attempts import Attempts
from flowstone.running.body import Body
from flowstone.running.cancelling import cancelling
from flowstone.running.children import Children
from flowstone.running.ending import CRASHES, Ending, crash_loop, ending_of, left_open, undo_failed
from flowstone.running.ownership import cut_off
from flowstone.running.resolving import is_unresolved, resolution
from flowstone.running.steps.asked import Asked
from flowstone.running.steps.call import AskedStep
from flowstone.running.steps.child import AskedChild
from flowstone.running.steps.gate import AskedApproval
from flowstone.running.steps.sleep import AskedSleep
from flowstone.running.stopping import GRACE, Stop, halted, halting
from flowstone.running.ticking import Ticking
from flowstone.running.undoing import Undoing
from flowstone.running.writer import Writer

T = TypeVar("T")
DEFAULT_PARK_AFTER = 60 * MICROSECONDS
PUT_DOWN = " put down"
"""Ends the name of the task that puts an operation down."""
HANDLER = ":on_error"
"""Ends the key of a handler's own step."""


class Pass:
    """One pass. The body stands at its frontier (see Body.replay) and the run is owned when `run` is called."""

    def __init__(
        self,
        body: Body,
        writer: Writer,
        clock: Clock,
        attempts: Attempts,
        ticking: Ticking,
        children: Children,
        undoing: Undoing,
        stop: Stop,
        *,
        park_after: int | None,
    ) -> None:
        self._body = body
        self._writer = writer
        self._ledger = writer.ledger
        self._clock = clock
        self._attempts = attempts
        self._ticking = ticking
        self._children = children
        self._undoing = undoing
        self._stop = stop
        self._park_after = park_after
        self._missing: dict[str, str] = {}
        """By key, the functions that operations wait for."""
        self._stuck: str | None = None
        self._mail_read = -1
        self._handled: set[str] = set()

    async def run(self) -> None:
        """Go on until the run ends or parks. Raises LostOwnership, StorageFailed, TryAgain; then nothing more is written."""
        try:
            await self._run()
        finally:
            self._ticking.stop()
            await self._attempts.cancel()
            await outside_of_tasks(self._body.close)

    async def _run(self) -> None:
        while True:
            await outside_of_tasks(self._turn)
            self._raise_what_failed()
            if self._ledger.deaths >= CRASHES and not self._children.any():
                await self._end(crash_loop(self._ledger))
                return
            misused = self._attempts.misuse or self._stuck or self._misused_by_body()
            if misused or self._body.ended:
                await self._end(ending_of(self._body, misused))
                return
            if self._stop.code is not None:
                await self._halt(self._stop.code)
                return
            if drafts := self._unread_cancel():  # first, so that nothing is started that is then put down
                await self._writer.append_alone(drafts, Change())
                continue
            self._start_fresh()
            self._handle_failures()
            await self._put_down_given_up()
            await self._read_mail()
            if self._body.pending_completion:
                continue
            if self._attempts.busy or not self._writer.idle:
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

    def _raise_what_failed(self) -> None:
        failed = self._writer.failed or self._attempts.crash
        if failed is not None:
            raise failed

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
            elif isinstance(asked, AskedChild):
                self._attempts.spawn(self._children.begin(asked), asked.key)
            else:
                self._attempts.spawn(self._begin(asked), asked.key)

    def _take_up(self, asked: Asked[Any]) -> None:
        """Go on with an operation that an earlier pass left open."""
        record = asked.record
        assert record is not None
        if record.failure is not None:
            return  # it waits for its handler
        if isinstance(asked, AskedChild):
            if record.last.next_attempt_at is not None:
                self._attempts.timers.add(record.last.next_attempt_at, asked)
            else:
                record.answer = None  # what the child has come to is looked at now
                self._attempts.spawn(self._children.go_on(asked), asked.key)
        elif isinstance(asked, AskedStep) and record.status is StepStatus.RETRYING:
            if record.attempts and record.last.next_attempt_at is not None and record.failures:
                self._attempts.timers.add(record.last.next_attempt_at, asked)
            else:
                self._start_attempt(asked)
        else:
            self._arm(asked)

    def _handle_failures(self) -> None:
        """Run the on_error of steps that have failed for good."""
        for key in self._ledger.unhandled - self._handled:
            self._handled.add(key)
            self._handle(self._ledger.operations[key])

    def _handle(self, failed: Operation, *, again: bool = False) -> None:
        if not self._undoing.handle(self._failed_for_good(failed.key), failed, again=again):
            self._missing[failed.key + HANDLER] = failed.opened["on_error"]

    def _failed_for_good(self, key: str) -> AskedStep | AskedChild:
        asked = self._body.asked[key]
        assert isinstance(asked, AskedStep | AskedChild)
        return asked

    def _start_attempt(self, asked: AskedStep) -> None:
        if asked.step is None:
            self._missing[asked.key] = str(asked.function)
        else:
            self._attempts.start(asked)

    async def _begin(self, asked: Asked[Any]) -> None:
        number = self._ledger.next_attempt(asked.key)
        await self._writer.append([asked.opening(self._clock.now())._replace(attempt=number)])
        asked.record = self._ledger.operations[asked.key]
        if asked.record.open:
            self._arm(asked)

    def _arm(self, asked: Asked[Any]) -> None:
        record = asked.record
        assert record is not None
        due = record.wake_at if isinstance(asked, AskedSleep) else record.opened.get("deadline")
        if due is not None:
            self._attempts.timers.add(due, asked)
        self._mail_read = -1  # a gate may have been answered before it opened

    async def _put_down_given_up(self) -> None:
        """Record as cancelled what was started and the body no longer waits for; a step with an undo is let end."""
        given_up, self._body.given_up = self._body.given_up, []
        for asked in given_up:
            for key in (asked.key, asked.key + HANDLER):
                self._missing.pop(key, None)
            self._attempts.spawn(self._put_down(asked), asked.key + PUT_DOWN)

    async def _put_down(self, asked: Asked[Any]) -> None:
        with_undo = isinstance(asked, AskedStep | AskedChild) and asked.undo is not None
        if isinstance(asked, AskedChild):
            await self._children.cancel(asked, "the run no longer waits for it")
        elif with_undo:
            await self._attempts.wait_for(asked.key)
        await self._attempts.wait_for(asked.key + HANDLER)
        await self._attempts.cancel_one(asked.key)
        record = self._ledger.operations.get(asked.key)
        if record is not None and record.open:
            await self._writer.append(left_open([record]))
        if record is not None and with_undo:
            await self._undoing.undo_one(record)

    # waiting

    async def _wait(self, due: int | None) -> None:
        await self._ticking.wait(due)
        for asked in self._attempts.timers.pop_due(self._clock.now()):
            record = asked.record
            if record is None or not record.open or (isinstance(asked, Asked) and asked.given_up):
                continue
            if record.kind == "undo":
                self._go_on_undoing(record.opened["compensates"])
            elif isinstance(asked, AskedSleep):
                self._attempts.spawn(self._writer.append([asked.woken()]), asked.key)
            elif isinstance(asked, AskedChild):
                retried = record.status is StepStatus.RETRYING  # else its time is up
                self._attempts.spawn((self._children.begin if retried else self._children.look_again)(asked), asked.key)
            elif isinstance(asked, Asked) and record.is_gate:
                self._mail_read = -1
            elif isinstance(asked, AskedStep):
                self._start_attempt(asked)
            else:
                self._attempts.start(asked)

    def _go_on_undoing(self, loser: str) -> None:
        """The next attempt of the undo of a race's loser, unless whoever undoes it waits for that already."""
        if not self._attempts.at_work(loser + PUT_DOWN):
            self._attempts.spawn(self._undoing.undo_one(self._ledger.operations[loser]), loser + PUT_DOWN)

    async def _read_mail(self) -> None:
        """Act on what others have written. An expiry is written only if no answer has come in meanwhile."""
        while self._mail_read != self._ledger.mail:
            seen = self._ledger.mail
            drafts = self._unread_cancel()
            for asked in self._waiting(AskedApproval):
                drafts += asked.read(asked.record, self._clock.now(), self._body.user)
            for step in self._waiting(AskedStep):
                drafts += resolution(step.record)
            for handler in self._unresolved_handlers():
                drafts += resolution(handler)
            if drafts and not await self._writer.append_alone(drafts, Change(seen_mail=seen)):
                await self._writer.catch_up()
                continue
            self._mail_read = seen
            self._go_on_with_resolved()

    def _unread_cancel(self) -> list[Draft]:
        request = self._ledger.cancel_request
        return [cancelling(self._ledger)] if request is not None and self._ledger.cancelling is None else []

    def _go_on_with_resolved(self) -> None:
        for child in self._waiting(AskedChild):
            if child.record.answer is not None:
                child.record.answer = None
                self._attempts.spawn(self._children.look_again(child), child.key)
        for step in self._waiting(AskedStep):
            if step.record.answer is not None and is_unresolved(step.record):  # the word was: retry
                step.record.answer = None
                self._start_attempt(step)
        for handler in self._unresolved_handlers():
            if handler.answer is not None:
                handler.answer = None
                self._handle(self._ledger.operations[handler.opened["handles"]], again=True)

    def _unresolved_handlers(self) -> list[Operation]:
        return [one for one in self._ledger.waits.values() if one.kind == "on_error" and is_unresolved(one)]

    def _waiting(self, kind: type[Any]) -> Sequence[Any]:
        asked = (self._body.asked.get(operation.key) for operation in self._ledger.waits.values())
        return [one for one in asked if isinstance(one, kind) and one.record is not None and not one.given_up]

    def _worth_waiting_for(self) -> int | None:
        """The instant this process waits for: a sleep or a retry soon enough; a person is not waited for."""
        waits = [operation for key, operation in self._ledger.waits.items() if key not in self._missing]
        dues = [due for operation in waits if (due := _due(operation)) is not None]
        if not dues:
            return None
        limit = self._park_after
        if limit is None:
            if not self._needs_person():
                return min(dues)
            limit = DEFAULT_PARK_AFTER
        return min(dues) if min(dues) - self._clock.now() <= limit else None

    def _needs_person(self) -> bool:
        waits = self._ledger.waits.values()
        return bool(self._missing) or any(operation.is_gate or is_unresolved(operation) for operation in waits)

    async def _park(self) -> bool:
        """Leave the process with the run waiting; False if mail came in between, which is then read."""
        seen = self._ledger.mail
        blocked = self._children.suspended()
        if self._needs_person() or blocked:
            waits = list(self._ledger.waits.values())
            gates = [operation for operation in waits if operation.is_gate]
            missing = list(self._missing.values())
            others = [operation.name for operation in waits if is_unresolved(operation)] + blocked
            body = body_text(
                code="FUNCTION_NOT_FOUND" if missing and not gates and not others else "WAITING",
                gates=[gate.key for gate in gates],
                reasons=[gate.name for gate in gates] + missing + others,
                **({"functions": missing} if missing else {}),
            )
            change = Change(verb=Verb.SUSPEND, release=True, seen_mail=seen)
            parked = await self._writer.append_alone([Draft(Kind.RUN_SUSPENDED, text=body)], change)
        elif self._ledger.waits:
            parked = await self._writer.append_alone([], Change(release=True, seen_mail=seen))
        else:
            self._stuck = "the body waits for something that no operation will ever give it"
            return False
        if not parked:
            await self._writer.catch_up()
        return parked

    # ending

    async def _end(self, ending: Ending) -> None:
        """Put down what is left, undo if the run did not complete, and write the end."""
        with_undo = {operation.key for operation in self._ledger.operations.values() if operation.opened.get("undo")}
        losers = {asked.key for asked in self._body.asked.values() if asked.given_up and asked.key in with_undo}
        await self._put_down_given_up()
        await self._children.cancel_all(ending.reason)
        await self._attempts.cancel(
            spare=lambda key: (
                key.removesuffix(PUT_DOWN) in losers or key.endswith(HANDLER) or (ending.undoes and key in with_undo)
            )
        )
        self._raise_what_failed()
        while ending.undoes and self._body.ended and self._children.undoing():  # children first; their end wakes this run
            if await self._writer.append_alone([], Change(release=True, seen_mail=self._ledger.mail)):
                return
            await self._writer.catch_up()
        if ending.verb is Verb.COMPLETE and self._undoing.unfinished():
            await self._writer.append_alone([], Change(release=True))
            return
        failed = self._undoing.failed()
        if failed is not None and ending.verb is Verb.COMPLETE:
            ending = Ending(undo_failed(ending, failed), Verb.FAIL, {"undo": False})
        await self._undoing.end(ending)

    async def _halt(self, code: str) -> None:
        """Stop on a signal: attempts that run get a while to end, then all is put down and the run is given up."""
        await self._attempts.settle(GRACE)
        await self._attempts.cancel()
        drafts = [
            cut_off(operation, code)
            for operation in self._ledger.operations.values()
            if operation.open and operation.attempts and operation.last.status == "running" and operation.child is None
        ]
        await self._writer.append_alone([*drafts, *halted(self._ledger, code)], Change(verb=halting(code), release=True))


def _due(operation: Operation) -> int | None:
    if operation.is_gate or not operation.attempts:
        return None
    return operation.wake_at or operation.last.next_attempt_at


async def outside_of_tasks(function: Callable[[], T]) -> T:
    """Call in a plain callback of this loop, since a body's tasks must not run inside another task."""
    loop = asyncio.get_running_loop()
    called: asyncio.Future[T] = loop.create_future()

    def call() -> None:
        try:
            called.set_result(function())
        except BaseException as error:
            called.set_exception(error)

    loop.call_soon(call)
    return await called
