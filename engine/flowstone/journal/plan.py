"""The plan of a body: what it may ask for, inside what, and which of it is certain. Records, and the documents made of them.

Not here: reading a plan from source (plan_reading.py), so that whoever shows a recorded plan needs no syntax tree.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

HOLE = "{…}"
"""Stands in a name for what only the run knows."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One call that asks for an operation. All texts are source text unless they are literals; None is: not said."""

    kind: str
    """step, child, shell, map, sleep, suspend, approval, state; `unknown`: the flow goes where it cannot be followed."""
    line: int
    name: str | None = None
    """As written; with HOLE in it for an f-string; None if nothing of it is known."""
    key: str | None = None
    """The key that it will have in the journal, if that is certain."""
    text: str = ""
    """The source of a name that is not known, or of what cannot be followed."""
    function: str | None = None
    retries: str | None = None
    retry_delay: str | None = None
    timeout: str | None = None
    undo: str | None = None
    on_error: str | None = None
    description: str | None = None
    items: str | None = None
    """What a map goes over."""
    duration: str | None = None
    """How long a sleep is, or until when."""
    expiry: str | None = None
    approvers: str | None = None
    answer: str | None = None
    """The schema of an approval's data."""


@dataclass(frozen=True, slots=True)
class Exit:
    """Where the body may end before its last line, or a function that it calls before its own (`leave`)."""

    how: Literal["return", "leave", "cancel", "raise"]
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """What stands inside one construct of the source.

    branch: of its blocks at most one is taken (of `try`, the first and perhaps an `except`); if, else, case, try, except.
    loop: any number of times. parallel: at the same time. call: a function of the file that was followed.
    later: code that was given away, so that nobody knows when and how often it runs.
    """

    kind: Literal["branch", "if", "else", "case", "try", "except", "loop", "parallel", "call", "later"]
    text: str
    """A condition, `for x in xs`, the class that is caught, `gather`, the function's name; cut if it is long."""
    line: int
    body: tuple["Node", ...]


Node = Planned | Exit | Block


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation of a plan in its place. `within`: the blocks around it, from outside in, branches as their arms."""

    operation: Planned
    within: tuple[Block, ...]
    certain: bool
    """Its key is known, and every run asks for it unless it fails or is cancelled before."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of the body `name`."""

    name: str
    body: tuple[Node, ...]

    @property
    def entries(self) -> list[Entry]:
        """All its operations, in the order of the source."""
        return [*_entries(self.body)]

    @property
    def deterministic(self) -> bool:
        """Whether every run that comes to its end asks for just these keys. Parallel ones may begin in another order."""
        return all(entry.certain for entry in self.entries)


def plan_document(plan: Plan) -> list[dict[str, Any]]:
    """`plan[]` of flow.run/1: what stands in `name` may have holes, `key` is null unless it is certain."""
    return [_document(entry) for entry in plan.entries]


def shown_document(plan: Plan) -> list[dict[str, Any]]:
    """`plan[]` of flow.show/1: as in flow.run/1, and all that the source says of each operation."""
    return [
        _document(entry)
        | {
            "line": entry.operation.line,
            "text": entry.operation.text or None,
            "retries": entry.operation.retries,
            "retry_delay": entry.operation.retry_delay,
            "timeout": entry.operation.timeout,
            "undo": entry.operation.undo,
            "on_error": entry.operation.on_error,
            "description": entry.operation.description,
            "items": entry.operation.items,
            "duration": entry.operation.duration,
            "expiry": entry.operation.expiry,
            "approvers": entry.operation.approvers,
            "schema": entry.operation.answer,
        }
        for entry in plan.entries
    ]


def holds_operation(nodes: tuple[Node, ...] | list[Node]) -> bool:
    """Whether anything is asked for in there."""
    return any(isinstance(node, Planned) or (isinstance(node, Block) and holds_operation(node.body)) for node in nodes)


def may_leave(nodes: tuple[Node, ...] | list[Node]) -> bool:
    """Whether the body (or the followed function around) may end in there without a failure, so that the rest is not reached."""
    for node in nodes:
        if isinstance(node, Exit) and node.how in ("return", "leave"):
            return True
        if isinstance(node, Block) and node.kind != "call" and may_leave(node.body):
            return True
    return False


def _document(entry: Entry) -> dict[str, Any]:
    operation = entry.operation
    return {
        "key": operation.key,
        "name": operation.name,
        "kind": operation.kind,
        "function": operation.function,
        "certain": entry.certain,
        "in": [{"kind": block.kind, "text": block.text} for block in entry.within],
    }


def _entries(nodes: tuple[Node, ...], within: tuple[Block, ...] = (), maybe: bool = False) -> Iterator[Entry]:
    for node in nodes:
        if isinstance(node, Planned):
            yield Entry(node, within, certain=node.key is not None and not maybe)
        elif isinstance(node, Block):
            inside = within if node.kind == "branch" else (*within, node)
            yield from _entries(node.body, inside, maybe or node.kind in ("branch", "loop", "later"))
        maybe = maybe or may_leave([node])
