"""Random graphs: made from a tree of blocks, so that a small interpreter of the tree can say what must have been visited.

What a node does is fixed by its id and by how often it has been visited; nothing depends on the order in which nodes end.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from flowstone import Graph, current_step, graph, item, ref, trigger

DEEPEST = 3
ITEMS = [1, 2, 3]


@dataclass(frozen=True)
class Block:
    """A piece of a graph with one way in and one way out."""

    kind: str
    """leaf, handled (it fails, and its handler goes on), fan, sequence, all, any, choice, loop."""
    id: str
    children: tuple["Block | None", ...] = ()
    """Of a choice; None: the way ends there."""
    number: int = 0
    """How often a loop goes again; where a choice begins."""


@dataclass
class World:
    """What lies outside of the engine: which failures have happened, and how a node is to behave."""

    blocks: dict[str, Block]
    random: Random
    breaks: set[str] = field(default_factory=set)
    """Nodes that fail for good the first time, until somebody has repaired them."""
    turns: dict[str, int] = field(default_factory=dict)
    transient: dict[str, int] = field(default_factory=dict)

    async def work(self, id: str, item: Any = None) -> Any:
        """The function of every node."""
        step = current_step()
        number = number_of(step.key)
        for _ in range(self.turns.get(id, 0)):
            await asyncio.sleep(0)
        if id in self.breaks:
            self.breaks.discard(id)
            raise ValueError(f"{id} is broken")
        if step.attempt <= self.transient.get(id, 0):
            raise OSError(f"{id} not yet")
        block = self.blocks.get(id)
        if block is not None and block.kind == "handled":
            raise LookupError(f"{id} never works")
        if block is not None and block.kind == "choice":
            step.branch(str(choice(block, number)))
        if block is not None and block.kind == "loop":
            step.branch("again" if again(block, number) else "done")
        return [id, number] if item is None else [id, number, item]


def number_of(key: str) -> int:
    """The visit that a step's key names."""
    return int(key.partition("[")[0].partition("#")[2] or 0)


def choice(block: Block, number: int) -> int:
    """The way that a choice takes at a visit."""
    return (block.number + number) % len(block.children)


def again(block: Block, number: int) -> bool:
    """Whether a loop goes again after a visit of its last node."""
    return number % (block.number + 1) < block.number


def program(random: Random) -> Block:
    """A random tree of blocks."""
    count = iter(range(10_000))

    def block(depth: int, in_loop: bool) -> Block:
        id = f"n{next(count)}"
        if depth == DEEPEST or (depth and random.random() < 0.25):
            return Block(random.choice(("leaf", "leaf", "leaf", "handled", "fan")), id)
        # Visits of different rounds of a loop must not overlap, else their order would count.
        kinds = ("sequence", "sequence", "all", "choice", "loop") + (() if in_loop else ("any",))
        kind = random.choice(kinds)
        if kind == "loop":
            return Block(kind, id, (block(depth + 1, True),), random.randrange(3))
        children: list[Block | None] = [block(depth + 1, in_loop) for _ in range(random.randint(1, 3))]
        if kind == "choice" and random.random() < 0.4:
            children.append(None)
        return Block(kind, id, tuple(children), random.randrange(3))

    return block(0, False)


def blocks_of(block: Block) -> list[Block]:
    """A block and all in it."""
    return [block, *[one for child in block.children if child is not None for one in blocks_of(child)]]


def graph_of(block: Block, world: World) -> Graph:
    """The graph of a tree."""
    nodes: dict[str, Any] = {}

    def node(id: str, next: Any, **fields: Any) -> list[str]:
        nodes[id] = {"run": world.work, "input": {"id": id}, "next": next, "retry_delay": "1ms", **fields}
        return [id]

    def wire(block: Block, after: list[str]) -> list[str]:
        children = [child for child in block.children if child is not None]
        match block.kind:
            case "leaf":
                return node(block.id, after)
            case "fan":
                return node(block.id, after, for_each=trigger("items"), input={"id": block.id, "item": item()}, limit=2)
            case "handled":
                node(f"{block.id} handler", after)
                return node(block.id, after, on_error=f"{block.id} handler")
            case "sequence":
                for child in reversed(children):
                    after = wire(child, after)
                return after
            case "all" | "any":
                end = node(f"{block.id} join", after, join=block.kind)
                return node(block.id, [id for child in children for id in wire(child, end)])
            case "choice":
                end = node(f"{block.id} merge", after)
                ways = {str(place): [] if child is None else wire(child, end) for place, child in enumerate(block.children)}
                return node(block.id, ways)
            case "loop":
                node(block.id, {})
                begin = wire(children[0], [block.id])
                node(block.id, {"again": begin, "done": after})
                return begin
        raise AssertionError(block.kind)

    entry = wire(block, [])
    start = entry if block.kind == "loop" or nodes_before(entry, nodes) else None
    return graph("random", nodes=nodes, start=start, output={id: ref(id) for id in nodes})


def nodes_before(entry: list[str], nodes: dict[str, Any]) -> bool:
    """Whether a loop leads back to where the graph begins."""
    for written in nodes.values():
        targets = written["next"].values() if isinstance(written["next"], dict) else [written["next"]]
        if any(id in entry for some in targets for id in some):
            return True
    return False


class Reference:
    """The small interpreter: walks the tree one node after the other."""

    def __init__(self) -> None:
        self.visits: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        """How often each key was reached: always once."""
        self.values: dict[str, Any] = {}

    def visit(self, id: str, *, fan: bool = False, fails: bool = False) -> int:
        """One visit of a node; gives its number."""
        number = self.visits[id]
        self.visits[id] += 1
        key = f"{id}#{number}" if number else id
        self.steps.update([f"{key}[{place}]" for place in range(len(ITEMS))] if fan else [key])
        self.values[id] = [[id, number, one] for one in ITEMS] if fan else "failed" if fails else [id, number]
        return number

    def walk(self, block: Block | None) -> bool:
        """Walk a block; False if the way ends in it."""
        if block is None:
            return False
        match block.kind:
            case "leaf" | "fan":
                self.visit(block.id, fan=block.kind == "fan")
                return True
            case "handled":
                self.visit(block.id, fails=True)
                self.visit(f"{block.id} handler")
                return True
            case "sequence":
                return all(self.walk(child) for child in block.children)
            case "all" | "any":
                self.visit(block.id)
                goes_on = True in [self.walk(child) for child in block.children]
                if goes_on:
                    self.visit(f"{block.id} join")
                return goes_on
            case "choice":
                taken = choice(block, self.visit(block.id))
                goes_on = self.walk(block.children[taken])
                if goes_on:
                    self.visit(f"{block.id} merge")
                return goes_on
            case "loop":
                while self.walk(block.children[0]):
                    if not again(block, self.visit(block.id)):
                        return True
                return False
        raise AssertionError(block.kind)
