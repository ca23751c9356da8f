"""A run in one line: the note of `flow runs`, the command to type next, and how long the run took."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from flowstone.journal.asked import answer_options
from flowstone.journal.cut import has_undone
from flowstone.journal.events import Kind
from flowstone.journal.facts import RunFacts
from flowstone.journal.labels import label_of
from flowstone.journal.ledger import Ledger
from flowstone.journal.phase import Phase, row_waits
from flowstone.journal.waits import PERSON, TIMER, WORD, Wait, expired, first_due, has_answer, is_answered
from flowstone.journal.words import due_words, left_words


def next_command(phase: Phase, waits: Sequence[Wait], id_text: str, *, now: int, ledger: Ledger | None = None) -> str | None:
    """The command that takes the run on, ready to be typed; None if it goes on by itself, has ended well or was cancelled.

    `id_text` is how the id is to be written: whole in files and pipes, short for people. By the ledger it is also known whether
    the answer has come already, and whether a failed run has been undone.
    """
    if phase is Phase.FAILED:
        return f"flow retry {id_text}" if ledger is None or not _undone(ledger) else f"flow fork {id_text} {_from(ledger)}"
    if phase is Phase.INTERRUPTED:
        return f"flow resume {id_text}"
    if phase in (Phase.SLEEPING, Phase.RETRYING):
        due = first_due(waits)
        is_due = due is not None and due["wake_at"] <= now
        return f"flow resume {id_text}" if is_due else f"flow resume {id_text} --wait"
    wait = wanted(phase, waits, now=now, ledger=ledger)
    if wait is None:
        return f"flow resume {id_text}" if phase is Phase.WAITING else None
    match wait["kind"]:
        case "approval" if not expired(wait, now):
            return _command("flow approve", id_text, _typed(wait, waits), answer_options(wait["schema"]))
        case "resolve":
            return _command("flow resolve", id_text, wait["step"], " --result FILE --reason TEXT")
        case "child":
            return f"flow status {wait['child']}"
    return f"flow resume {id_text}"


def wanted(phase: Phase, waits: Sequence[Wait], *, now: int, ledger: Ledger | None = None) -> Wait | None:
    """The wait that the next command is about; None if none is, or if the run has what it waits for and needs only be resumed.

    While the run's process works on something else, that is what a person can say a word on.
    """
    if ledger is not None and ledger.cancel_request is not None:
        return None
    if phase is Phase.RUNNING:
        waits = [wait for wait in waits if wait["kind"] in WORD and not expired(wait, now) and not _said_of(wait, ledger)]
    elif phase is not Phase.WAITING or (ledger is not None and has_answer(ledger)):
        return None
    return _foremost(waits, now)


WORKFLOW = "the workflow"
"""Who has cancelled a run that nobody asked to cancel: its body called `flow.cancel`."""


def said_note(ledger: Ledger, step: str | None) -> str:
    """What a person has said about an open gate or step, and no process has read yet: `approved by ana, not taken up yet`."""
    operation = ledger.operations.get(step or "")
    if operation is None or operation.answer is None or not operation.open or not is_answered(operation):
        return ""
    body = operation.answer.body()
    word = (
        _RESOLVED.get(str(body.get("outcome")), "resolved")
        if operation.answer.kind == Kind.STEP_RESOLVED
        else body.get("decision")
    )
    by = (body.get("by") or {}).get("user")
    return f"{word}{f' by {by}' if by else ''}, not taken up yet" if word else ""


def resolved_words(outcome: str, by: str | None, reason: str | None) -> str:
    """How a step ended whose outcome nobody saw: `resolved as succeeded by ana: checked in psql`."""
    return f"resolved as {outcome}" + (f" by {by}" if by else "") + (f": {reason}" if reason else "")


def refused_note(ledger: Ledger, step: str | None) -> str:
    """Why the last answer to an open gate did not count: `round 1 of ana: does not fit the gate "pay"; $.limit  missing`."""
    operation = ledger.operations.get(step or "")
    if operation is None or not operation.open or len(operation.attempts) < 2 or operation.attempts[-2].status != "refused":
        return ""
    before, answer = operation.attempts[-2], operation.answer
    by = (answer.body().get("by") or {}).get("user") if answer is not None and answer.attempt == before.number else None
    error = before.error or {}
    why = "; ".join([str(error.get("message")), *(str(detail) for detail in error.get("details") or ())])
    return f"the answer{f' of {by}' if by else ''}, round {before.number}: {why}"


def cancel_note(ledger: Ledger) -> str:
    """How far a cancel has come, who asked for it and why; empty if nobody has: `cancelling by ana: not needed any more`."""
    if ledger.cancelled is not None:
        return _cancel_words("cancelled", ledger.cancelled, or_by=WORKFLOW)
    if ledger.cancelling is not None:
        return _cancel_words("cancelling", ledger.cancelling)
    return "" if ledger.cancel_request is None else _cancel_words("cancel requested", ledger.cancel_request.body())


def note_of(row: RunFacts, phase: Phase, now: int, ledger: Ledger | None = None) -> str:
    """What is worth saying about a run beside its phase; empty if nothing is.

    By its row alone nobody knows of answers that no process has read: for a run that waits and has mail, give the ledger too.
    """
    if phase is Phase.FAILED:
        return _failure(row)
    if phase is Phase.CANCELLED:
        return _cancellation(row)
    if phase is Phase.COMPLETED:
        return ""
    if ledger is not None and ledger.cancel_request is not None and ledger.cancelling is None:
        return f"{cancel_note(ledger)}, not taken up yet"
    progress = f"{row.done:,} of {row.steps:,} steps"
    if phase in (Phase.WAITING, Phase.SLEEPING, Phase.RETRYING):
        waits = row_waits(row)
        open_ones = [wait for wait in waits if not _said_of(wait, ledger)]
        wait = _foremost(open_ones or waits, now) if phase is Phase.WAITING else first_due(waits)
        if wait is not None:
            others = len(waits) - 1
            return wait_note(wait, now, ledger) + (f", {others} more" if others else "")
    if phase is Phase.RUNNING and (open_ones := [wait for wait in row_waits(row) if wait["kind"] in WORD]):
        others = len(open_ones) - 1
        return wait_note(open_ones[0], now) + (f", {others} more" if others else "") + f", {progress}"
    if phase in (Phase.INTERRUPTED, Phase.UNDOING) and row.current_step:
        return f"at {label_of(row.current_step)}, {progress}"
    return progress


def wait_note(wait: Wait, now: int, ledger: Ledger | None = None) -> str:
    """A wait in words: `approve: manager, 3d left`, `approve: manager, expired 3 min ago`, `timer, due in 3d22h`.

    By the ledger also what has been said: `approve: manager, approved by ana, not taken up yet`.
    """
    kind, reason = wait["kind"], wait["reason"]
    if kind == "sleep":
        return f"timer, due {due_words(wait['wake_at'] - now)}"
    if kind == "retry":
        return f"{label_of(wait['step'])}, attempt {wait['round']} due {due_words(wait['wake_at'] - now)}"
    words = "stopped" if kind == "suspend" and wait["step"] is None else _verb(kind, reason)
    if said := _said_of(wait, ledger):
        return f"{words}, {said}"
    if wait["deadline"] is None:
        return words
    if expired(wait, now):
        return f"{words}, expired {due_words(wait['deadline'] - now)}"
    return f"{words}, {left_words(wait['deadline'] - now)}"


def took(row: RunFacts, phase: Phase, now: int, seen_at: int | None = None) -> int:
    """Microseconds from creation to the end; up to now while it runs, up to the last event while nobody works on it.

    `seen_at`: when the process that has it last showed that it lived; an interrupted run has come at least so far.
    """
    end = row.finished_at
    if end is None:
        end = now if phase in (Phase.RUNNING, Phase.UNDOING) else worked_until(row, phase, now, seen_at)
    return max(0, end - row.created_at)


def worked_until(row: RunFacts, phase: Phase, now: int, seen_at: int | None) -> int:
    """Until when somebody is known to have worked on a run that nobody works on any more."""
    return row.updated_at if phase is not Phase.INTERRUPTED or seen_at is None else max(row.updated_at, min(seen_at, now))


_RESOLVED = {"succeeded": "resolved as succeeded", "failed": "resolved as failed", "retry": "resolved: to be retried"}


def _said_of(wait: Wait, ledger: Ledger | None) -> str:
    return "" if ledger is None else said_note(ledger, wait["step"])


def _foremost(waits: Sequence[Wait], now: int) -> Wait | None:
    """The wait to speak of: what a person can still answer, then what else waits, timers last."""

    def rank(wait: Wait) -> int:
        if wait["kind"] in TIMER:
            return 2
        return 0 if wait["kind"] not in PERSON or not expired(wait, now) else 1

    return min(waits, key=rank, default=None)


def _typed(wait: Wait, waits: Sequence[Wait]) -> str:
    """The gate's reason; its whole key if another open gate, of another branch, has the same reason."""
    same = [other for other in waits if other["kind"] == "approval" and other["reason"] == wait["reason"]]
    return str(wait["reason"] if len(same) == 1 else wait["step"])


