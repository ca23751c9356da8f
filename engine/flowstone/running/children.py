"""Child runs of a pass: begun, found again, carried on, cancelled. Each is a run of its own with its own journal."""

import asyncio
from contextlib import suppress
from typing import Any, Protocol

from flowstone.clock import MICROSECONDS, Clock
from flowstone.errors import BadData, Damaged, NotFound
from flowstone.identity import new_run_id
from flowstone.journal.damage import blaming
from flowstone.journal.events import Draft, Event, Kind, body_text
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.states import SETTLED, Status
from flowstone.ports import RunRow, Store
from flowstone.running.attempt import TimedOut
from flowstone.running.attempts import Attempts
from flowstone.running.retrying import delay_after
from flowstone.running.steps.child import AskedChild
from flowstone.running.writer import Writer
from flowstone.values.failures import describe


class ChildRuns(Protocol):
    """What the engine does with runs that are children."""

    async def ensure_child(self, child: str, asked: AskedChild, parent: str) -> None:
        """Create the run of that id, unless it exists. Raises BadData if the input does not fit it."""
        ...

    async def reopen_child(self, child: str, asked: AskedChild) -> bool:
        """Re-open a run that has failed or was cancelled; False if it cannot go on, so that another one is to be made."""
        ...

    async def drive_child(self, child: str, park_after: int | None, verb: str = "resume") -> tuple[RunRow, Ledger]:
        """Carry the run on until it ends or parks."""
        ...

    async def cancel_child(self, child: str, reason: str) -> None:
        """Request its cancelling; whoever drives it notices."""
        ...


_TIME_UP = "its time was up"


class Children:
    """The children of one run in one pass."""

    def __init__(
        self, run_id: str, runs: ChildRuns, store: Store, writer: Writer, attempts: Attempts, clock: Clock, park_after: int | None
    ) -> None:
        self._run_id = run_id
        self._runs = runs
        self._store = store
        self._writer = writer
        self._attempts = attempts
        self._clock = clock
        self._park_after = park_after
        self._suspended: dict[str, str] = {}
        self._put_down: set[str] = set()
        self._undoing: set[str] = set()

    async def begin(self, asked: AskedChild) -> None:
        """Record the child's id, then make the run: after a crash in between it is made under that id.

        An earlier attempt's child is re-opened first and recorded then: after a crash in between it is re-opened again.
        """
        ledger = self._writer.ledger
        number = ledger.next_attempt(asked.key)
        mark = asked.opening(self._clock.now()) if asked.record is None else Draft(Kind.STEP_STARTED, asked.key)
        drafts = [mark._replace(attempt=number)]
        child = ledger.children.get(asked.key)
        if child is not None:
            await self._writer.append(drafts)
            drafts = []
            if not await self._runs.reopen_child(child, asked):
                child = None
        child = child or new_run_id()
        started = Draft(Kind.CHILD_STARTED, asked.key, number, body_text(child=child, workflow=asked.workflow.name))
        await self._writer.append([*drafts, started])
        asked.record = ledger.operations[asked.key]
        await self.go_on(asked)

    async def go_on(self, asked: AskedChild) -> None:
        """Carry the child on and record its end, if it has come to one."""
        record = asked.record
        assert record is not None
        child = record.child
        if child is None or not record.open:  # the crash came between two attempts
            if record.open:
                await self.begin(asked)
            return
        try:
            await self._runs.ensure_child(child, asked, self._run_id)
        except BadData as refusal:
            await self._failed(asked, describe(refusal), heals=False)
            return
        row, ledger, late = await self._driven(asked, child)
        self._suspended.pop(asked.key, None)
        if record.completion is not None:
            return
        if late and row.status in (Status.FAILED, Status.CANCELLED):
            await self._failed(asked, _time_was_up(asked, child), heals=True)
        elif row.status is Status.SUSPENDED:
            self._suspended[asked.key] = asked.name
        elif row.status is Status.COMPLETED:
            result = body_text(result=ledger.output)
            await self._writer.append([Draft(Kind.STEP_SUCCEEDED, asked.key, record.last.number, result)])
        elif row.status is Status.CANCELLED and asked.key in self._put_down:
            await self._writer.append([Draft(Kind.STEP_CANCELLED, asked.key, record.last.number)])
        elif row.status in (Status.FAILED, Status.CANCELLED):
            error, heals = failure_of(child, ledger)
            await self._failed(asked, error, heals=heals)

    async def _driven(self, asked: AskedChild, child: str) -> tuple[RunRow, Ledger, bool]:
        """Carry the child on; whether it was cancelled because its time was up."""
        assert asked.record is not None
        end = end_of_time(self._store, asked.record, self._clock.now())
        if end is None:
            return *await self._runs.drive_child(child, self._park_after), False
        driving = asyncio.ensure_future(self._runs.drive_child(child, self._park_after))
        watching = asyncio.ensure_future(self._cancel_at(end, child))
        try:
            row, ledger = await driving
            if row.status is Status.RUNNING:  # parked, with time left
                if self._clock.now() >= end:
                    await self._runs.cancel_child(child, _TIME_UP)
                    row, ledger = await self._runs.drive_child(child, self._park_after)
                else:
                    self._attempts.timers.add(end, asked)
        finally:
            for one in (driving, watching):
                one.cancel()
            await asyncio.wait({driving, watching})
        if not watching.cancelled():
            watching.result()  # its failure is the pass's
        return row, ledger, (ledger.cancelled or {}).get("reason") == _TIME_UP

    async def _cancel_at(self, end: int, child: str) -> None:
        while self._clock.now() < end:
            await self._clock.wait(end)
        await self._runs.cancel_child(child, _TIME_UP)

    async def look_again(self, asked: AskedChild) -> None:
        """Carry the child on after it was reported, unless whoever watches it already has recorded its end."""
        await self._attempts.wait_for(asked.key)
        await self.go_on(asked)

    async def _failed(self, asked: AskedChild, error: dict[str, Any], *, heals: bool) -> None:
        record = asked.record
        assert record is not None
        failures, retries = record.failures, asked.policy.retries or 0
        final = failures >= retries or not heals
        next_attempt_at = None if final else self._clock.now() + delay_after(failures + 1, asked.policy.retry_delay)
        body = body_text(error=error, final=final, next_attempt_at=next_attempt_at)
        await self._writer.append([Draft(Kind.STEP_FAILED, asked.key, record.last.number, body)])
        if next_attempt_at is not None:
            self._attempts.timers.add(next_attempt_at, asked)

    def undoing(self) -> bool:
        """Whether a child that was cancelled here has not ended: it waits for the next attempt of an undo, or for a person."""
        return bool(self._undoing)

    def any(self) -> bool:
        """Whether a child is open: it counts itself how often its process dies."""
        return any(operation.kind == "child" for operation in self._writer.ledger.waits.values())

    def suspended(self) -> list[str]:
        """The names of children that wait for a person."""
        return list(self._suspended.values())

    async def cancel(self, asked: AskedChild, reason: str) -> None:
        """Cancel a child and wait until it has ended, its own undo included."""
        record = self._writer.ledger.operations.get(asked.key)
        if record is not None and record.open:
            await self._cancel(asked.key, reason)

    async def cancel_all(self, reason: str) -> None:
        """Cancel every child that is still open."""
        for operation in list(self._writer.ledger.operations.values()):
            if operation.open:
                await self._cancel(operation.key, reason)

    async def _cancel(self, key: str, reason: str) -> None:
        child = self._writer.ledger.children.get(key)
        if child is not None:
            self._put_down.add(key)
            await self._runs.cancel_child(child, reason)
            await self._attempts.wait_for(key)
            with suppress(NotFound):  # it was recorded and never made
                row, ledger = await self._runs.drive_child(child, self._park_after, "cancel")
                operation = self._writer.ledger.operations[key]
                if row.status not in SETTLED:
                    self._undoing.add(key)
                if row.status is Status.COMPLETED and operation.open:  # it was faster
                    result = body_text(result=ledger.output)
                    await self._writer.append([Draft(Kind.STEP_SUCCEEDED, key, operation.last.number, result)])


