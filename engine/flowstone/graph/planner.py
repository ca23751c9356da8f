"""Which node of a graph comes when: a pure machine that is told how visits end and says which ones begin.

An edge that is taken brings a token to its target. A node with `join="any"` is visited by the first token; one with
`join="all"` when no token can come any more from a source that has brought none: so a join waits for the branches that were
taken and for no others, also inside a cycle. The interpreter drives it live, fates.py from a journal.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from flowstone.graph.model import Model

Marks = frozenset[str]


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a node; `number` counts them from 0. `marks`: joins of the kind "any" that have gone on without it."""

    node: str
    number: int
    marks: Marks = frozenset()


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
        self.active: Counter[str] = Counter()
        """How many visits of a node go on."""
        self.visits: Counter[str] = Counter()
        """How many visits of a node have begun."""
        self.waiting: dict[str, dict[str, deque[Marks]]] = {}
        """Tokens at joins, by node and by where they came from."""

    def begin(self) -> list[Visit]:
        """The visits with which the run begins."""
        return [self._visit(node, frozenset()) for node in self.entries]

    def ended(self, visit: Visit, targets: Iterable[str]) -> list[Visit]:
        """A visit has ended and takes the edges to `targets`: the visits that begin now. Raises TooManyVisits."""
        self.active[visit.node] -= 1
        if not self.active[visit.node]:
            del self.active[visit.node]
        begun = []
        for target in targets:
            if target in visit.marks:
                continue
            if self.model.nodes[target].join == "all" and len(self.model.sources[target]) > 1:
                self.waiting.setdefault(target, {}).setdefault(visit.node, deque()).append(visit.marks)
            else:
                begun.append(self._visit(target, visit.marks))
                self._absorb_others(target)
        return begun + self._complete_joins()

    def may_come(self) -> set[str]:
        """The nodes that go on, wait at a join, or may still be visited."""
        from flowstone.graph.model import reachable

        return reachable([*self.active, *self.waiting], self.model.after)

    def _visit(self, node: str, marks: Marks) -> Visit:
        number = self.visits[node]
        if number >= self.model.nodes[node].max_visits:
            raise TooManyVisits(node, number)
        self.visits[node] += 1
        self.active[node] += 1
        return Visit(node, number, marks - {node})

    def _complete_joins(self) -> list[Visit]:
        begun: list[Visit] = []
        while ready := [node for node in self.waiting if not self._blocked(node)]:
            begun += [self._join(node) for node in ready]
        if self.waiting and not self.active:  # they wait for each other
            first = next(node for node in self.model.nodes if node in self.waiting)
            begun.append(self._join(first))
        return begun

    def _blocked(self, node: str) -> bool:
        """Whether a token may still come from a source that has brought none."""
        tokens = self.waiting[node]
        for source, above in self.model.upstream[node].items():
            if source not in tokens and not (above.isdisjoint(self.active) and above.isdisjoint(self._waiting_but(node))):
                return True
        return False

    def _waiting_but(self, node: str) -> Iterable[str]:
        return [other for other in self.waiting if other != node]

    def _join(self, node: str) -> Visit:
        tokens = self.waiting[node]
        marks = frozenset.intersection(*[queue.popleft() for queue in tokens.values()])
        self.waiting[node] = {source: queue for source, queue in tokens.items() if queue}
        if not self.waiting[node]:
            del self.waiting[node]
        return self._visit(node, marks)
