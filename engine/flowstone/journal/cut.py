"""The cut: which part of a journal a re-opened run keeps, decided from its ledger alone (DESIGN.md section 11).

Kept is every completion handed out before the step S was asked for, with its operation, and those of operations asked for
before S that succeeded later, ordered after it. Not kept are S, what was asked for after it, and operations without a kept
completion.
"""

from typing import Any

from flowstone.errors import NotFound
from flowstone.journal.events import Kind
from flowstone.journal.ledger import Ledger
from flowstone.journal.states import StepStatus


def cut_at(ledger: Ledger, step: str | None, run: str = "RUN") -> dict[str, Any]:
    """The cut at the step of that key; with None, where the run ended: all is kept but what its end put down.

    Plain data, as run.reopened carries it: `n`, the first event that is not kept; `late`, completions after it that are;
    `keep` and `again`, keys of the undo that are kept and begun again. Raises NotFound for a key that the run has not reached;
    `run` is the id that its hint names.
    """
    if step is None:
        return {"step": None, "n": ledger.ending_n or ledger.count, "late": [], "keep": [], "again": []}
    operation = ledger.operations.get(step)
    if operation is None or not operation.of_body:
        raise NotFound(
            f'the run has not reached a step "{step}"', details=list(ledger.operations)[:20], hint=f"flow status {run}"
        )
    # A step of a cleanup was asked for because of the cancel, which a run that is open again has not had.
    point = min([operation.asked_n, *(event.n for event in ledger.completions if event.kind == Kind.RUN_CANCELLING)])
    late = [
        event.n
        for event in ledger.completions
        if event.n > point
        and event.step is not None
        and ledger.operations[event.step].asked_n < point
        and ledger.operations[event.step].status is StepStatus.SUCCEEDED
    ]
    return {"step": step, "n": point, "late": late, "keep": [], "again": []}


def cut_at_failure(ledger: Ledger, step: str | None) -> dict[str, Any]:
    """The cut for a retry of what has failed. For a node of a graph it is where it failed: what ran beside it is kept."""
    operation = ledger.operations.get(step or "")
    if operation is None or "node" not in operation.opened or operation.completion is None:
        return cut_at(ledger, step)
    failed_n = operation.completion.n
    late = [
        event.n
        for event in ledger.completions
        if event.n > failed_n and event.step is not None and ledger.operations[event.step].status is StepStatus.SUCCEEDED
    ]
    # Nothing is asked for once a node has failed, so what began later in the journal was asked for before.
    keep = [event.step for event in ledger.completions if event.n in late]
    return {"step": step, "n": failed_n, "late": late, "keep": keep, "again": []}


def undo_again(ledger: Ledger) -> dict[str, Any]:
    """The cut of a run whose undo failed: everything is kept, the undo that failed is begun again."""
    undos = [operation for operation in ledger.operations.values() if operation.kind == "undo"]
    again = [operation.key for operation in undos if operation.status in (StepStatus.FAILED, StepStatus.WAITING)]
    return {"step": again[0] if again else None, "n": ledger.ending_n or ledger.count, "late": [], "keep": [], "again": again}
