"""What is known of a function that a step calls: its recorded name, its annotations, its own policy, whether it is async."""

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from flowstone.authoring.definition import SAYS_NOTHING, Policy, StepDefinition, WorkflowDefinition, definition_of
from flowstone.authoring.loader import PACKAGE
from flowstone.errors import FlowMisuse
from flowstone.values.codec import UNANNOTATED


@dataclass(frozen=True, slots=True)
class Signature:
    """The annotations that decide how values are recorded."""

    parameters: tuple[Any, ...]
    rest: Any
    """The annotation of `*args`, for arguments beyond the named ones."""
    result: Any

    def of_argument(self, index: int) -> Any:
        """The annotation of the positional argument at `index`."""
        return self.parameters[index] if index < len(self.parameters) else self.rest


@dataclass(frozen=True, slots=True)
class StepFunction:
    """A callable and what the journal and the attempt need to know of it."""

    name: str
    """As recorded: the registered name, else the qualified name."""
    call: Callable[..., Any]
    is_async: bool
    signature: Signature
    policy: Policy
    description: str
    home: str | None = None
    """The workflow file that defines it, as modules are named (`billing`); None for functions of other modules."""


BARE = Signature((), UNANNOTATED, UNANNOTATED)
_KNOWN: WeakKeyDictionary[Callable[..., Any], Signature] = WeakKeyDictionary()
"""By function, not by its code: codes of different functions can be equal."""


def describe_function(function: Callable[..., Any]) -> StepFunction:
    """The facts of a callable. Raises FlowMisuse for what cannot be a step: no callable, or a workflow's body called directly."""
    try:
        return _remembered(function)
    except TypeError:  # a callable that cannot be hashed
        return _described(function)


def _described(function: Callable[..., Any]) -> StepFunction:
    if not callable(function):
        raise FlowMisuse(f"flow.do was given a {type(function).__name__}; give a function, or a step's registered name")
    definition = definition_of(function)
    if isinstance(definition, WorkflowDefinition):
        raise FlowMisuse(f"{definition.name} is a workflow; child runs are started by the engine, not as a step")
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return StepFunction(
        name=definition.name if isinstance(definition, StepDefinition) else function_name(inner),
        call=function,
        is_async=inspect.iscoroutinefunction(inner),
        signature=signature_of(function),
        policy=definition.policy if isinstance(definition, StepDefinition) else SAYS_NOTHING,
        home=_home(getattr(inner, "__module__", None) or ""),
        description=definition.description.partition("\n")[0] if isinstance(definition, StepDefinition) else "",
    )


def _home(module: str) -> str | None:
    return module.removeprefix(PACKAGE + ".") if module.startswith(PACKAGE + ".") else None


_remembered = functools.lru_cache(maxsize=1024)(_described)


def function_name(function: Callable[..., Any]) -> str:
    """The name that the journal keeps for a function: without the file for those of workflow files, which may be renamed."""
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None) or ""
    if module == PACKAGE or module.startswith((PACKAGE + ".", PACKAGE + "_")) or module in ("__main__", "builtins", ""):
        return name
    return f"{module}.{name}"


def signature_of(function: Callable[..., Any]) -> Signature:
    """The annotations of a callable, resolved. Raises FlowMisuse when one names what does not exist."""
    if getattr(function, "__annotations__", None) == {}:  # nearly every closure; one is made anew at each call
        return BARE
    try:
        known = _KNOWN.get(function)
        if known is None:
            known = _KNOWN[function] = _read_signature(function)
    except TypeError:  # a callable that cannot be a key
        return _read_signature(function)
    return known


def _read_signature(function: Callable[..., Any]) -> Signature:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not tell
        return BARE
    target = function
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isclass(target) or not hasattr(target, "__annotations__"):
        return BARE
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError) as error:
        raise FlowMisuse(
            f"an annotation of {function_name(target)} cannot be read: {error}",
            hint="annotations must name what exists when the module has been imported",
        ) from error
    named, rest = [], UNANNOTATED
    for parameter in parameters:
        annotation = hints.get(parameter.name, UNANNOTATED)
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = annotation
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            named.append(annotation)
    return Signature(tuple(named), rest, hints.get("return", UNANNOTATED))
