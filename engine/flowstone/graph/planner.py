"""Which node of a graph comes when: a pure machine that is told how visits end and says which ones begin.

An edge that is taken brings a token to its target. A join of the kind "any" is visited by the first token; one of the kind "all"
when no token can come any more from a source that has brought none: so a join waits for the branches that were taken and for no
others. An edge that leads back begins the next round of a loop, and waits for nothing. The interpreter drives it live, fates.py
from a journal.
"""

from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

from flowstone.graph.model import Model, reachable

Marks = frozenset[str]
"""The joins of the kind "any" that have gone on without a visit, and without what comes of it."""


class Visit(NamedTuple):
    """One visit of a node; `number` counts them from 0."""

    node: str
    number: int


class TooManyVisits(Exception):
    """A node was visited as often as it may be."""

    def __init__(self, node: str, most: int) -> None:
        super().__init__(f'node "{node}" was visited {most} times, and would be again: its loop does not end (max_visits={most})')
        self.node = node


class Planner:
    """The state of one run's way through a graph."""

    def __init__(self, model: Model, start: str | None = None) -> None:
        self.model = model
        self.entries = model.entries if start is None else (start,)
        self.visits: Counter[str] = Counter()
        """How many visits of a node have begun."""
        self._active: dict[str, dict[int, Marks]] = {}
        """The visits that go on, by node and number."""
        self._waiting: dict[str, dict[str, deque[Marks]]] = {}
        """Tokens at joins, by node and by where they came from."""

    def begin(self) -> list[Visit]:
        """The visits with which the run begins."""
        return [self._visit(node, frozenset()) for node in self.entries]

    def ended(self, visit: Visit, targets: Iterable[str]) -> list[Visit]:
        """A visit has ended and takes the edges to `targets`: the visits that begin now. Raises TooManyVisits."""
        going_on = self._active[visit.node]
        marks = going_on.pop(visit.number)
        if not going_on:
            del self._active[visit.node]
        begun: list[Visit] = []
        firsts: list[str] = []
        for target in targets:
            if target in marks:
                continue
            is_join = len(self.model.joined[target]) > 1 and (visit.node, target) not in self.model.back_edges
            if is_join and self.model.nodes[target].join == "all":
                self._waiting.setdefault(target, {}).setdefault(visit.node, deque()).append(marks)
                continue
            begun.append(self._visit(target, marks))
            if is_join:
                firsts.append(target)
        for join in firsts:  # also without what the same visit has led to
            self._go_on_without_others(join)
        return begun + self._complete_joins()

    def may_come(self) -> set[str]:
        """The nodes that go on, wait at a join, or may still be visited."""
        return reachable([*self._active, *self._waiting], self.model.after)

    def _visit(self, node: str, marks: Marks) -> Visit:
        number = self.visits[node]
        if number >= self.model.nodes[node].max_visits:
            raise TooManyVisits(node, number)
        self.visits[node] += 1
        self._active.setdefault(node, {})[number] = marks - {node}
        return Visit(node, number)

    def _go_on_without_others(self, join: str) -> None:
        """What can still bring a token to a join of the kind "any" belongs to the visit that has just begun there."""
        above = frozenset[str]().union(*self.model.upstream[join].values())
        for node, going_on in self._active.items():
            if node in above:
                for number, marks in going_on.items():
                    going_on[number] = marks | {join}
        for node, tokens in self._waiting.items():
            if node in above:
                for source, queue in tokens.items():
                    tokens[source] = deque(marks | {join} for marks in queue)

    def _complete_joins(self) -> list[Visit]:
        begun: list[Visit] = []
        while ready := [node for node in self._waiting if not self._blocked(node)]:
            begun += [self._join(node) for node in ready]
        return begun

    def _blocked(self, node: str) -> bool:
        """Whether a token may still come from a source that has brought none."""
        tokens = self._waiting[node]
        others = [other for other in self._waiting if other != node]
        return any(
            source not in tokens and not (above.isdisjoint(self._active) and above.isdisjoint(others))
            for source, above in self.model.upstream[node].items()
        )

    def _join(self, node: str) -> Visit:
        tokens = self._waiting.pop(node)
        marks = frozenset.intersection(*[queue.popleft() for queue in tokens.values()])
        left = {source: queue for source, queue in tokens.items() if queue}
        if left:
            self._waiting[node] = left
        return self._visit(node, marks)
