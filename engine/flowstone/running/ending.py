"""How a run ends: the events for what the body returned or raised, and for the operations that it leaves open."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from flowstone.authoring.definition import WorkflowDefinition, definition_of
from flowstone.authoring.requests import Site
from flowstone.errors import FlowMisuse
from flowstone.journal.events import Draft, Kind, Raw, body_text
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.states import Verb
from flowstone.running.body import Body
from flowstone.running.functions import signature_of
from flowstone.running.retrying import without_our_frames
from flowstone.running.steps.gate import closing
from flowstone.values.codec import record
from flowstone.values.failures import StepFailed, describe, retryable

CRASHES = 20
"""Deaths of its process in a row, without a completion, after which a run fails."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What a body came to: the run's last event, and the transition with it."""

    drafts: list[Draft]
    verb: Verb
    cause: dict[str, Any]
    """Plain data from which the ending can be made again when an undo is gone on with after a crash."""

    @property
    def undoes(self) -> bool:
        """Whether the run undoes what it has done."""
        return self.verb is not Verb.COMPLETE and bool(self.cause.get("undo", True))

    @property
    def reason(self) -> str:
        """In words, for child runs that are cancelled with it."""
        past = {Verb.COMPLETE: "has completed", Verb.FAIL: "has failed", Verb.CANCEL: "was cancelled"}
        return f"its parent {past[self.verb]}"


def ending_of(body: Body, misused: str | None) -> Ending:
    """The ending of a run whose body has ended, or whose author called what can never work (`misused`)."""
    if misused is not None:
        return failed(_described(body, FlowMisuse(misused), code="MISUSE"))
    if body.cancel is not None:
        return cancelled(body.cancel.reason, body.ledger.cancelling or {})
    try:
        value = body.result()
        forgotten = body.never_awaited()
        if forgotten is not None:
            raise FlowMisuse(f'"{forgotten.name}" was asked for at {forgotten.request.site} and never awaited', hint="await it")
        output = record(value, signature_of(body.function).result, what="the workflow's result")
    except BaseException as error:
        return failed(_described(body, error))
    return Ending([Draft(Kind.RUN_COMPLETED, text=body_text(output=Raw(output.text)))], Verb.COMPLETE, {})


def failed(error: dict[str, Any]) -> Ending:
    """The ending with that error."""
    return Ending([Draft(Kind.RUN_FAILED, text=body_text(error=error))], Verb.FAIL, {"verb": "fail", "error": error})


def crash_loop(ledger: Ledger) -> Ending:
    """The ending of a run whose process dies again and again in the same step."""
    step = (ledger.current or "").removesuffix(":on_error") or None
    message = f'the process died {ledger.deaths} times in a row in step "{step}"'
    error = {"type": "CrashLoop", "message": message, "code": "CRASH_LOOP", "step": step, "trace": "", "site": None}
    return failed(error)


def cancelled(reason: str, request: dict[str, Any]) -> Ending:
    """The ending as cancelled; `request` is the body of run.cancelling, empty if the body cancelled itself: then by nobody."""
    by = request.get("by")
    cause = {"verb": "cancel", "reason": reason, "by": by, "undo": request.get("undo", True)}
    return Ending([Draft(Kind.RUN_CANCELLED, text=body_text(reason=reason, by=by))], Verb.CANCEL, cause)


def ending_again(ledger: Ledger) -> Ending:
    """The ending of a run whose undo has begun, from the journal."""
    cause = ledger.undoing or {}
    if cause["verb"] == "cancel":
        return cancelled(cause["reason"], cause)
    return failed(cause["error"])


def undo_failed(ending: Ending, undo: Operation) -> list[Draft]:
    """The last event of a run that failed or was cancelled, and one of whose undos failed too."""
    failure = undo.last.error or {"type": "Unknown", "message": "it was cut off, and must not be repeated without a word"}
    error = ending.cause.get("error") or dict.fromkeys(("code", "step", "trace", "site")) | (
        {"type": "RunCancelled", "message": ending.cause["reason"]}
        if ending.verb is Verb.CANCEL
        else {"type": failure.get("type"), "message": f'undo of "{undo.name}" failed: {failure.get("message")}'}
    )
    told = {"step": undo.key, "type": failure.get("type"), "message": failure.get("message"), "trace": failure.get("trace")}
    return [Draft(Kind.RUN_FAILED, text=body_text(error={**error, "code": "UNDO_FAILED", "undo": told}))]


def left_open(operations: Iterable[Operation]) -> list[Draft]:
    """The completions of operations that nobody waits for any more."""
    return [
        closing(operation.key, operation.last.number, "cancelled", at=operation.last.start_at)
        if operation.is_gate
        else Draft(Kind.STEP_CANCELLED, operation.key, operation.last.number)
        for operation in operations
    ]


def _described(body: Body, error: BaseException, code: str | None = None) -> dict[str, Any]:
    """The run's error: what was raised, and the step whose failure left the body."""
    recorded = describe(without_our_frames(error))
    operation = _failed_operation(body, error)
    child = operation.last.error.get("child") if operation is not None and operation.last.error else None
    return {
        "type": recorded["type"],
        "message": recorded["message"],
        "code": code or recorded.get("code"),
        "step": None if operation is None else operation.key,
        "trace": recorded["trace"],
        "site": _site_of(body, error) if operation is None else operation.opened.get("site"),
        "child": child,
        "module": recorded.get("module"),
        "mro": recorded.get("mro"),
        "data": recorded.get("data"),
        "heals": retryable(error, ()),
    }


def _site_of(body: Body, error: BaseException) -> str | None:
    """Where in the author's files an error belongs that is no step's: the line that raised it, else where the body begins."""
    definition = definition_of(body.function)
    if isinstance(definition, WorkflowDefinition) and definition.version is not None:  # a graph, whose errors know their node
        told = vars(error).get("site")
        return told if isinstance(told, str) else None
    code = getattr(inspect.unwrap(body.function), "__code__", None)
    begins = None if code is None else str(Site(code.co_filename, code.co_firstlineno))
    return _site_in(body.function, error) or begins


def _site_in(function: Callable[..., Any], error: BaseException) -> str | None:
    """The innermost line of the body's own file that the error came through."""
    code, site, trace = getattr(function, "__code__", None), None, error.__traceback__
    while trace is not None:
        if code is not None and trace.tb_frame.f_code.co_filename == code.co_filename:
            site = str(Site(code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return site


def _failed_operation(body: Body, error: BaseException) -> Operation | None:
    """The operation whose failure left the body; of several the one that failed first, so that a retry begins before all."""
    wanted = set(map(id, _step_failures(error)))
    failed = (body.ledger.operations[key] for key, asked in body.asked.items() if id(asked.failure) in wanted)
    ended = [(operation.completion.n, operation) for operation in failed if operation.completion is not None]
    return min(ended, key=lambda pair: pair[0], default=(0, None))[1]


def _step_failures(error: BaseException) -> list[StepFailed]:
    """The steps' failures that an error is, holds as a group, or was raised from."""
    found: list[StepFailed] = []
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, StepFailed):
            found.append(one)
        else:
            waiting += [one.__cause__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ())]
    return found
