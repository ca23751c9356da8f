"""The plan of a workflow as numbered lines: what it asks for, how each is tried and undone, and under which condition."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flowstone.journal.plan import HOLE, Block, Entry, Exit, Node, Plan, Planned, holds_operation
from flowstone_cli.clean import cells, fit, head, left, one_line, right
from flowstone_cli.render.text import line, tsv, wrap
from flowstone_cli.terminal import Stream

CONDITION = 40
"""Cells of a condition's source text."""
_WIDEST_NAME = 34
_WIDEST_FACTS = 40
_NARROWEST = 16
"""Cells in which facts are wrapped; where there are fewer they are cut."""
_GATES = {"approval": "approve", "suspend": "suspend", "sleep": "sleep", "state": "state"}
_APPROVERS = {"not-initiator": "not the starter", "owner": "the starter only", "any": ""}
_EXITS = {"return": "done", "cancel": "cancelled", "raise": "fails"}


class _Row(NamedTuple):
    depth: int
    name: str
    facts: str = ""
    undo: str = ""
    operation: bool = True


def people(plan: Plan, stream: Stream) -> str:
    """One line per operation, and one per condition or loop that holds for several."""
    rows = [*_rows(plan.body, 0, [], stream.glyph("…"))]
    dots = stream.glyph("…")
    digits = max(2, len(str(sum(row.operation for row in rows))))
    widest = min(_WIDEST_NAME, max(8, stream.width // 2 - digits - 2))
    names = max((min(widest, 2 * row.depth + cells(row.name)) for row in rows if row.operation), default=0)
    facts = max((cells(row.facts) for row in rows if row.operation and row.undo and cells(row.facts) <= _WIDEST_FACTS), default=0)
    made, number = "", 0
    for row in rows:
        indent = "  " * row.depth
        if not row.operation:
            made += line(stream, " " * (digits + 2) + indent, (row.name, "quiet"))
            continue
        number += 1
        name = fit(indent + row.name.replace(HOLE, f"{{{dots}}}"), max(names, 2 * row.depth + 4), stream.glyph("…"))
        start = f"{right(str(number), digits)}  {left(name, names)}  "
        whole = f"{left(row.facts, facts)}  {row.undo}" if row.undo else row.facts
        room = stream.width - cells(start)
        pieces = [whole]
        if stream.terminal and cells(whole) > room >= _NARROWEST:
            pieces = wrap(", ".join(part for part in (row.facts, row.undo) if part), room)
        made += line(stream, start, pieces[0])
        made += "".join(line(stream, " " * cells(start), piece) for piece in pieces[1:])
    return made


def piped(plan: Plan) -> str:
    """`plan`, key, name, kind, function, whether it is certain, what it stands in, line of the source."""
    return "".join(_fields(entry) for entry in plan.entries)


def name_of(operation: Planned) -> str:
    """What people call it: `charge card`, `approve: manager`, `{NAME}` for a name that only the run knows."""
    if operation.kind == "unknown":
        return one_line(operation.text)
    name = one_line(operation.name if operation.name is not None else f"{{{operation.text}}}")
    gate = _GATES.get(operation.kind)
    return f"{gate}: {name}" if gate else name


def condition_of(block: Block, ellipsis: str) -> str:
    """In words, when what stands in a block is asked for."""
    said = head(one_line(block.text), CONDITION, ellipsis)
    match block.kind:
        case "if" | "case":
            return f"only if {said}"
        case "else":
            return "otherwise"
        case "try":
            return "try"
        case "except":
            return f"on {said}" if said else "on any error"
        case "parallel":
            return "the first to end wins" if block.text == "race" else "parallel"
        case "later":
            return f"whenever {said} is called"
    return said


def _fields(entry: Entry) -> str:
    operation = entry.operation
    certain = "certain" if entry.certain else "possible"
    within = " > ".join(block.text or block.kind for block in entry.within)
    name = operation.name if operation.kind != "unknown" else operation.text
    return tsv("plan", operation.key, name, operation.kind, operation.function, certain, within, operation.line)


def _rows(nodes: Sequence[Node], depth: int, notes: list[str], ellipsis: str) -> Iterator[_Row]:
    """The lines of some nodes. `notes` are the conditions of a single operation, told in its own line."""
    for node in nodes:
        if isinstance(node, Planned):
            undo = f"undo: {one_line(node.undo)}" if node.undo else ""
            yield _Row(depth, name_of(node), ", ".join([*_facts(node), *notes]), undo)
        elif isinstance(node, Exit):
            if node.how in _EXITS:
                yield _Row(depth, f"then {_EXITS[node.how]}", operation=False)
        elif node.kind == "branch":
            for number, arm in enumerate(node.body):
                if isinstance(arm, Block):
                    yield from _arm(arm, depth, number, notes, ellipsis)
        elif node.kind == "call":
            yield from _rows(node.body, depth, notes, ellipsis)
        else:
            yield from _block(node, condition_of(node, ellipsis), depth, notes, ellipsis)


def _arm(arm: Block, depth: int, number: int, notes: list[str], ellipsis: str) -> Iterator[_Row]:
    condition = condition_of(arm, ellipsis)
    if number and arm.kind in ("if", "case"):
        condition = f"otherwise, {condition}"
    if holds_operation(arm.body):
        yield from _block(arm, condition, depth, notes, ellipsis)
        return
    for node in arm.body:
        if isinstance(node, Exit) and node.how in ("return", "cancel"):
            yield _Row(depth, f"{_EXITS[node.how]} here {condition.removeprefix('only ')}", operation=False)
        elif isinstance(node, Block):
            yield from _block(arm, condition, depth, notes, ellipsis)
            return


def _block(block: Block, condition: str, depth: int, notes: list[str], ellipsis: str) -> Iterator[_Row]:
    if len(block.body) == 1 and _is_single(block.body[0]):
        said = [] if block.kind == "try" else [condition]
        yield from _rows(block.body, depth, [*notes, *said], ellipsis)
        return
    yield _Row(depth, ", ".join([*notes, condition]), operation=False)
    tasks = block.kind == "parallel"
    for node in block.body:
        if tasks and isinstance(node, Block) and node.kind == "call" and not _is_single(node):
            yield from _block(node, f"{one_line(node.text)}:", depth + 1, [], ellipsis)
        else:
            yield from _rows([node], depth + 1, [], ellipsis)


def _is_single(node: Node) -> bool:
    """Whether it comes down to one operation, so that what is said of it fits into its line."""
    if isinstance(node, Block) and node.kind != "branch":
        return len(node.body) == 1 and _is_single(node.body[0])
    return isinstance(node, Planned)


def _facts(operation: Planned) -> Iterator[str]:
    match operation.kind:
        case "unknown":
            yield "what it asks for is not known"
        case "child":
            yield "child workflow"
        case "map":
            yield f"parallel, one per item of {_short(operation.items)}" if operation.items else "parallel, one per item"
        case "shell":
            yield f"runs {_short(operation.function)}" if operation.function else "runs a program"
        case "sleep":
            yield f"sleeps {_short(operation.duration)}" if operation.duration else "sleeps"
        case "suspend":
            yield "gate, until flow resume"
        case "approval":
            yield "gate"
        case "state":
            yield "sets a value"
    if operation.retries:
        yield f"retries {_short(operation.retries)}"
    if operation.retry_delay and operation.retry_delay != "exponential":
        yield f"{_short(operation.retry_delay)} apart"
    if operation.timeout:
        yield f"timeout {_short(operation.timeout)}"
    if operation.expiry:
        yield f"expires {_short(operation.expiry)}"
    if operation.approvers and (who := _APPROVERS.get(operation.approvers, _short(operation.approvers))):
        yield who
    if operation.answer:
        yield f"answered with {_short(operation.answer)}"
    if operation.on_error:
        yield f"on error: {_short(operation.on_error)}"
    if operation.description:
        yield one_line(operation.description)


def _short(said: str | None) -> str:
    return head(one_line(said or ""), CONDITION, "...")
