"""How a run ends: the events for what the body returned or raised, and for the operations that it leaves open."""

from collections.abc import Iterable
from typing import Any

from flowstone.errors import FlowMisuse
from flowstone.interrupts import RunCancelled
from flowstone.journal.events import Draft, Kind, Raw, body_text
from flowstone.journal.ledger import Operation
from flowstone.journal.states import Verb
from flowstone.running.body import Body
from flowstone.running.functions import signature_of
from flowstone.running.steps.gate import closing
from flowstone.values.codec import record
from flowstone.values.failures import StepFailed, describe


def ending_of(body: Body, misused: str | None) -> tuple[list[Draft], Verb]:
    """The last event of a run whose body has ended, or whose author called what can never work (`misused`)."""
    if misused is not None:
        return _failed(body, FlowMisuse(misused), code="MISUSE"), Verb.FAIL
    if isinstance(body.interrupt, RunCancelled):
        by = {"user": body.user}
        return [Draft(Kind.RUN_CANCELLED, text=body_text(reason=body.interrupt.reason, by=by))], Verb.CANCEL
    try:
        value = body.result()
        forgotten = body.never_awaited()
        if forgotten is not None:
            raise FlowMisuse(f'"{forgotten.name}" was asked for at {forgotten.request.site} and never awaited', hint="await it")
        output = record(value, signature_of(body.function).result, what="the workflow's result")
    except BaseException as error:
        return _failed(body, error), Verb.FAIL
    return [Draft(Kind.RUN_COMPLETED, text=body_text(output=Raw(output.text)))], Verb.COMPLETE


def left_open(operations: Iterable[Operation]) -> list[Draft]:
    """The completions of operations that nobody waits for any more."""
    return [
        closing(operation.key, operation.last.number, "cancelled", at=operation.last.start_at)
        if operation.is_gate
        else Draft(Kind.STEP_CANCELLED, operation.key, operation.last.number)
        for operation in operations
    ]


def _failed(body: Body, error: BaseException, code: str | None = None) -> list[Draft]:
    recorded = describe(error)
    step: str | None = None
    site: str | None = None
    cause = _step_failure(error)
    if cause is not None:
        operation = body.failed_operation(cause)
        if operation is not None:
            step, site = operation.key, operation.opened.get("site")
    if isinstance(error, StepFailed):
        recorded |= {"type": error.type, "message": error.message, "trace": error.trace}
    run_error: dict[str, Any] = {
        "type": recorded["type"],
        "message": recorded["message"],
        "code": code or recorded.get("code"),
        "step": step,
        "trace": recorded["trace"],
        "site": site or recorded.get("site"),
    }
    return [Draft(Kind.RUN_FAILED, text=body_text(error=run_error))]


def _step_failure(error: BaseException) -> StepFailed | None:
    """The step's failure that left the body: the error itself, or the first one in a group."""
    if isinstance(error, StepFailed):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for inner in error.exceptions if (found := _step_failure(inner)) is not None), None)
    return None
