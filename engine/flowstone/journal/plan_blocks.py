"""What a reading of a body has found, block by block: branches, loops, and how deep in them the code stands that is being read.

Not here: the syntax tree, which plan_expressions.py and plan_reading.py walk.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from flowstone.journal.plan import Block, Exit, Node, Planned
from flowstone.journal.plan_places import Place
from flowstone.journal.plan_values import Scope

MOST_OPERATIONS = 1_000
"""What a plan lists; a longer body is cut there, and says so."""

Way = Literal["return", "cancel", "raise", "loop"] | None
"""How the code behind a statement is not reached; None: it is."""
Arm = tuple[Literal["if", "else", "case"], Callable[[], str], bool, Callable[[], Way]]
"""Kind, its text, whether deciding about it may ask for something, and how it is read."""


@dataclass(slots=True)
class Frame:
    """A function that is being read: how deep in arms its code begins, and from where on it may have been left."""

    whole_body: bool
    depth: int
    left: int | None = None


class Blocks:
    """What has been found in the block at hand (`nodes`), and the branch of the body that it stands in (`place`)."""

    def __init__(self, scope: Scope) -> None:
        self.nodes: list[Node] = []
        self.scope = scope
        self.place = Place("")
        self.frame = Frame(whole_body=True, depth=0)
        self.depth = 0
        """In how many arms and loops the code stands that is being read."""
        self.loops = 0
        self._operations = 0

    def add(self, planned: Planned) -> None:
        """An operation is asked for."""
        if self._operations < MOST_OPERATIONS:
            self.nodes.append(planned)
        elif self._operations == MOST_OPERATIONS:
            self.nodes.append(Planned("unknown", planned.line, text=f"more than {MOST_OPERATIONS:,} operations"))
        self._operations += 1

    def unknown(self, line: int, text: str, function: str | None = None) -> None:
        """The flow goes where it cannot be followed."""
        self.place.lose()
        self.add(Planned("unknown", line, text=text, function=function))

    def branch(self, arms: Iterable[Arm], line: int, *, total: bool) -> Way:
        """Read arms of which at most one is taken, or, if they are `total`, just one. All count from the same keys."""
        mark, before = len(self.place.log), self.place.counts
        ways: list[Way] = []
        blocks: list[Block] = []
        for kind, label, asks, read in arms:
            with self.inside(), self.collected() as nodes:
                ways.append(read())
            if nodes:
                blocks.append(Block(kind, label(), line, tuple(nodes)))
            self.place.restore(before)
            if asks:
                self.place.unsure_since(mark)
                before = self.place.counts
        self.place.unsure_since(mark)
        self.close("branch", "", line, blocks)
        if not total or not all(ways):
            return None
        return "raise" if all(way in ("raise", "cancel") for way in ways) else "return"

    def loop(self, label: Callable[[], str], line: int, read: Callable[[], object]) -> None:
        """Read what is done any number of times."""
        mark = len(self.place.log)
        self.loops += 1
        try:
            with self.inside(), self.collected() as nodes:
                read()
        finally:
            self.loops -= 1
        self.place.unsure_since(mark)
        if worth(nodes):
            self.close("loop", label(), line, nodes)

    def close(
        self, kind: Literal["branch", "loop", "parallel", "call", "later"], label: str, line: int, nodes: Iterable[Node]
    ) -> None:
        """Put what was found into a block, if it matters."""
        found = tuple(nodes)
        if worth(found):
            self.nodes.append(Block(kind, label, line, found))

    @contextmanager
    def collected(self) -> Iterator[list[Node]]:
        """What is found inside goes into the list that this gives."""
        before, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = before

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What is read inside may not be run."""
        scope, before = self.scope, dict(self.scope.names)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            scope.doubt(before)


def worth(nodes: Iterable[Node]) -> bool:
    """Whether a plan has to tell of these: they ask for something, or the body may end there."""
    return any(
        isinstance(node, Planned) or (node.how != "raise" if isinstance(node, Exit) else worth(node.body)) for node in nodes
    )
