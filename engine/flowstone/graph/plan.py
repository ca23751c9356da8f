"""The plan of a graph, in the records in which the plans of bodies are shown."""

from collections.abc import Iterable

from flowstone.authoring.definition import WorkflowDefinition, definition_of
from flowstone.graph.model import Model, Node, reachable
from flowstone.journal.plan import Plan, Planned


def plan_of(model: Model) -> Plan:
    """The nodes of a graph in their order; the key of each that every run visits just once."""
    certain = _certain(model)
    return Plan(model.name, tuple(_planned(node, node.id in certain) for node in model.nodes.values()))


def kind_of(node: Node) -> str:
    """What a node is, in the words of plans: step, child, map, approval, suspend, sleep."""
    if node.kind != "step":
        return node.kind
    if node.for_each is not None:
        return "map"
    return "child" if isinstance(definition_of(node.function), WorkflowDefinition) else "step"


def _planned(node: Node, certain: bool) -> Planned:
    gate = {"approval": "approve:", "suspend": "suspend:", "sleep": "sleep:"}.get(node.kind, "")
    return Planned(
        kind=kind_of(node),
        line=node.site.line,
        name=node.id,
        key=gate + node.id if certain and node.for_each is None else None,
        function=node.function_name or None,
        retries=None if node.retries is None else str(node.retries),
        retry_delay=node.retry_delay,
        on_error=", ".join(node.on_error) or None,
        items=None if node.for_each is None else str(node.for_each),
        duration=node.duration or None,
        expiry=node.expiry,
        approvers=node.approvers if node.kind == "approval" else None,
        answer=None if node.schema is None else getattr(node.schema, "__name__", None),
    )


def visited_by_all(model: Model, entries: Iterable[str]) -> set[str]:
    """The nodes that every run visits that begins there, unless it fails before: no choice leads there."""
    unconditional = {node: [] if model.nodes[node].branches is not None else [*model.nodes[node].next] for node in model.nodes}
    for node, targets in model.data_targets.items():
        unconditional[node] += targets
    return reachable(entries, unconditional)


def _certain(model: Model) -> set[str]:
    """The nodes that every run visits just once, unless it fails before: no choice leads there, and no loop."""
    reached = visited_by_all(model, model.entries)
    return {node for node in reached if node not in reachable(model.after[node], model.after)}
