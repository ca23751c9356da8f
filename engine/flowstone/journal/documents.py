"""The JSON documents about runs: `flow.run/1` and `flow.runs/1` (DESIGN.md section 19), fields and their order fixed.

Values stay in their recorded form. Nothing here needs the author's code.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from flowstone.clock import to_rfc3339
from flowstone.identity import invocation_id
from flowstone.journal import words
from flowstone.journal.facts import RunFacts
from flowstone.journal.ledger import Ledger
from flowstone.journal.notes import next_command as next_command
from flowstone.journal.notes import note_of as note_of
from flowstone.journal.notes import refused_note, took
from flowstone.journal.operations import Attempt, Operation
from flowstone.journal.phase import Phase, phase_by, phase_of
from flowstone.journal.states import SETTLED, STEP_ENDS, StepStatus
from flowstone.journal.waits import Wait, waits_of

Document = dict[str, Any]

WITH_FUNCTION = frozenset({"step", "undo", "on_error"})
"""Kinds of operations whose attempts call a function here, under the operation's invocation id."""


def run_document(row: RunFacts, ledger: Ledger, *, life: str | None, now: int, seen_at: int | None = None) -> Document:
    """`flow.run/1`: all that is known of a run. `life` is its owner's, `now` in microseconds UTC; `seen_at`: see `took`."""
    waits = waits_of(ledger)
    phase = phase_by(row.status, row.owner, life, waits, undoing=ledger.undoing is not None)
    return {
        "schema": "flow.run/1",
        "id": row.id,
        "workflow": row.workflow,
        "status": row.status.value,
        "phase": phase.value,
        "key": row.key,
        "user": row.user,
        "version": row.version,
        "plan": ledger.planned.get("plan", []),
        "deterministic": ledger.planned.get("deterministic"),
        "input": ledger.created.get("input"),
        "output": ledger.output,
        "error": error_document(ledger.error),
        "state": ledger.state,
        "waiting": waiting_documents(waits),
        "steps": [step_document(row, ledger, operation, phase, now, seen_at) for operation in ledger.operations.values()],
        "events": row.events,
        "parent": row.parent_run,
        "forked_from": _origin(ledger.created.get("fork")),
        "created_at": to_rfc3339(row.created_at),
        "updated_at": to_rfc3339(row.updated_at),
        "finished_at": instant(row.finished_at),
        "next": next_command(phase, waits, row.id, now=now, ledger=ledger),
    }


def runs_document(
    rows: Iterable[tuple[RunFacts, str | None]],
    *,
    now: int,
    next: str | None,
    ledgers: Mapping[str, Ledger] | None = None,
    seen: Mapping[str, int | None] | None = None,
) -> Document:
    """`flow.runs/1`: rows with their owners' lives, in the order given; `next` is the command to type next, if any.

    By run, for rows that do not tell all: `ledgers`, see `note_of`, and when their owners were last `seen`, see `took`.
    """
    ledgers, seen = ledgers or {}, seen or {}
    listed = [_listed(row, phase_of(row, life), now, ledgers.get(row.id), seen.get(row.id)) for row, life in rows]
    return {"schema": "flow.runs/1", "runs": listed, "next": next}


def step_document(
    row: RunFacts, ledger: Ledger, operation: Operation, phase: Phase, now: int, seen_at: int | None = None
) -> Document:
    """One entry of `steps[]`. `undone` is the status of its undo."""
    opened, last = operation.opened, operation.last
    policy = opened.get("policy") or {}
    status = _status(row, operation)
    undo = ledger.operations.get(operation.key + ":undo")
    abandoned = status is not operation.status
    ended_at = row.finished_at if abandoned else last.end_at if status in STEP_ENDS else None
    failing = status in (StepStatus.FAILED, StepStatus.RETRYING)
    return {
        "key": operation.key,
        "name": operation.name,
        "description": opened.get("description"),
        "kind": operation.kind,
        "function": operation.function,
        "status": status.value,
        "attempts": len(operation.attempts),
        "max_attempts": _max_attempts(policy),
        "invocation_id": invocation_id(row.id, operation.key) if operation.kind in WITH_FUNCTION else None,
        "queue": None,
        "started_at": to_rfc3339(operation.attempts[0].start_at),
        "ended_at": instant(ended_at),
        "duration_ms": milliseconds(_spent(operation, ended_at or _present(status, phase, now, seen_at))),
        "next_attempt_at": instant(last.next_attempt_at) if status is StepStatus.RETRYING else None,
        "child": operation.child,
        "from": opened.get("predecessor"),
        "error": error_document(last.error, operation.key) if failing else _refusal(ledger, operation),
        "undone": None if undo is None or undo.kind != "undo" else _status(row, undo).value,
    }