def _time_was_up(asked: AskedChild, child: str) -> dict[str, Any]:
    seconds = (asked.timeout or 0) / MICROSECONDS
    error = describe(TimedOut(f"took longer than its timeout of {seconds:g} s, and was cancelled"))
    return error | {"child": {"run": child, "step": None}}


def failure_of(child: str, ledger: Ledger) -> tuple[dict[str, Any], bool]:
    """The error of a child that failed or was cancelled, naming the deepest run and step, and whether a retry may heal it."""
    if ledger.cancelled is not None:
        message = f"child run {child} was cancelled: {ledger.cancelled.get('reason')}"
        where = {"run": child, "step": None}
        return {"type": "RunCancelled", "module": None, "mro": [], "message": message, "trace": "", "child": where}, False
    error = dict(ledger.error or {})
    error["child"] = error.get("child") or {"run": child, "step": error.get("step")}
    return error, bool(error.pop("heals", False))


def end_of_time(store: Store, operation: Operation, now: int) -> int | None:
    """When the attempt of a child has to have ended; what the child waits for a person is not its time.

    None if its step has no timeout: then the child's journal is not read for it.
    """
    timeout = (operation.opened.get("policy") or {}).get("timeout")
    if timeout is None or operation.child is None:
        return None
    child = Ledger(store.events(operation.child))
    rounds = [one for gate in child.operations.values() if gate.is_gate for one in gate.attempts]
    waited = sum((now if one.end_at is None else one.end_at) - one.start_at for one in rounds)
    return int(operation.last.start_at + timeout + waited)


def has_news(store: Store, now: int, operation: Operation) -> bool:
    """Whether a child has ended, or has had its time, so that its parent has something to do."""
    if operation.child is None:
        return False
    if has_ended(store, operation.child):
        return True
    end = end_of_time(store, operation, now)
    return end is not None and end <= now and _waits_for_nobody(store, operation.child)


def _waits_for_nobody(store: Store, child: str) -> bool:
    try:
        return store.run(child).status is not Status.SUSPENDED
    except NotFound:  # recorded and never made
        return False


def has_ended(store: Store, child: str) -> bool:
    """Whether a child has ended; one that was recorded and never made has not."""
    try:
        return store.run(child).status in SETTLED
    except NotFound:
        return False


def tell_parent(store: Store, row: RunRow) -> None:
    """A child's end is mail for a parent whose pass is not waiting for it: that of another process, a later one."""
    if row.parent_run is None or row.status not in SETTLED:
        return

    def report(parent: RunRow, events: list[Event]) -> list[Draft]:
        operation = Ledger(events).operations.get(row.parent_step or "")
        if parent.status in SETTLED or operation is None or not operation.open:
            return []
        return [Draft(Kind.STEP_REPORTED, row.parent_step, operation.last.number, body_text(child=row.id, status=row.status))]

    # The parent was deleted, or cannot be read: that stops it and not its child.
    with suppress(NotFound, Damaged), blaming(store, row.parent_run):
        store.post(row.parent_run, None, report)
