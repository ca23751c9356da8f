"""A graph as it is interpreted: its nodes, the edges between them, and what follows from them. Pure data, no user code runs here.

Not here: reading it from what an author wrote (building.py), what is wrong with it (validation.py).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from flowstone.authoring.requests import Site
from flowstone.graph.references import Expression, Ref, references

MAX_VISITS = 1000
"""How often a node may be visited in one run unless it says otherwise: a loop that never leaves ends there."""
ANSWERS = ("approved", "rejected", "expired")
"""The branches that an approval chooses from."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node: what it does, with what, and what comes after it."""

    id: str
    site: Site
    kind: Literal["step", "approval", "suspend", "sleep"] = "step"
    """A step may also turn out to be a child run, by what its function is."""
    function: Callable[..., Any] | str | None = None
    function_name: str = ""
    """As it is recorded."""
    input: Expression = None
    has_input: bool = False
    message: Expression = ""
    """Of an approval."""
    expiry: str | None = None
    approvers: Literal["any", "owner", "not-initiator"] = "any"
    scope: str | None = None
    schema: Any = None
    """The type of the data that comes with a yes."""
    duration: str = ""
    """Of a sleep."""
    next: tuple[str, ...] = ()
    """What is taken whenever the node has succeeded."""
    branches: Mapping[str, tuple[str, ...]] | None = None
    """What is taken by the branch that the node has chosen; then `next` is empty."""
    branch: str | None = None
    """The path in the result at which the branch stands; None: the node says it, or its whole result is it."""
    on_error: tuple[str, ...] = ()
    for_each: Ref | None = None
    limit: int | None = None
    """How many items run at once: 1 for a sequential fan-out."""
    key: str | None = None
    """The path in an item at which its key stands; None: its place in the list."""
    retries: int | None = None
    retry_delay: str | None = None
    join: Literal["all", "any"] = "all"
    max_visits: int = MAX_VISITS
    notes: str = ""

    @property
    def outcomes(self) -> dict[str | None, tuple[str, ...]]:
        """The targets of each way in which the node can end: by branch (None: it has none), without its failures."""
        return {None: self.next} if self.branches is None else dict(self.branches.items())

    def reads(self) -> Iterator[str]:
        """The nodes whose results it reads."""
        for one in (self.input, self.message, self.for_each):
            for found in references(one):
                if found.origin == "node":
                    yield found.node


@dataclass(frozen=True, slots=True)
class Edge:
    """One way from a node to another."""

    source: str
    target: str
    kind: Literal["next", "error", "data"]
    """data: the target reads the source's result and comes after it by no other way."""
    branch: str | None = None


@dataclass(frozen=True)
class Model:
    """A whole graph. Everything is in the order in which it was written, so that it is interpreted the same at every replay."""

    name: str
    nodes: Mapping[str, Node]
    output: Expression = None
    has_output: bool = False
    declared_start: tuple[str, ...] = ()
    description: str = ""
    tags: tuple[str, ...] = ()
    site: Site = field(default=Site("", 0))

    @cached_property
    def edges(self) -> list[Edge]:
        """All edges between nodes that exist."""
        written = [edge for edge in self._written_edges() if edge.target in self.nodes]
        return written + self._data_edges(written)

    def _written_edges(self) -> Iterator[Edge]:
        for node in self.nodes.values():
            for branch, targets in node.outcomes.items():
                for target in targets:
                    yield Edge(node.id, target, "next", branch)
            for target in node.on_error:
                yield Edge(node.id, target, "error")

    def _data_edges(self, written: Sequence[Edge]) -> list[Edge]:
        """A node that reads another comes after it, also where no `next` says so."""
        made: list[Edge] = []
        after = followers(self.nodes, written)
        reached: dict[str, set[str]] = {}
        for node in self.nodes.values():
            for source in dict.fromkeys(node.reads()):
                if source not in self.nodes:
                    continue
                if source not in reached:
                    reached[source] = reachable(after[source], after)
                if node.id not in reached[source]:
                    made.append(Edge(source, node.id, "data"))
        return made

    @cached_property
    def after(self) -> dict[str, list[str]]:
        """The nodes that an edge leads to, by node."""
        return followers(self.nodes, self.edges)

    @cached_property
    def sources(self) -> dict[str, list[str]]:
        """The nodes that have an edge to it, by node."""
        found: dict[str, list[str]] = {node: [] for node in self.nodes}
        for edge in self.edges:
            if edge.source not in found[edge.target]:
                found[edge.target].append(edge.source)
        return found

    @cached_property
    def data_targets(self) -> dict[str, tuple[str, ...]]:
        """What comes after a node only because it reads its result."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(self.nodes, ())
        for edge in self.edges:
            if edge.kind == "data":
                found[edge.source] += (edge.target,)
        return found

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """Where a run begins: the nodes that `start` names, else those to which no edge leads; never an error handler."""
        if self.declared_start:
            return self.declared_start
        return tuple(node for node, sources in self.sources.items() if not sources)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The nodes after which nothing comes when they succeed."""
        return tuple(
            node.id for node in self.nodes.values() if not any(node.outcomes.values()) and not self.data_targets[node.id]
        )

    @cached_property
    def back_edges(self) -> frozenset[tuple[str, str]]:
        """The edges that lead back to a node from which one has come, as source and target: each begins a loop's next round."""
        found: set[tuple[str, str]] = set()
        seen: set[str] = set()
        for entry in (*self.entries, *self.nodes):
            if entry in seen:
                continue
            seen.add(entry)
            path = [(entry, iter(self.after[entry]))]
            on_path = {entry}
            while path:
                node, targets = path[-1]
                target = next(targets, None)
                if target is None:
                    on_path.discard(node)
                    path.pop()
                elif target in on_path:
                    found.add((node, target))
                elif target not in seen:
                    seen.add(target)
                    on_path.add(target)
                    path.append((target, iter(self.after[target])))
        return frozenset(found)

    @cached_property
    def joined(self) -> dict[str, list[str]]:
        """The nodes from which an edge leads forward to it, by node: with more than one it is a join."""
        return {
            node: [source for source in sources if (source, node) not in self.back_edges]
            for node, sources in self.sources.items()
        }

    @cached_property
    def upstream(self) -> dict[str, dict[str, frozenset[str]]]:
        """For each join and each of its sources: the nodes from which that source can be reached going forward."""
        return {
            node: {source: frozenset(reachable([source], self.joined)) for source in sources}
            for node, sources in self.joined.items()
            if len(sources) > 1
        }

    def targets(self, node: str, branch: str | None) -> tuple[str, ...]:
        """What is taken when a node has succeeded with that branch."""
        return (*self.nodes[node].outcomes[branch], *self.data_targets[node])


def followers(nodes: Iterable[str], edges: Iterable[Edge]) -> dict[str, list[str]]:
    """The targets of the edges, by source."""
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for edge in edges:
        if edge.target not in after[edge.source]:
            after[edge.source].append(edge.target)
    return after


def reachable(starts: Iterable[str], after: Mapping[str, Sequence[str]]) -> set[str]:
    """The nodes that can be reached from `starts`, these included."""
    found, stack = set(starts), list(starts)
    while stack:
        for target in after[stack.pop()]:
            if target not in found:
                found.add(target)
                stack.append(target)
    return found
