"""Where a run that has ended is re-opened: `flow retry`, and a child whose parent's step is attempted again."""

from typing import Any

from flowstone.errors import UsageError
from flowstone.journal.cut import cut_at, cut_at_failure, has_undone, undo_again
from flowstone.journal.ledger import Ledger
from flowstone.journal.notes import next_command
from flowstone.journal.phase import Phase
from flowstone.journal.states import Status
from flowstone.journal.waits import waits_of
from flowstone.ports import RunRow


def reopening_cut(row: RunRow, ledger: Ledger, step: str | None) -> dict[str, Any]:
    """The cut at the step whose failure left the body, or at `step`; once an undo has begun only the undo goes on.

    Raises UsageError for a run that has not failed, was not cancelled, or is undone; NotFound for a step that it has not reached.
    """
    if row.status not in (Status.FAILED, Status.CANCELLED):
        raise UsageError(f"run {row.id} is {row.status}: only a failed or cancelled run is retried", hint=_instead(row, ledger))
    if (ledger.error or {}).get("code") == "UNDO_FAILED" and step is None:
        return undo_again(ledger)
    if has_undone(ledger):
        raise UsageError(
            f"run {row.id} has undone what it did: it cannot go on from there", hint=f"flow fork {row.id} --from STEP"
        )
    if step is not None:
        return _without_undone(ledger, cut_at(ledger, step, row.id))
    return _without_undone(ledger, cut_at_failure(ledger, (ledger.error or {}).get("step")))


def _instead(row: RunRow, ledger: Ledger) -> str:
    """The command that takes on a run which has not failed."""
    if row.status is Status.COMPLETED:
        return f"flow fork {row.id} --from STEP"
    phase = Phase.WAITING if row.status is Status.SUSPENDED else Phase.INTERRUPTED
    return next_command(phase, waits_of(ledger), row.id, now=row.updated_at, ledger=ledger) or f"flow resume {row.id}"


def _without_undone(ledger: Ledger, cut: dict[str, Any]) -> dict[str, Any]:
    """Keep nothing late that a race has lost and undone: it may win this time."""
    undone = {event.n for event in ledger.completions if f"{event.step}:undo" in ledger.operations}
    return {**cut, "late": [n for n in cut["late"] if n not in undone]}
