"""What a run waits for: entries of `waiting[]` (DESIGN.md section 19), made from the open operations alone.

Instants are microseconds here; the documents write them as text. Kind `retry` is for the row and the phase only.
"""

from collections.abc import Sequence
from typing import Any

from flowstone.journal.labels import typed_name
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.states import Status

Wait = dict[str, Any]
"""kind, step, reason, round, deadline, wake_at, child, schema, message: always all of them, in this order."""

PERSON = frozenset({"approval", "suspend"})
"""Kinds of waits that a person's word ends."""
WORD = frozenset({"approval", "resolve"})
"""Kinds of waits that end with a person's word at any time, also while the run's process works on something else."""
TIMER = frozenset({"sleep", "retry"})
"""Kinds of waits that the clock ends."""


def waits_of(ledger: Ledger) -> list[Wait]:
    """What the run waits for, in the order of opening; nothing while it is interrupted, and only waits to be taken up."""
    if ledger.interrupted:
        return []
    if never_taken_up(ledger.status, ledger.owner, ledger.count - ledger.mail):
        return [NEVER_TAKEN_UP]
    waits = [_wait_of(operation) for operation in ledger.waits.values()]
    suspension = ledger.suspension or {}
    if suspension.get("code") == "STOPPED":
        waits.append(make_wait("suspend", reason="stopped"))
    waits.extend(make_wait("function", reason=name) for name in suspension.get("functions", ()))
    return waits


def has_answer(ledger: Ledger) -> bool:
    """Whether what it waits for has come and is only not read yet: an answer, a child's end, a word on an outcome."""
    return any(is_answered(operation) for operation in ledger.waits.values())


def expired(wait: Wait, now: int) -> bool:
    """Whether the wait's deadline has passed, also when no process has noticed it."""
    return wait["deadline"] is not None and bool(wait["deadline"] <= now)


def first_due(waits: Sequence[Wait]) -> Wait | None:
    """The timer among the waits that ends first."""
    timers = [wait for wait in waits if wait["kind"] in TIMER and wait["wake_at"] is not None]
    return min(timers, key=lambda wait: int(wait["wake_at"]), default=None)


def is_answered(operation: Operation) -> bool:
    """Whether what the operation waits for has come and is only not read yet."""
    if operation.answer is None:
        return False
    return not operation.is_gate or operation.answer.attempt == operation.last.number


def _wait_of(operation: Operation) -> Wait:
    name = typed_name(operation.key, operation.name)
    if operation.kind == "sleep":
        return make_wait("sleep", step=operation.key, reason=name, wake_at=operation.wake_at)
    if operation.is_gate:
        opened = operation.opened
        return make_wait(
            operation.kind,
            step=operation.key,
            reason=name,
            round=operation.last.number,
            deadline=opened.get("deadline"),
            schema=opened.get("schema"),
            message=opened.get("message") or None,
        )
    last = operation.last
    if last.status == "failed":
        return make_wait("retry", step=operation.key, reason=operation.key, round=last.number + 1, wake_at=last.next_attempt_at)
    if operation.kind == "child":
        return make_wait("child", step=operation.key, reason=operation.key, child=operation.child)
    return make_wait("resolve", step=operation.key, reason=operation.key)


def never_taken_up(status: Status, owner: str | None, written: int) -> bool:
    """Whether a run was created for whoever takes it up (`flow run --detach`), and nobody has: its creation is all there is.

    `written` is how many events it has without mail, which can come before anybody has taken it up.
    """
    return status is Status.RUNNING and owner is None and written == 1


def make_wait(
    kind: str,
    *,
    step: str | None = None,
    reason: str | None = None,
    round: int | None = None,
    deadline: int | None = None,
    wake_at: int | None = None,
    schema: Any = None,
    message: str | None = None,
    child: str | None = None,
) -> Wait:
    """An entry of `waiting[]` with all its fields."""
    return {
        "kind": kind,
        "step": step,
        "reason": reason,
        "round": round,
        "deadline": deadline,
        "wake_at": wake_at,
        "child": child,
        "schema": schema,
        "message": message,
    }


NEVER_TAKEN_UP = make_wait("queue", reason="a worker")
