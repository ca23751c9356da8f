"""The cut: which part of a journal a re-opened run keeps, decided from its ledger alone (DESIGN.md section 11).

At a step S that is named, kept is every completion handed out before S was asked for, with its operation. Where the failure of a
step has left the body, it is every completion handed out before that failure. In both cases also those of operations asked for
before that succeeded later, ordered after it. Not kept are S, what was asked for later, and operations without a kept completion.
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
        end = min([ledger.count if ledger.ending_n is None else ledger.ending_n, *_cancellings(ledger)])
        return {"step": None, "n": end, "late": [], "keep": [], "again": []}
    operation = ledger.operations.get(step)
    if operation is None or not operation.of_body:
        raise NotFound(
            f'the run has not reached a step "{step}"', details=list(ledger.operations)[:20], hint=f"flow status {run}"
        )
    # A step of a cleanup was asked for because of the cancel, which a run that is open again has not had.
    point = min([operation.asked_n, *_cancellings(ledger)])
    late = [
        event.n
        for event in ledger.completions
        if event.n > point
        and event.step is not None
        and ledger.operations[event.step].asked_n < point
        and ledger.operations[event.step].status is StepStatus.SUCCEEDED
    ]
    return {"step": step, "n": point, "late": late, "keep": [], "again": []}


def _cancellings(ledger: Ledger) -> list[int]:
    return [event.n for event in ledger.completions if event.kind == Kind.RUN_CANCELLING]


def cut_at_failure(ledger: Ledger, step: str | None) -> dict[str, Any]:
    """The cut where the failure of that step was handed to the body: for the body it is as if the step were still going on.

    Kept is all that it had been given before, and what it had asked for before that succeeded later, ordered after it.
    """
    operation = ledger.operations.get(step or "")
    if operation is None:
        return cut_at(ledger, step)
    if operation.completion is None or operation.completion.kind != Kind.STEP_FAILED:  # its process died again and again in it
        return {**cut_at(ledger, None), "step": step}
    point = operation.completion.n
    kept_behind = [
        (event.n, event.step)
        for event in ledger.completions
        if event.n > point and event.step is not None and _succeeded_unaware(ledger, event.step, point)
    ]
    late, keep = [n for n, _ in kept_behind], [key for _, key in kept_behind if ledger.operations[key].asked_n > point]
    return {"step": step, "n": point, "late": late, "keep": keep, "again": []}


def _succeeded_unaware(ledger: Ledger, key: str, point: int) -> bool:
    """Whether it has succeeded and the body had asked for it before it was given the completion at `point`.

    Its start mark may stand behind that completion, if they were written together.
    """
    operation = ledger.operations[key]
    before = ledger.operations.get(operation.opened.get("predecessor") or "")
    asked_before = before is None or (before.completion is not None and before.completion.n < point)
    return asked_before and operation.status is StepStatus.SUCCEEDED


def has_undone(ledger: Ledger) -> bool:
    """Whether the undo of the run has begun, so that it cannot go on from where it failed. A race's loser is no part of that."""
    return any(operation.kind == "undo" and operation.opened.get("cause") for operation in ledger.operations.values())


def undo_again(ledger: Ledger) -> dict[str, Any]:
    """The cut of a run whose undo failed: everything is kept, the undo that failed is begun again."""
    undos = [operation for operation in ledger.operations.values() if operation.kind == "undo"]
    again = [operation.key for operation in undos if operation.status in (StepStatus.FAILED, StepStatus.WAITING)]
    return {"step": again[0] if again else None, "n": ledger.ending_n or ledger.count, "late": [], "keep": [], "again": again}
