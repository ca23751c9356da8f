"""A graph as a tree in the terminal, as a Mermaid flowchart and as DOT. Names stay text in all of them."""

from collections.abc import Iterator

from flowstone.graph.model import Edge, Model, Node
from flowstone.graph.plan import kind_of
from flowstone_cli.clean import cells, fit, left, one_line
from flowstone_cli.render.mermaid import escaped
from flowstone_cli.render.text import count, line
from flowstone_cli.terminal import Stream

_MERMAID = {
    "approval": ("{{", "}}"),
    "suspend": ("{{", "}}"),
    "sleep": ("([", "])"),
    "child": ("[[", "]]"),
    "map": ("[/", "/]"),
}
_DOT = {"approval": "hexagon", "suspend": "hexagon", "sleep": "oval", "child": "component", "map": "parallelogram"}
_WIDEST = 40
THEN = "then "


def tree(model: Model, stream: Stream) -> str:
    """One line per node. What follows on a node alone stands below it, what a node chooses or begins side by side is indented.

    A node that was told before is only named again.
    """
    rows = [*_rows(model)]
    width = min(_WIDEST, max((cells(name) for name, _ in rows), default=0))
    made = ""
    for name, facts in rows:
        made += line(stream, "  " + left(fit(name, width, stream.glyph("…")), width), (f"  {facts}" if facts else "", "quiet"))
    return made


def _rows(model: Model) -> Iterator[tuple[str, str]]:
    """Name with indent and the way there, and what is worth saying, node by node."""
    out: dict[str, list[Edge]] = {node: [] for node in model.nodes}
    for edge in model.edges:
        out[edge.source].append(edge)
    told: set[str] = set()
    stack: list[tuple[str, int, str]] = [(entry, 0, "") for entry in reversed(model.entries)]
    while stack:
        id, depth, way = stack.pop()
        indent = "  " * depth
        if id in told:
            yield f"{indent}{way}{one_line(id)}", "see there"
            continue
        told.add(id)
        yield f"{indent}{way}{one_line(id)}", _facts(model.nodes[id])
        edges = out[id]
        straight = len(edges) == 1 and _way(edges[0]) == THEN
        stack += [(edge.target, depth if straight else depth + 1, _way(edge)) for edge in reversed(edges)]


def _way(edge: Edge) -> str:
    if edge.kind == "error":
        return "on error: "
    if edge.kind == "data":
        return "read by: "
    return THEN if edge.branch is None else f"{one_line(edge.branch)}: "


def _facts(node: Node) -> str:
    parts = [{"approval": "approval", "suspend": "suspend", "sleep": f"sleep {node.duration}"}.get(node.kind, node.function_name)]
    if node.for_each is not None:
        parts.append(f"for each of {node.for_each}" + ("" if node.limit is None else f", {node.limit} at once"))
    if node.retries is not None:
        parts.append(count(node.retries, "retry"))
    if node.join == "any":
        parts.append("after the first that comes")
    if node.expiry is not None:
        parts.append(f"expires after {node.expiry}")
    if node.approvers != "any":
        parts.append(node.approvers)
    return one_line(", ".join(parts))


def mermaid(model: Model) -> str:
    """The text of a flowchart: entries are rounded, errors and reading are dotted arrows."""
    names = {id: f"n{number}" for number, id in enumerate(model.nodes)}
    made = ["flowchart TD"]
    for id, node in model.nodes.items():
        opens, closes = ("([", "])") if id in model.entries else _MERMAID.get(kind_of(node), ("[", "]"))
        made.append(f'    {names[id]}{opens}"{escaped(id)}"{closes}')
    for edge in model.edges:
        arrow = "-->" if edge.kind == "next" else "-.->"
        label = {"error": "on error", "data": "reads"}.get(edge.kind, edge.branch)
        words = f'|"{escaped(label)}"|' if label is not None else ""
        made.append(f"    {names[edge.source]} {arrow}{words} {names[edge.target]}")
    return "\n".join(made) + "\n"


def dot(model: Model) -> str:
    """The text of a DOT digraph."""
    made = [f"digraph {_quoted(model.name)} {{", "    node [shape=box];"]
    for id, node in model.nodes.items():
        shape = _DOT.get(kind_of(node), "box")
        style = ', style="rounded,bold"' if id in model.entries else ""
        made.append(f"    {_quoted(id)} [shape={shape}{style}];")
    for edge in model.edges:
        label = {"error": "on error", "data": "reads"}.get(edge.kind, edge.branch)
        fields = [*([f"label={_quoted(label)}"] if label is not None else []), *(["style=dotted"] if edge.kind != "next" else [])]
        said = f" [{', '.join(fields)}]" if fields else ""
        made.append(f"    {_quoted(edge.source)} -> {_quoted(edge.target)}{said};")
    return "\n".join([*made, "}"]) + "\n"


def _quoted(text: str) -> str:
    """Text as a DOT string: nothing in it ends the string or is an escape of DOT."""
    return '"' + one_line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
