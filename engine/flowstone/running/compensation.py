"""The undo of a run: which steps are undone, in which order, and carrying it out from the journal alone, without the body."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flowstone.authoring.definition import Done, Policy, StepDefinition, definition_of
from flowstone.authoring.loader import PACKAGE
from flowstone.errors import LoadFailed, NotFound, ValueRefused
from flowstone.identity import invocation_id
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.states import StepStatus
from flowstone.running.attempt import TimedOut
from flowstone.running.functions import BARE, Signature, describe_function, function_name, signature_of
from flowstone.running.resolving import RESOLVED
from flowstone.running.steps.own import OwnStep
from flowstone.values.codec import UNANNOTATED, restore

_NO_RESULT = (TimedOut.__qualname__, ValueRefused.__qualname__)
"""Failures of an attempt that say nothing of what it did."""


def to_undo(ledger: Ledger) -> list[Operation]:
    """The operations whose undo is still to be done, last completed first, across all branches.

    Those that succeeded, and those whose outcome is unknown.
    """
    candidates = [
        operation
        for operation in ledger.operations.values()
        if operation.opened.get("undo") and (operation.status is StepStatus.SUCCEEDED or _unknown(operation))
    ]
    candidates.sort(key=lambda one: one.completion.n if one.completion else ledger.count + one.asked_n, reverse=True)
    return [operation for operation in candidates if not _undone(ledger, operation)]


def _unknown(operation: Operation) -> bool:
    """Whether it may or may not have taken effect: an attempt was cut off or left no result, and none succeeded.

    A child is never unknown: it has undone itself. Nor is what a person has said to have failed.
    """
    if operation.kind == "child" or (operation.last.error or {}).get("type") == RESOLVED:
        return False
    return any(
        attempt.status in ("running", "interrupted", "cancelled") or (attempt.error or {}).get("type") in _NO_RESULT
        for attempt in operation.attempts
    )


def _undone(ledger: Ledger, operation: Operation) -> bool:
    undo = ledger.operations.get(operation.key + ":undo")
    return undo is not None and undo.status is StepStatus.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Names:
    """Finds functions by the names in the journal: where they were defined, in the workflow's own file, among registered steps.

    Files may have functions of one name: the nearest is meant, and that of the step's own file before all.
    """

    workflow: Callable[[], Callable[..., Any]]
    """Gives the workflow's body. Raises NotFound, LoadFailed: an undo goes on without the body, maybe after its file is gone."""
    find_step: Callable[[str], Callable[..., Any]]

    def find(self, name: str, home: str | None = None) -> Callable[..., Any]:
        """The function of that name, which the workflow file `home` had if that was recorded. Nothing is imported for it.

        Raises NotFound; LoadFailed if the workflow's file cannot be imported, or has to be told which of two steps is meant.
        """
        if home is not None and (known := _recorded_as(name, sys.modules.get(f"{PACKAGE}.{home}"))) is not None:
            return known
        own, gone = None, None
        try:
            own = sys.modules.get(self.workflow().__module__)
        except (NotFound, LoadFailed) as error:
            gone = error
        if (known := _recorded_as(name, own)) is not None and _is_workflow_file(own):
            return known
        try:
            return self.find_step(name)
        except NotFound:
            if gone is not None:
                raise gone from None
        parts = name.split(".")
        found = _walk(own, parts)
        for length in range(len(parts) - 1, 0, -1):
            if found is None:
                found = _walk(sys.modules.get(".".join(parts[:length])), parts[length:])
        if found is None:
            found = self._in_another_file(parts)
        if not callable(found):
            raise NotFound(f'there is no function "{name}"')
        called: Callable[..., Any] = found
        return called

    def _in_another_file(self, parts: list[str]) -> Any:
        """The one function of that name in the other workflow files that are loaded; None if there are several."""
        files = [module for name, module in list(sys.modules.items()) if name.startswith(PACKAGE + ".")]
        found = {id(one): one for module in files if (one := _walk(module, parts)) is not None}
        return next(iter(found.values())) if len(found) == 1 else None


def _is_workflow_file(module: Any) -> bool:
    """Elsewhere a module holds more than one workflow can see, as the modules of tests do."""
    return module is not None and module.__name__.startswith(PACKAGE + ".")


def _recorded_as(name: str, module: Any) -> Callable[..., Any] | None:
    """The function of a module that the journal knows by that name: a step that is registered so, or a plain function."""
    if module is None:
        return None
    for found in filter(inspect.isfunction, vars(module).values()):
        definition = definition_of(found)
        if isinstance(definition, StepDefinition) and definition.name == name:
            return found
    plain: Callable[..., Any] | None = _walk(module, name.split("."))
    return plain if inspect.isroutine(plain) and definition_of(plain) is None and function_name(plain) == name else None


def _walk(found: Any, names: list[str]) -> Any:
    for name in names:
        found = getattr(found, name, None)
    return found


def undo_step(
    run_id: str, ledger: Ledger, operation: Operation, names: Names, base: Policy, cause: dict[str, Any] | None
) -> OwnStep:
    """The undo of one operation. Raises NotFound if its function cannot be found."""
    homes = operation.opened.get("homes", {})
    function = describe_function(names.find(operation.opened["undo"], homes.get("undo")))

    def done() -> Done[Any, Any]:
        signature = _signature(operation, names)
        known = operation.status is StepStatus.SUCCEEDED
        result = operation.completion.body()["result"] if known and operation.completion else None
        return Done(
            args=_arguments(operation, signature),
            result=restore(result, signature.result) if known else None,
            outcome="succeeded" if known else "unknown",
            step=operation.name,
            invocation_id=invocation_id(run_id, operation.key),
        )

    record = ledger.operations.get(operation.key + ":undo")
    return OwnStep("undo", operation, function, done, base, record, cause=cause)


def _signature(operation: Operation, names: Names) -> Signature:
    try:
        known = signature_of(names.find(operation.function or "", operation.opened.get("homes", {}).get("function")))
    except NotFound:  # a closure has no name to be found by
        return BARE
    return Signature((), UNANNOTATED, known.result) if operation.kind == "child" else known


def _arguments(operation: Operation, signature: Signature) -> tuple[Any, ...]:
    recorded, count = operation.opened["input"], operation.opened.get("arguments", 1)
    if count == 0:
        return ()
    values = [recorded] if count == 1 else recorded
    return tuple(restore(value, signature.of_argument(index)) for index, value in enumerate(values))
