"""The ledger: the fold of a run's events into its operations and its own facts. Replay, status and summaries read it.

Applied event by event, at the same cost for the first and the last. Values stay in their recorded form.
"""

from collections.abc import Callable, Iterable
from typing import Any

from flowstone.journal.events import MAIL, Event, Kind
from flowstone.journal.operations import Attempt, Operation, put_down_from
from flowstone.journal.states import Status, StepStatus
from flowstone.journal.vanished import cut_off_at, seen_at


class Ledger:
    """What a run's events come to. Feed it the events in the order of n, all from the first."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.operations: dict[str, Operation] = {}
        self.by_place: dict[tuple[str, int], Operation] = {}
        """Operations by branch and position in it: their identity for replay."""
        self.waits: dict[str, Operation] = {}
        """Open operations that wait for something outside: gates, sleeps, retries, child runs, unknown outcomes."""
        self.completions: list[Event] = []
        """What is handed out to the body, in this order."""
        self.made: dict[str, int] = {}
        """The highest number of an attempt or round by key, those before a cut included."""
        self.children: dict[str, str] = {}
        """The child run by the key of its step; a step begun again after a cut goes on with the same child."""
        self.unhandled: set[str] = set()
        """Keys of steps whose on_error has not ended."""
        self.early: dict[str, Event] = {}
        """Answers to gates that are not open yet, by key."""
        self.state: dict[str, Any] = {}
        self.created: dict[str, Any] = {}
        self.version = ""
        self.planned: dict[str, Any] = {}
        """`plan` and `deterministic` of that version, as they were read when the run came to it."""
        self.status = Status.RUNNING
        self.created_at = 0
        self.updated_at = 0
        self.finished_at: int | None = None
        self.output: Any = None
        self.error: dict[str, Any] | None = None
        self.cancel_request: Event | None = None
        self.cancelling: dict[str, Any] | None = None
        """The body of run.cancelling, once the cancel has reached the body."""
        self.undoing: dict[str, Any] | None = None
        """Why the undo has begun: how the body ended."""
        self.ending_n: int | None = None
        """The first event of the append that ended the run."""
        self.cancelled: dict[str, Any] | None = None
        self.suspension: dict[str, Any] | None = None
        """The body of the last run.suspended, while it holds."""
        self.written_at = 0
        """When the owner wrote its last event."""
        self.seen_at: int | None = None
        """When the process that vanished last was last known to live."""
        self.interrupted = False
        """Whether the last pass ended without a word of its own (its process died or was stopped)."""
        self.owner: str | None = None
        self.epoch = 0
        self.mail = 0
        self.count = 0
        self.done = 0
        """Steps that have succeeded; gates, sleeps and states are none."""
        self.deaths = 0
        """Processes that died since the last completion."""
        self.current: str | None = None
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> None:
        """Take one more event in. Raises KeyError for an event of a step that was never started (a damaged journal)."""
        self.count = event.n + 1
        self.updated_at = event.at
        handler = _HANDLERS.get(event.kind)
        if handler is not None:
            handler(self, event)
        if event.kind in MAIL:
            self.mail += 1
        else:
            self.written_at = event.at

    def next_attempt(self, key: str) -> int:
        """The number of the next attempt or round of a key; numbers are never used twice, not after a cut either."""
        return self.made.get(key, 0) + 1

    def reopen(self, cut: dict[str, Any]) -> None:
        """The run is open again, with what the cut keeps (see cut.py). The same cut again changes nothing."""
        self.status = Status.RUNNING
        self.finished_at = self.error = self.cancelled = None
        self.cancel_request = self.cancelling = self.ending_n = None
        self.deaths = 0
        if not cut["again"]:
            self.undoing = None
        self.cut(cut)

    def cut(self, cut: dict[str, Any]) -> None:
        """Keep what a cut keeps."""
        late = set(cut["late"])
        kept = [event for event in self.completions if event.n < cut["n"]]
        kept += [event for event in self.completions if event.n in late and event.n >= cut["n"]]
        numbers = {event.n for event in kept}
        for operation in list(self.operations.values()):
            if operation.key in cut["again"]:
                _reopen(operation)
            elif operation.of_body and (
                (operation.asked_n >= cut["n"] and operation.key not in cut["keep"])
                or operation.completion is None
                or operation.completion.n not in numbers
            ):
                self._drop(operation)
        for own in [one for one in self.operations.values() if not one.of_body and _of(one) not in self.operations]:
            self._drop(own)
        self.completions = kept
        self.done = sum(self._succeeded(event) for event in kept)
        changes = [self.operations[event.step or ""] for event in kept if event.kind == Kind.STATE_SET]
        self.state = {change.opened["state"]: change.opened["value"] for change in changes if not change.is_patch}

    def _drop(self, operation: Operation) -> None:
        del self.operations[operation.key]
        if operation.branch is not None and operation.position is not None:
            del self.by_place[operation.branch, operation.position]
        self.waits.pop(operation.key, None)
        self.unhandled.discard(operation.key)
        if operation.status is StepStatus.SUCCEEDED:  # what the child has done is done already: another one does it again
            self.children.pop(operation.key, None)

    def _succeeded(self, event: Event) -> bool:
        operation = self.operations.get(event.step or "")
        return operation is not None and operation.is_step and operation.status is StepStatus.SUCCEEDED

    def open_gates(self) -> list[Operation]:
        """Gates that nobody has closed, in the order they opened."""
        return [operation for operation in self.waits.values() if operation.is_gate]

    # operations

    def _begin(self, event: Event, kind: str) -> Operation:
        body = event.body()
        assert event.step is not None
        operation = Operation(
            key=event.step,
            name=body["name"],
            kind=kind,
            function=body.get("function"),
            branch=body.get("branch"),
            position=body.get("position"),
            digest=body.get("digest"),
            opened=body,
            asked_n=event.n,
            asked_at=event.at,
        )
        self.operations[operation.key] = operation
        if operation.branch is not None and operation.position is not None:
            self.by_place[operation.branch, operation.position] = operation
        self.current = operation.key
        return operation

    def _of(self, event: Event) -> Operation:
        return self.operations[event.step or ""]

    def _complete(self, event: Event, operation: Operation, status: StepStatus) -> None:
        operation.status = status
        operation.completion = event
        if operation.of_body:
            self.completions.append(event)
        self.waits.pop(operation.key, None)
        self.deaths = 0
        self.done += operation.is_step and status is StepStatus.SUCCEEDED
        handled = self.operations.get(operation.opened.get("handles", ""))
        if handled is not None and handled.failure is not None:
            failure, handled.failure = handled.failure, None
            self.unhandled.discard(handled.key)
            self._complete(failure._replace(n=event.n, at=event.at), handled, StepStatus.FAILED)

    def _begin_attempt(self, event: Event, operation: Operation, status: str = "running") -> None:
        number = event.attempt or 1
        self.made[operation.key] = number
        operation.attempts.append(Attempt(number, event.n, event.at, status))

    def _step_started(self, event: Event) -> None:
        operation = self.operations.get(event.step or "")
        if operation is None:
            operation = self._begin(event, "step")
            operation.kind = operation.opened.get("kind", "step")
            self.undoing = operation.opened.get("cause") or self.undoing
        else:  # what was said about an earlier attempt says nothing about this one
            operation.answer = operation.child = None
        operation.status = StepStatus.RUNNING
        self._begin_attempt(event, operation)
        self.waits.pop(operation.key, None)
        self.current = operation.key

    def _step_succeeded(self, event: Event) -> None:
        operation = self._of(event)
        _end(operation.last, event, "succeeded", vanished=_vanished(operation))
        self._complete(event, operation, StepStatus.SUCCEEDED)

    def _step_failed(self, event: Event) -> None:
        operation, body = self._of(event), event.body()
        attempt = operation.last
        _end(attempt, event, "failed", vanished=_vanished(operation))
        attempt.error = body["error"]
        operation.failures += 1
        if body["final"] and operation.opened.get("on_error"):
            operation.status = StepStatus.FAILED
            operation.failure = event
            self.unhandled.add(operation.key)
            self.waits.pop(operation.key, None)
        elif body["final"]:
            self._complete(event, operation, StepStatus.FAILED)
        else:
            operation.status = StepStatus.RETRYING
            attempt.next_attempt_at = body["next_attempt_at"]
            self.waits[operation.key] = operation

    def _step_interrupted(self, event: Event) -> None:
        operation = self._of(event)
        if operation.child is None:
            _end(operation.last, event, "interrupted")
            operation.last.end_at = cut_off_at(operation.last.start_at, event.at, self.seen_at)
        else:
            operation.last.status = "interrupted"  # only the watching: the child ends by itself
        if operation.repeatable:
            operation.status = StepStatus.RETRYING
        else:
            operation.status = StepStatus.WAITING
            self.waits[operation.key] = operation

    def _step_cancelled(self, event: Event) -> None:
        operation = self._of(event)
        if operation.last.end_n is None:
            _end(operation.last, event, "cancelled")
        operation.failure = None
        self.unhandled.discard(operation.key)
        self._complete(event, operation, StepStatus.CANCELLED)

    def _sleep_started(self, event: Event) -> None:
        operation = self._begin(event, "sleep")
        operation.status = StepStatus.WAITING
        operation.wake_at = operation.opened["wake_at"]
        self._begin_attempt(event, operation, "waiting")
        self.waits[operation.key] = operation

    def _gate_opened(self, event: Event) -> None:
        operation = self.operations.get(event.step or "")
        if operation is None:
            operation = self._begin(event, event.body()["kind"])
            operation.answer = self.early.pop(operation.key, None)
        else:
            operation.opened = event.body()  # a new round may have another schema
            operation.completion = None  # of before a cut, which the gate's own events do not tell
        operation.status = StepStatus.WAITING
        self._begin_attempt(event, operation, "waiting")
        self.waits[operation.key] = operation

    def _gate_answered(self, event: Event) -> None:
        self._mail_for(event)

    def _step_resolved(self, event: Event) -> None:
        self._mail_for(event)

    def _step_reported(self, event: Event) -> None:
        self._mail_for(event)

    def _mail_for(self, event: Event) -> None:
        operation = self.operations.get(event.step or "")
        if operation is None:
            self.early[event.step or ""] = event
        else:
            operation.answer = event

    def _child_started(self, event: Event) -> None:
        operation = self._of(event)
        operation.child = event.body()["child"]
        self.children[operation.key] = operation.child or ""
        self.waits[operation.key] = operation

    def _gate_refused(self, event: Event) -> None:
        operation = self._of(event)
        _end(operation.last, event, "refused")
        operation.last.error = event.body().get("error")

    def _gate_closed(self, event: Event) -> None:
        operation, outcome = self._of(event), event.body()["outcome"]
        _end(operation.last, event, outcome)
        self._complete(event, operation, StepStatus.CANCELLED if outcome == "cancelled" else StepStatus.SUCCEEDED)

    def _state_set(self, event: Event) -> None:
        operation = self._begin(event, "state")
        self._begin_attempt(event, operation, "succeeded")
        _end(operation.last, event, "succeeded")
        if not operation.is_patch:
            self.state[operation.opened["state"]] = operation.opened["value"]
        self._complete(event, operation, StepStatus.SUCCEEDED)

    # the run

    def _run_created(self, event: Event) -> None:
        self.created = event.body()
        self.created_at = event.at
        self.version = self.created["version"]
        self._keep_plan(self.created)

    def _run_claimed(self, event: Event) -> None:
        body = event.body()
        self.owner, self.epoch = body["owner"], body["epoch"]
        self.interrupted = False

    def _run_interrupted(self, event: Event) -> None:
        self.owner = None
        self.interrupted = True
        self.seen_at = seen_at(event, self.written_at)
        if event.body().get("code") == "VANISHED":
            self.deaths += 1

    def _run_suspended(self, event: Event) -> None:
        self.status = Status.SUSPENDED
        self.suspension = event.body()
        if "cause" in self.suspension:  # the body has ended, and an undo cannot be begun
            self.undoing, self.ending_n = self.suspension["cause"], put_down_from(self.completions, event.n)
        self.owner = None

    def _run_resumed(self, _event: Event) -> None:
        self.status = Status.RUNNING
        self.suspension = None

    def _run_reopened(self, event: Event) -> None:
        self.reopen(event.body()["cut"])

    def _run_cancelling(self, event: Event) -> None:
        self.cancelling = event.body()
        self.completions.append(event)

    def _run_migrated(self, event: Event) -> None:
        body = event.body()
        self.version = body["to"]
        self._keep_plan(body)

    def _keep_plan(self, body: dict[str, Any]) -> None:
        if "plan" in body:
            self.planned = {"plan": body["plan"], "deterministic": body["deterministic"]}

    def _settled(self, event: Event, status: Status) -> dict[str, Any]:
        self.status = status
        self.ending_n = put_down_from(self.completions, event.n) if self.ending_n is None else self.ending_n
        self.finished_at = event.at
        self.owner = None
        self.suspension = None
        self.waits.clear()
        return event.body()

    def _run_completed(self, event: Event) -> None:
        self.output = self._settled(event, Status.COMPLETED)["output"]

    def _run_failed(self, event: Event) -> None:
        self.error = self._settled(event, Status.FAILED)["error"]

    def _run_cancelled(self, event: Event) -> None:
        self.cancelled = self._settled(event, Status.CANCELLED)
        requested = (completion.n for completion in self.completions if completion.kind == Kind.RUN_CANCELLING)
        self.ending_n = next(requested, self.ending_n)  # re-opened, the run has not been cancelled

    def _run_cancel_requested(self, event: Event) -> None:
        self.cancel_request = event


def _of(own: Operation) -> str | None:
    """The key of the step that an undo or an on_error belongs to."""
    return own.opened.get("compensates") or own.opened.get("handles")


def _reopen(operation: Operation) -> None:
    operation.completion = operation.answer = operation.failure = None
    operation.failures = 0
    operation.status = StepStatus.RETRYING


def _vanished(operation: Operation) -> bool:
    """Whether its last attempt was cut off; a child run goes on all the same."""
    return operation.last.status == "interrupted" and operation.child is None


def _end(attempt: Attempt, event: Event, status: str, *, vanished: bool = False) -> None:
    """`vanished`: nobody saw its end, so that it stays interrupted, whatever a person says that came of it."""
    attempt.status = attempt.status if vanished else status
    attempt.end_n = event.n
    if attempt.end_at is None:  # else it was cut off, and only now is known what became of it
        attempt.end_at = event.at


_HANDLERS: dict[str, Callable[[Ledger, Event], None]] = {
    kind.value: getattr(Ledger, "_" + kind.value.replace(".", "_"))
    for kind in Kind
    if hasattr(Ledger, "_" + kind.value.replace(".", "_"))
}