def _command(verb: str, id_text: str, name: str, options: str) -> str:
    """The verb about a gate or step; a name that looks like an option comes last, after `--`."""
    if name.startswith("-"):
        return f"{verb} {id_text}{options} -- {shlex.quote(name)}"
    return f"{verb} {id_text} {shlex.quote(name)}{options}"


def _verb(kind: str, reason: str | None) -> str:
    verb = {"approval": "approve", "function": "function not found"}.get(kind, kind)
    named = label_of(reason or "") if kind in ("child", "resolve") else reason
    return f"{verb}: {named}" if named else verb


def _failure(row: RunFacts) -> str:
    error: dict[str, Any] = json.loads(row.error) if row.error else {}
    parts = [label_of(error["step"]) if error.get("step") else None, error.get("type") or error.get("code")]
    undo = error.get("undo")
    return ": ".join(part for part in parts if part) + (f", and {label_of(undo['step'])} failed" if undo else "")


def _cancellation(row: RunFacts) -> str:
    error: dict[str, Any] = json.loads(row.error) if row.error else {}
    said = {"by": {"user": error.get("by")}, "reason": error.get("message")}
    return _cancel_words("cancelled", said, or_by=WORKFLOW) if error else ""


def _cancel_words(word: str, body: dict[str, Any], or_by: str | None = None) -> str:
    by = (body.get("by") or {}).get("user") or or_by
    return word + (f" by {by}" if by else "") + (f": {body['reason']}" if body.get("reason") else "")


def _undone(ledger: Ledger) -> bool:
    """Whether the undo has come to its end: the run can then not go on from where it failed."""
    return has_undone(ledger) and (ledger.error or {}).get("code") != "UNDO_FAILED"


def _from(ledger: Ledger) -> str:
    step = (ledger.error or {}).get("step") or "STEP"
    return f"--from={shlex.quote(step)}" if step.startswith("-") else f"--from {shlex.quote(step)}"
