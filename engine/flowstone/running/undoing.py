"""Handlers and undo in a pass: `KEY:on_error` when a step has failed for good, `KEY:undo` in reverse order when the run has.

Works from the journal alone, so that it goes on after a crash in the middle, without the body.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flowstone.authoring.definition import Failed, Policy
from flowstone.clock import Clock
from flowstone.errors import FlowMisuse, NotFound
from flowstone.journal.events import Draft, Kind, body_text
from flowstone.journal.operations import Operation
from flowstone.journal.states import StepStatus, Verb
from flowstone.ports import Change
from flowstone.running.attempts import Attempts
from flowstone.running.cancelling import gives_up_undo
from flowstone.running.compensation import Names, to_undo, undo_step
from flowstone.running.ending import CRASHES, Ending, left_open, undo_failed
from flowstone.running.functions import StepFunction, describe_function
from flowstone.running.ownership import cut_off
from flowstone.running.resolving import is_unresolved
from flowstone.running.steps.call import AskedStep
from flowstone.running.steps.child import AskedChild
from flowstone.running.steps.own import OwnStep
from flowstone.running.stopping import GRACE, Stop, halted, halting
from flowstone.running.ticking import Ticking
from flowstone.running.writer import Writer
from flowstone.values.failures import restore_failure


@dataclass(frozen=True, slots=True)
class Undoing:
    """The undo of one run in one pass."""

    run_id: str
    writer: Writer
    attempts: Attempts
    ticking: Ticking
    clock: Clock
    names: Names
    policy: Policy
    """What holds for undos and handlers that say nothing themselves."""
    stop: Stop
    park_after: int | None

    def handle(self, asked: AskedStep | AskedChild, record: Operation, *, again: bool = False) -> bool:
        """Run the on_error of a step that has failed for good; when it has ended the failure reaches the body.

        One whose outcome is unknown is run again only if a person has said so. False if its function cannot be found.
        """
        assert record.failure is not None
        failure = record.failure

        def failed() -> Failed[Any]:
            error = restore_failure(failure.body()["error"], asked.name, failure.attempt or 1)
            arguments = asked.arguments if isinstance(asked, AskedStep) else asked.request.args
            return Failed(args=arguments, error=error, step=asked.name)

        earlier = self.writer.ledger.operations.get(record.key + ":on_error")
        if earlier is not None and is_unresolved(earlier) and not again:
            return True
        handler = self._handler(asked, str(record.opened["on_error"]))
        if handler is None:
            return False
        step = OwnStep("on_error", record, handler, failed, self.policy, earlier)
        if earlier is not None and earlier.status is StepStatus.RETRYING and earlier.failures:
            self.attempts.timers.add(earlier.last.next_attempt_at or 0, step)
        else:
            self.attempts.start(step)
        return True

    def _handler(self, asked: AskedStep | AskedChild, name: str) -> StepFunction | None:
        """The function of that name: the one that the call gives now, unless it is another, else the one that is found."""
        given = asked.request.on_error
        if given is not None and (described := describe_function(given)).name == name:
            return described
        try:
            return describe_function(self.names.find(name))
        except (NotFound, FlowMisuse):
            return None

    def failed(self) -> Operation | None:
        """An undo that has failed, if there is one."""
        return next((one for one in self.writer.ledger.operations.values() if _undo_failed(one)), None)

    async def undo_one(self, operation: Operation) -> None:
        """Undo one step now: a race's loser that succeeded. A failure of it is left to the end of the run.

        Returns early if the next attempt is too far away for this process: the timers bring it back, or a later pass.
        """
        if operation in to_undo(self.writer.ledger):
            step = undo_step(self.run_id, self.writer.ledger, operation, self.names, self.policy, None)
            while step.record is None or step.record.status in (StepStatus.RUNNING, StepStatus.RETRYING):
                due = None if step.record is None else step.record.last.next_attempt_at
                if due is not None and self._too_far(due):
                    self.attempts.timers.add(due, step)
                    return
                while due is not None and self.clock.now() < due:
                    await self.clock.wait(due)
                await self.attempts.attempt(step)

    def unfinished(self) -> bool:
        """Whether an undo waits for its next attempt."""
        return any(operation.kind == "undo" for operation in self.writer.ledger.waits.values())

    async def end(self, ending: Ending) -> None:
        """Close what is left open, undo if the ending asks for it, and write the end. It parks in the middle as `run` does."""
        left = left_open(one for one in self.writer.ledger.operations.values() if one.open and one.kind != "undo")
        if ending.undoes and to_undo(self.writer.ledger):
            await self.run(ending, left)
        else:
            await self._end([*left, *ending.drafts], ending.verb)

    async def run(self, ending: Ending, left: Sequence[Draft] = ()) -> None:
        """Undo all that is to be undone, then write the end. Parks or stops in the middle; a later pass goes on.

        Once a person says to leave what was done as it is, nothing more is undone.

        `left` closes what the body leaves open. It is written with the first undo, which says how the body ended: a process that
        dies before that leaves them open, and the body comes to its end again.
        """
        ledger = self.writer.ledger
        failed = self.failed()
        current = ledger.operations.get(ledger.current or "")
        if ledger.deaths >= CRASHES and current is not None and current.kind == "undo":
            failed = current
        for operation in to_undo(ledger):
            if failed is not None or gives_up_undo(ledger):
                break
            try:
                step = undo_step(self.run_id, ledger, operation, self.names, self.policy, ending.cause)
            except (NotFound, FlowMisuse):  # there is none, or something else that is none has its name
                if await self._park_without(operation, ending, left):
                    return
                break
            before, left = left, ()
            if not await self._carry_out(step, before):
                return
            if step.record is not None and _undo_failed(step.record):
                failed = step.record
        if failed is not None:
            await self._end([*left, *undo_failed(ending, failed)], Verb.FAIL)
        else:
            given_up = left_open(one for one in ledger.operations.values() if one.kind == "undo" and one.open)
            await self._end([*left, *given_up, *ending.drafts], ending.verb)

    async def _end(self, drafts: list[Draft], verb: Verb) -> None:
        await self.writer.append_alone(drafts, Change(verb=verb, release=True))

    async def _carry_out(self, step: OwnStep, before: Sequence[Draft]) -> bool:
        """Attempt until it has ended, with `before` written first; False if the pass has to end first."""
        if step.record is not None and step.record.failures and step.record.last.next_attempt_at is not None:
            await self.writer.append(before)
            self.attempts.timers.add(step.record.last.next_attempt_at, step)
        else:
            self.attempts.start(step, before)
        while step.record is None or (step.record.open and not _undo_failed(step.record)):
            failed = self.writer.failed or self.attempts.crash
            if failed is not None:
                raise failed
            if self.stop.code is not None:
                await self._halt(self.stop.code)
                return False
            for call in self.attempts.timers.pop_due(self.clock.now()):
                if call is step:
                    self.attempts.start(step)
            if gives_up_undo(self.writer.ledger) and not self.attempts.busy:
                return True
            due = self.attempts.timers.next_due()
            if not self.attempts.busy and due is not None and self._too_far(due):
                await self.writer.append_alone([], Change(release=True))
                return False
            await self.ticking.wait()
        return True

    def _too_far(self, due: int) -> bool:
        return self.park_after is not None and due - self.clock.now() > self.park_after

    async def _park_without(self, operation: Operation, ending: Ending, left: Sequence[Draft]) -> bool:
        """Suspend the run until its undo's function is there; False if a person has said meanwhile to undo nothing more.

        The event says how the body ended: it has no part in what is left.
        """
        told = {"gates": [], "reasons": [operation.opened["undo"]], "functions": [operation.opened["undo"]]}
        body = body_text(code="FUNCTION_NOT_FOUND", **told, undo=operation.key, cause=ending.cause)
        while not gives_up_undo(self.writer.ledger):
            change = Change(verb=Verb.SUSPEND, release=True, seen_mail=self.writer.ledger.mail)
            if await self.writer.append_alone([*left, Draft(Kind.RUN_SUSPENDED, text=body)], change):
                return True
            await self.writer.catch_up()
        return False

    async def _halt(self, code: str) -> None:
        await self.attempts.settle(GRACE)
        await self.attempts.cancel()
        open_ones = [one for one in self.writer.ledger.operations.values() if one.open and one.last.status == "running"]
        drafts = [cut_off(one, code) for one in open_ones] + halted(self.writer.ledger, code)
        await self.writer.append_alone(drafts, Change(verb=halting(code), release=True))


def _undo_failed(operation: Operation) -> bool:
    """Or its outcome is unknown and it must not be repeated: a person looks, and `flow retry` goes on with it."""
    return operation.kind == "undo" and operation.status in (StepStatus.FAILED, StepStatus.WAITING)
