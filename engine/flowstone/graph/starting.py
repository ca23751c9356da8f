"""What can be known before a run of a graph exists: whether its nodes can be called, and whether the input is what they need."""

from collections.abc import Callable, Iterator
from shlex import quote
from typing import Any

from flowstone.errors import BadData, LoadFailed
from flowstone.graph.binding import arguments, bound, misfit
from flowstone.graph.model import Model, Node
from flowstone.graph.plan import visited_by_all
from flowstone.graph.references import NoSuchPart, Ref, part, references
from flowstone.graph.results import GraphFailed, Results
from flowstone.graph.validation import is_given

Find = Callable[[str], Callable[..., Any] | None]
"""The function of the workflow or step of a name; None while it cannot be found."""


def require_start(model: Model, trigger: Any, start: str | None, find: Find) -> None:
    """Raise what a run with that input, as data, could only fail with, whatever its steps do.

    LoadFailed: a node cannot be called with the input that it says. BadData: the run's input lacks what a node needs that every
    run visits, or does not fit it; `details` has a line for each.
    """
    functions = {node.id: _function(node, find) for node in model.nodes.values()}
    faults = [
        f"{node.site}: nodes.{node.id}.input: {why}"
        for node in model.nodes.values()
        if (function := functions[node.id]) is not None
        and (why := misfit(node, function, given=is_given(node.id, model)) or _literal_misfit(node, function)) is not None
    ]
    if faults:
        raise LoadFailed(f'the graph "{model.name}" has a fault', hint=f"flow check {quote(model.name)}", details=faults)
    entries = model.entries if start is None else (start,)
    visited = visited_by_all(model, entries)
    results, wrong = Results(model, trigger), list[str]()
    for node in model.nodes.values():
        if node.id in visited:
            wrong += _wrong(node, functions[node.id], results, is_entry=node.id in entries)
    if not wrong and model.has_output:
        wrong += _missing(references(model.output), trigger, "the output reads it")
    if wrong:
        raise BadData(f"the input does not fit {model.name}", details=wrong, hint=f"flow show {quote(model.name)}")


def _literal_misfit(node: Node, function: Callable[..., Any]) -> str | None:
    """Why an input without any reference does not fit, whatever a run's input is."""
    if not _is_literal(node):
        return None
    try:
        arguments(function, node.input, f'node "{node.id}"', written=isinstance(node.input, dict))
    except GraphFailed as refusal:
        return str(refusal)
    return None


def _is_literal(node: Node) -> bool:
    return node.has_input and not any(references(node.input))


def _function(node: Node, find: Find) -> Callable[..., Any] | None:
    return find(node.function) if isinstance(node.function, str) else node.function


def _wrong(node: Node, function: Callable[..., Any] | None, results: Results, *, is_entry: bool) -> list[str]:
    """What of the run's input is not as the node needs it."""
    trigger, over = results.trigger, node.for_each
    missing = _missing([*references(node.input), *references(node.message)], trigger, f'node "{node.id}" reads it')
    if over is not None:
        if over.origin != "trigger":
            return missing
        missing += _missing([over], trigger, f'node "{node.id}" goes over it')
        if missing:
            return missing
        found = part(trigger, over.path)
        if not isinstance(found, list):
            why = "missing" if found is None else "should be a list"
            return [f'{_place(over)}  {why}; node "{node.id}" goes over it']
    if missing or function is None or _is_literal(node) or any(found.origin == "node" for found in references(node.input)):
        return missing
    try:
        if over is None:
            bound(node, function, results, given=trigger if is_entry else None)
        else:
            items = results.items(node)
            for item in zip(results.item_keys(node, items), items, strict=True):
                bound(node, function, results, item)
    except GraphFailed as refusal:
        nulls = [one for one in references(node.input) if one.origin == "trigger" and part(trigger, one.path) is None]
        return [f'{_place(one)}  missing; node "{node.id}" reads it' for one in nulls] or [str(refusal)]
    return []


def _missing(found: "Iterator[Ref] | list[Ref]", trigger: Any, why: str) -> list[str]:
    """The parts of the run's input that are read and that it does not have; below a null all is null."""
    lines = []
    for one in found:
        try:
            if one.origin == "trigger":
                part(trigger, one.path)
        except NoSuchPart:
            lines.append(f"{_place(one)}  missing; {why}")
    return lines


def _place(one: Ref) -> str:
    """Where in the run's input a reference leads."""
    return f"$.{one.path}" if one.path else "$"
