"""Unknown outcomes: what `flow resolve` says about a step that must not be repeated, checked and then acted on."""

import shlex
from typing import Any

from flowstone.errors import BadData, NotFound, TryAgain, ValueRefused
from flowstone.journal.events import Draft, Kind, body_text
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.states import SETTLED, StepStatus
from flowstone.ports import RunRow
from flowstone.running.body import Body
from flowstone.running.functions import StepFunction, describe_function
from flowstone.running.steps.call import AskedStep
from flowstone.running.taking import Taking
from flowstone.values.codec import exactly, given
from flowstone.values.exact import exact

RESOLVED = "Resolved"
"""The type of a failure that a person has said."""


def unresolved(ledger: Ledger, run: RunRow, step: str) -> Operation:
    """The step of that key, whose outcome is unknown. Raises NotFound, or TryAgain if it is known by now."""
    open_steps = [operation for operation in ledger.operations.values() if is_unresolved(operation)]
    meant = ledger.operations.get(step)
    if meant is None:
        names = ", ".join(operation.key for operation in open_steps) or "none"
        raise NotFound(
            f'run {run.id} has no step "{step}" whose outcome is unknown; unknown: {names}', hint=f"flow status {run.id}"
        )
    if meant.kind == "undo" and meant.status is StepStatus.WAITING:  # the run ends with it, and is re-opened at it
        verb = "retry" if run.status in SETTLED else "resume"
        raise TryAgain(
            f'an undo is not resolved: look at what "{step}" has done, then let it go on', hint=f"flow {verb} {run.id}"
        )
    if not is_unresolved(meant):
        raise TryAgain(f'the outcome of step "{step}" is known: it is {meant.status}', hint=f"flow status {run.id}")
    return meant


def is_unresolved(operation: Operation) -> bool:
    """Whether the step waits for `flow resolve`."""
    return operation.kind in ("step", "on_error") and operation.status is StepStatus.WAITING


def fitting(taking: Taking, row: RunRow, operation: Operation, result: Any) -> Any:
    """What is recorded of a result that a person gives for a step: the same as if its function had returned it.

    Raises BadData, by path, if the step's annotation does not take it; Diverged or LoadFailed if the run could not go on with it.
    While the function cannot be found there is nothing to check against, and the run waits for that function anyway.
    """
    body = taking.replayed(row).body
    if body is None:
        return exact(result, None, what="the result")
    try:
        function = _function_of(operation, body)
        if function is None:
            return exact(result, None, what="the result")
        return given(exactly(result, function.signature.result, what="the result"), function.signature.result)
    except ValueRefused as unfit:
        raise BadData(
            f'the result does not fit step "{operation.key}" ({operation.function}, as it is annotated)',
            details=[*(unfit.details or [unfit.message]), "nothing was written"],
            hint=f"flow resolve {row.id} {shlex.quote(operation.key)} --result FILE --reason TEXT",
        ) from None
    finally:
        body.close()


def _function_of(operation: Operation, body: Body) -> StepFunction | None:
    asked = body.asked.get(operation.opened.get("handles", operation.key))
    if operation.kind == "on_error":
        handler = None if asked is None else asked.request.on_error
        described = None if handler is None else describe_function(handler)
        return described if described is not None and described.name == operation.function else None
    return asked.step if isinstance(asked, AskedStep) else None


def word(operation: Operation, outcome: str, result: Any, by: dict[str, Any], reason: str) -> Draft:
    """The mail: `outcome` is "succeeded" (with the result), "failed" or "retry"."""
    body = body_text(outcome=outcome, result=result, by=by, reason=reason)
    return Draft(Kind.STEP_RESOLVED, operation.key, operation.last.number, body)


def resolution(operation: Operation) -> list[Draft]:
    """The completion that a person's word makes of an unknown outcome; none for "retry"."""
    answer = operation.answer
    if answer is None or answer.kind != Kind.STEP_RESOLVED or not is_unresolved(operation):
        return []
    body = answer.body()
    if body["outcome"] == "succeeded":
        return [Draft(Kind.STEP_SUCCEEDED, operation.key, operation.last.number, body_text(result=body["result"]))]
    if body["outcome"] == "failed":
        message = f"resolved as failed by {body['by']['user']}: {body['reason']}"
        error: dict[str, Any] = {
            "type": RESOLVED,
            "module": None,
            "mro": [],
            "message": message,
            "trace": "",
            "data": None,
            "code": None,
        }
        failed = body_text(error=error, final=True, next_attempt_at=None)
        return [Draft(Kind.STEP_FAILED, operation.key, operation.last.number, failed)]
    return []
