"""What is wrong with a graph's topology, all of it at once, before a run exists. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from flowstone.graph.model import ANSWERS, Model, Node, reachable
from flowstone.graph.references import references


@dataclass(frozen=True, slots=True)
class Fault:
    """One violation: at which node (None: the graph itself), in which of its fields, and what it is."""

    node: str | None
    field: str
    text: str


def faults_of(model: Model) -> list[Fault]:
    """Every violation, in the order of the nodes."""
    if not model.nodes:
        return [Fault(None, "nodes", "the graph has no nodes")]
    faults = [fault for node in model.nodes.values() for fault in _faults_of_node(node, model)]
    faults += _faults_of_output(model)
    faults += _faults_of_start(model)
    if any("there is no node" in fault.text for fault in faults):
        return faults  # what is missing would make everything behind it look unreachable
    return faults + _unreachable(model) + _endless(model)


def _faults_of_node(node: Node, model: Model) -> Iterator[Fault]:
    for branch, targets in node.outcomes.items():
        yield from _targets(node.id, "next" if branch is None else f"next.{branch}", targets, model)
    yield from _targets(node.id, "on_error", node.on_error, model)
    for name, expression in (("input", node.input), ("message", node.message), ("for_each", node.for_each)):
        for found in references(expression):
            if found.origin == "node" and found.node not in model.nodes:
                yield Fault(node.id, name, _missing(found.node, model))
            if found.origin == "item" and (node.for_each is None or name == "for_each"):
                yield Fault(node.id, name, "item() is the element of a for_each, and there is none here")
    if node.branches is not None:
        yield from _branches(node)
    if callable(node.function):
        from flowstone.graph.binding import misfit  # not where a stored graph is only read

        if why := misfit(node, node.function, given=is_given(node.id, model)):
            yield Fault(node.id, "input", why)
    if node.branch is not None and node.branches is None:
        yield Fault(node.id, "branch", "it names where the branch stands in the result, but next is no map of branches")


def is_given(node: str, model: Model) -> bool:
    """Whether a node without an input is an entry or an error handler, which get theirs by themselves."""
    return node in model.entries or any(edge.kind == "error" and edge.target == node for edge in model.edges)


def _branches(node: Node) -> Iterator[Fault]:
    assert node.branches is not None
    if not node.branches:
        yield Fault(node.id, "next", "a map of branches has at least one")
    if node.for_each is not None and node.branch is None:
        yield Fault(node.id, "next", "a fan-out chooses no branch: say by branch= where in the list of results it stands")
    if node.kind in ("sleep", "suspend"):
        yield Fault(node.id, "next", f"a {node.kind} chooses no branch: give the nodes that come after it")
    if node.kind == "approval" and node.branch is None:
        needed = ANSWERS if node.expiry is not None else ANSWERS[:2]
        for branch in node.branches:
            if branch not in ANSWERS:
                yield Fault(node.id, f"next.{branch}", f"an approval ends as {', '.join(ANSWERS)}")
        for branch in needed:
            if branch not in node.branches:
                yield Fault(node.id, "next", f'nothing is said for "{branch}": give the nodes that come then, or []')


def _targets(node: str, name: str, targets: Sequence[str], model: Model) -> Iterator[Fault]:
    for place, target in enumerate(targets):
        if target not in model.nodes:
            yield Fault(node, name, _missing(target, model))
        elif target in targets[:place]:
            yield Fault(node, name, f'"{target}" is there twice')


def _missing(name: str, model: Model) -> str:
    close = get_close_matches(name, model.nodes, n=1)
    return f'there is no node "{name}"' + (f'; did you mean "{close[0]}"?' if close else "")


def _faults_of_output(model: Model) -> list[Fault]:
    faults = []
    for found in references(model.output):
        if found.origin == "item":
            faults.append(Fault(None, "output", "item() is the element of a for_each, and there is none here"))
        elif found.origin == "node" and found.node not in model.nodes:
            faults.append(Fault(None, "output", _missing(found.node, model)))
    return faults


def _faults_of_start(model: Model) -> list[Fault]:
    faults = [Fault(None, "start", _missing(node, model)) for node in model.declared_start if node not in model.nodes]
    for edge in model.edges:
        if edge.kind == "error" and edge.target in model.declared_start:
            text = f'"{edge.target}" is the error handler of "{edge.source}": a run cannot begin there'
            faults.append(Fault(None, "start", text))
    if not model.entries:
        cycle = _cycle(model.nodes, model.after)
        faults.append(Fault(None, "nodes", f"no node is an entry, each comes after another: {_path(cycle)}; name one by start="))
    return faults


def _unreachable(model: Model) -> list[Fault]:
    if not model.entries:
        return []
    reached = reachable(model.entries, model.after)
    return [Fault(node, "", "no way leads here from where a run begins") for node in model.nodes if node not in reached]


def _endless(model: Model) -> list[Fault]:
    cycles = _without_exit(list(model.nodes), model)
    return [Fault(cycle[0], "next", f"a run never leaves this cycle: {_path(cycle)}") for cycle in cycles]


def _without_exit(nodes: Sequence[str], model: Model) -> list[list[str]]:
    """The cycles that no node on them can leave. A node can leave a knot if one of its outcomes has no target in it."""
    found = []
    for knot in _knots(nodes, model.after):
        staying = [node for node in knot if not _leaves(model, node, set(knot))]
        if len(staying) == len(knot):
            found.append(_cycle(knot, model.after))
        else:
            found += _without_exit(staying, model)
    return found


def _leaves(model: Model, node: str, knot: set[str]) -> bool:
    outcomes = [(*targets, *model.data_targets[node]) for targets in model.nodes[node].outcomes.values()]
    if model.nodes[node].on_error:
        outcomes.append(model.nodes[node].on_error)
    return any(knot.isdisjoint(targets) for targets in outcomes)


def _knots(nodes: Sequence[str], after: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The groups of nodes that all reach each other by a way inside `nodes`, in the order of `nodes`."""
    inside = _on_cycles(nodes, after)
    reached = {node: reachable(targets, inside) for node, targets in inside.items()}
    knots: list[list[str]] = []
    grouped: set[str] = set()
    for node in inside:
        if node in reached[node] and node not in grouped:
            knots.append([other for other in inside if other in reached[node] and node in reached[other]])
            grouped.update(knots[-1])
    return knots


def _on_cycles(nodes: Sequence[str], after: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The edges between nodes that a cycle leads through or to: what nothing leads to is taken away until no such is left."""
    allowed = set(nodes)
    inside = {node: [target for target in after[node] if target in allowed] for node in nodes}
    coming = dict.fromkeys(nodes, 0)
    for targets in inside.values():
        for target in targets:
            coming[target] += 1
    free = [node for node, count in coming.items() if not count]
    while free:
        for target in inside.pop(free.pop()):
            coming[target] -= 1
            if not coming[target]:
                free.append(target)
    return inside


def _cycle(nodes: Sequence[str] | Mapping[str, object], after: Mapping[str, Sequence[str]]) -> list[str]:
    """A shortest cycle inside `nodes` through the first of them that is on one."""
    allowed = set(nodes)
    for start in nodes:
        paths = [[start]]
        seen: set[str] = set()
        for path in paths:
            for target in after[path[-1]]:
                if target == start:
                    return [*path, start]
                if target in allowed and target not in seen:
                    seen.add(target)
                    paths.append([*path, target])
    return []


def _path(cycle: Sequence[str]) -> str:
    return " → ".join(cycle)