def _refusal(ledger: Ledger, operation: Operation) -> Document | None:
    """The `error` of an open gate whose last answer was refused when it was read."""
    why = refused_note(ledger, operation.key)
    return error_document({"type": "Refused", "message": why, "code": "REFUSED"}, operation.key) if why else None


def waiting_documents(waits: Iterable[Wait]) -> list[Document]:
    """`waiting[]`: the waits with their instants as text. A retry is no wait here: its step shows the next attempt."""
    return [
        {**wait, "deadline": instant(wait["deadline"]), "wake_at": instant(wait["wake_at"])}
        for wait in waits
        if wait["kind"] != "retry"
    ]


def error_document(error: Mapping[str, Any] | None, step: str | None = None) -> Document | None:
    """`error`: a recorded failure in the fields that people read; `step` is the key of the step that it is the failure of.

    Beside them `child` (`run`, `step`: the deepest where it happened) if it is the failure of a child run, and `undo` (`step`,
    `type`, `message`) if an undo failed after it.
    """
    if error is None:
        return None
    document = {
        "type": error.get("type"),
        "message": error.get("message"),
        "code": error.get("code"),
        "step": step or error.get("step"),
        "trace": error.get("trace"),
    }
    if error.get("child"):
        document["child"] = error["child"]
    if error.get("undo"):
        document["undo"] = {name: error["undo"].get(name) for name in ("step", "type", "message")}
    return document


def instant(at: int | None) -> str | None:
    """An instant that may be unknown, as text."""
    return None if at is None else to_rfc3339(at)


def milliseconds(us: int | None) -> int | None:
    """A duration that may be unknown, in milliseconds."""
    return None if us is None else words.milliseconds(us)


def _status(row: RunFacts, operation: Operation) -> StepStatus:
    """What an operation has come to; one that its run ended without is cancelled."""
    return operation.status if operation.status in STEP_ENDS or row.status not in SETTLED else StepStatus.CANCELLED


def _listed(row: RunFacts, phase: Phase, now: int, ledger: Ledger | None, seen_at: int | None) -> Document:
    return {
        "id": row.id,
        "workflow": row.workflow,
        "status": row.status.value,
        "phase": phase.value,
        "key": row.key,
        "created_at": to_rfc3339(row.created_at),
        "finished_at": instant(row.finished_at),
        "duration_ms": milliseconds(took(row, phase, now, seen_at)),
        "note": note_of(row, phase, now, ledger),
    }


def _max_attempts(policy: Mapping[str, Any]) -> int | None:
    if policy.get("max_attempts") is not None:
        return int(policy["max_attempts"])
    return None if policy.get("retries") is None else int(policy["retries"]) + 1


def _present(status: StepStatus, phase: Phase, now: int, seen_at: int | None) -> int | None:
    """Up to when an operation without an end has lasted; if the process that worked on it is gone, as far as it was seen."""
    if status is StepStatus.WAITING or phase in (Phase.RUNNING, Phase.UNDOING):
        return now
    return min(seen_at, now) if phase is Phase.INTERRUPTED and seen_at is not None else None


def _spent(operation: Operation, until: int | None) -> int | None:
    """Microseconds that an operation has taken: its attempts and the waits between them.

    What came before a failure for good (`flow retry` began again) and the time without a process do not count.
    """
    total, counted = 0, _counted(operation.attempts)
    for attempt in counted:
        end = until if attempt.end_at is None else attempt.end_at
        if end is None:
            return None
        total += max(0, end - attempt.start_at)
        if attempt is not counted[-1] and attempt.next_attempt_at is not None:
            total += max(0, attempt.next_attempt_at - end)
    return total


def _counted(attempts: list[Attempt]) -> list[Attempt]:
    first = 0
    for index, attempt in enumerate(attempts[:-1], start=1):
        settled = attempt.status not in ("interrupted", "refused") or (
            attempt.status == "interrupted" and attempt.error is not None
        )
        if settled and attempt.next_attempt_at is None:
            first = index
    return attempts[first:]


def _origin(fork: Any) -> str | None:
    return fork.get("run") if isinstance(fork, dict) else fork
