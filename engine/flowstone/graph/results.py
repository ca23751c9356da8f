"""What a run of a graph knows: its input and its nodes' results, as recorded data; what is read from them and chosen by them.

Used live by the interpreter and by fates.py on a journal.
"""

from datetime import datetime
from typing import Any

from flowstone.errors import NonRetryable
from flowstone.graph.model import Model, Node
from flowstone.graph.references import Expression, NoSuchPart, Ref, part, resolve


class GraphFailed(NonRetryable):
    """A graph cannot go on: a reference leads nowhere, an input does not fit, a branch is unknown, a loop does not end.

    `node` is the one at which it ended, and `site` its place; both are kept with the run's error (`data`).
    """

    def at(self, node: Node) -> "GraphFailed":
        """The same, at that node unless it is at one already."""
        vars(self).setdefault("node", node.id)
        vars(self).setdefault("site", str(node.site))
        return self


class Results:
    """The data of one run."""

    def __init__(self, model: Model, trigger: Any) -> None:
        self.model = model
        self.trigger = trigger
        self._latest: dict[str, Any] = {}
        self._succeeded: set[str] = set()

    def keep(self, node: str, data: Any, *, succeeded: bool) -> None:
        """The latest finished visit of a node gave this; a failed one `failure_data`."""
        self._latest[node] = data
        (self._succeeded.add if succeeded else self._succeeded.discard)(node)

    def latest(self, node: str) -> Any:
        """What the latest finished visit of a node gave; None if there was none."""
        return self._latest.get(node)

    def value(self, expression: Expression, reader: str, item: Any = None) -> Any:
        """What an expression stands for now; `reader` says whose it is. Raises GraphFailed for a path that leads nowhere."""

        def lookup(found: Ref) -> Any:
            source = {"trigger": self.trigger, "item": item}.get(found.origin)
            if found.origin == "node":
                source = self._latest.get(found.node)
            try:
                return part(source, found.path)
            except NoSuchPart as nowhere:
                raise GraphFailed(f"{reader} reads {found}: {nowhere}") from None

        return resolve(expression, lookup)

    def items(self, node: Node) -> list[Any]:
        """The elements over which a node goes. Raises GraphFailed if its source is no list."""
        found = self.value(node.for_each, f'node "{node.id}"')
        if not isinstance(found, list):
            kind = "null" if found is None else type(found).__name__
            raise GraphFailed(f'node "{node.id}" goes over {node.for_each}, which is no list but {kind}')
        return found

    def item_keys(self, node: Node, items: list[Any]) -> list[str]:
        """The key of each element: its place, or what stands at the path that the node names. Raises GraphFailed."""
        if node.key is None:
            return [str(place) for place in range(len(items))]
        try:
            found = [part(element, node.key) for element in items]
        except NoSuchPart as nowhere:
            raise GraphFailed(f'node "{node.id}", key="{node.key}": {nowhere}') from None
        keys: dict[str, None] = {}
        for key in found:
            if isinstance(key, bool) or not isinstance(key, str | int):
                raise GraphFailed(
                    f'node "{node.id}", key="{node.key}": a {type(key).__name__} is no key; text and whole numbers are'
                )
            if str(key) in keys:
                raise GraphFailed(f'node "{node.id}", key="{node.key}": two items have the key "{key}"')
            keys[str(key)] = None
        return [*keys]

    def output(self) -> Any:
        """What the graph gives: what its `output` says, else the results of the leaves that have succeeded, by node."""
        if self.model.has_output:
            return self.value(self.model.output, "the output")
        return {node: self._latest[node] for node in self.model.leaves if node in self._succeeded}


def chosen_branch(node: Node, data: Any, said: str | None) -> str | None:
    """The branch that a visit has chosen: what its step `said`, else what stands in its result; None if it has none to choose.

    Raises GraphFailed for one that the node does not have.
    """
    if node.branches is None:
        return None
    found: Any = said
    if found is None:
        path = node.branch if node.branch is not None else "status" if node.kind == "approval" else ""
        try:
            found = part(data, path)
        except NoSuchPart as nowhere:
            raise GraphFailed(f'node "{node.id}" chooses by "{node.branch}" in its result: {nowhere}') from None
    if isinstance(found, bool | int):
        found = str(found).lower()
    known = ", ".join(f'"{branch}"' for branch in node.branches)
    if not isinstance(found, str):
        cure = 'return the branch, call current_step().branch("…"), or say by branch= where it stands in the result'
        raise GraphFailed(f'node "{node.id}" has chosen none of its branches ({known}): {cure}')
    if found not in node.branches:
        raise GraphFailed(f'node "{node.id}" has chosen the branch "{found}"; it has {known}')
    return found


def approval_data(status: str, data: Any, by: str | None, at: datetime | None, comment: str | None) -> dict[str, Any]:
    """What a reference to an approval reads. Without fields in the answer `data` is an empty object."""
    return {
        "status": status,
        "approved": status == "approved",
        "data": ({} if data is None else data) if status == "approved" else None,
        "by": by,
        "at": None if at is None else at.isoformat(),
        "comment": comment,
    }


def failure_data(type: str, message: str, step: str) -> dict[str, Any]:
    """What a reference to a node reads whose failure was handled."""
    return {"error": {"type": type, "message": message, "step": step}}
