"""From the input of a node, as data, to the arguments of what it runs.

An object gives the parameters by name, as the input of a workflow does (DESIGN.md section 3), unless the only parameter takes an
object itself; anything else is the only argument. An object written in the graph whose only key is the only parameter's name
gives it by name all the same.
"""

import inspect
from collections.abc import Callable
from typing import Any

from flowstone.authoring.definition import WorkflowDefinition, definition_of
from flowstone.authoring.inputs import is_whole
from flowstone.errors import ValueRefused
from flowstone.graph.model import Node
from flowstone.graph.references import Ref, references
from flowstone.graph.results import GraphFailed, Results
from flowstone.running.functions import signature_of
from flowstone.values.codec import restore

Parameter = inspect.Parameter


def bound(
    node: Node, function: Callable[..., Any], results: Results, item: tuple[str, Any] | None = None, *, given: Any = None
) -> tuple[Any, ...]:
    """The arguments of one operation of a node: of the item with its key, if it has a fan-out. Raises GraphFailed.

    `given` is what the node gets by itself if it says no input.
    """
    where = f'node "{node.id}"' if item is None else f'item "{item[0]}" of node "{node.id}"'
    if node.has_input:
        data = results.value(node.input, where, None if item is None else item[1])
        return arguments(function, data, where, written=isinstance(node.input, dict))
    return default_arguments(function, given, where) if item is None else arguments(function, item[1], where)


def misfit(node: Node, function: Callable[..., Any], *, given: bool) -> str | None:
    """Why no run can call the function with the input as it is written; None if that can be. Looks at no type, only at the form.

    `given`: whether the node gets something by itself if it says no input.
    """
    if not node.has_input:
        names = [] if given or node.for_each is not None else needed(function)
        return f"{node.function_name} needs {', '.join(names)}, and nothing is given" if names else None
    found = _parameters(function)
    if found is None or isinstance(node.input, Ref):
        return None
    if not found[0] and any(references(node.input)):
        return f"{_named(function)} takes no input"
    try:
        if len(found[0]) != 1:
            arguments(function, node.input, f'node "{node.id}"', checked=False)
    except GraphFailed as refusal:
        return str(refusal)
    return None


def arguments(
    function: Callable[..., Any], data: Any, where: str, *, written: bool = False, checked: bool = True
) -> tuple[Any, ...]:
    """The positional arguments for an input. Raises GraphFailed if it does not fit; `where` says whose it is.

    `written`: the input is an object that stands in the graph, not one that came from elsewhere. `checked=False`: only its form
    is looked at.
    """
    found = _parameters(function)
    if found is None:
        return (restore(data),)
    parameters, skipped = found
    if not parameters:
        if data in (None, {}):
            return ()
        raise GraphFailed(f"{where} has an input, but {_named(function)} takes none")

    known = [one.name for one in parameters]

    def typed(place: int, value: Any) -> Any:
        if not checked:
            return value
        try:
            return restore(value, signature_of(function).of_argument(place + skipped))
        except ValueRefused as refusal:
            why = "; ".join(refusal.details) or refusal.message
            raise GraphFailed(f"the input of {where} does not fit {known[place]} of {_named(function)}: {why}") from None

    only = len(parameters) == 1
    takes_object = only and is_whole(signature_of(function).of_argument(skipped))
    if not isinstance(data, dict) or (takes_object and not (written and [*data] == known)):
        if not only and any(one.default is one.empty for one in parameters[1:]):
            names = ", ".join(known)
            raise GraphFailed(f"the input of {where} is no object, and {_named(function)} takes {names}")
        return (typed(0, data),)
    if unknown := [name for name in data if name not in known]:
        raise GraphFailed(f'the input of {where} has "{unknown[0]}", but {_named(function)} takes {", ".join(known)}')
    if missing := [one.name for one in parameters if one.default is one.empty and one.name not in data]:
        raise GraphFailed(f'the input of {where} has no "{missing[0]}", which {_named(function)} needs')
    last = max(place for place, name in enumerate(known) if name in data) + 1 if data else 0
    return tuple(typed(place, data[one.name]) if one.name in data else one.default for place, one in enumerate(parameters[:last]))


def default_arguments(function: Callable[..., Any], data: Any, where: str) -> tuple[Any, ...]:
    """The arguments for a node that says no input: `data` if it takes any. Raises GraphFailed if it needs what is not there."""
    found = _parameters(function)
    if found is not None and not found[0]:
        return ()
    if data is not None:
        return arguments(function, data, where)
    if needs := needed(function):
        raise GraphFailed(f'{where} says no input, and {_named(function)} needs "{needs[0]}"')
    return ()


def needed(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that a function cannot do without."""
    found = _parameters(function)
    return [] if found is None else [one.name for one in found[0] if one.default is one.empty]


def _parameters(function: Callable[..., Any]) -> tuple[list[Parameter], int] | None:
    """The parameters that an input fills, and how many stand before them; None if any argument goes."""
    skipped = 1 if isinstance(definition_of(function), WorkflowDefinition) else 0
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin that does not tell
        return None
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    return [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)][skipped:], skipped


def _named(function: Callable[..., Any]) -> str:
    definition = definition_of(function)
    return definition.name if definition is not None else getattr(function, "__name__", str(function))
