"""The plan of a workflow as a Mermaid flowchart, for pages that draw such text. Names and conditions stay text in it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from flowstone.journal.plan import Block, Exit, Node, Plan, Planned
from flowstone_cli.clean import head, one_line
from flowstone_cli.render.plan import CONDITION, name_of

MOST_NODES = 190
"""Drawn as nodes; what comes behind is folded, block by block."""
_LONGEST = 60
_SHAPES = {
    "approval": ("{{", "}}"),
    "suspend": ("{{", "}}"),
    "sleep": ("([", "])"),
    "child": ("[[", "]]"),
    "map": ("[/", "/]"),
    "unknown": (">", "]"),
}
_ENDS = {"return": "done", "cancel": "cancelled", "raise": "failed"}


@dataclass(frozen=True, slots=True)
class _Loose:
    """The end of an arrow that has no target yet."""

    node: str
    label: str = ""


@dataclass(slots=True)
class _Chart:
    lines: list[str] = field(default_factory=list)
    count: int = 0
    ends: dict[str, str] = field(default_factory=dict)
    leaves: list[_Loose] = field(default_factory=list)
    """Where the function that is being drawn is left early."""

    def node(self, label: str, shape: tuple[str, str], loose: Sequence[_Loose]) -> list[_Loose]:
        """A node with arrows to it."""
        name = f"n{self.count}"
        self.count += 1
        self.lines.append(f'    {name}{shape[0]}"{escaped(label)}"{shape[1]}')
        self.arrows(loose, name)
        return [_Loose(name)]

    def arrows(self, loose: Sequence[_Loose], target: str) -> None:
        for one in loose:
            label = f'|"{escaped(one.label)}"|' if one.label else ""
            self.lines.append(f"    {one.node} -->{label} {target}")

    def draw(self, nodes: Sequence[Node], loose: list[_Loose]) -> list[_Loose]:
        """Draw nodes one after the other, and give the ends that lead on."""
        for index, node in enumerate(nodes):
            if self.count >= MOST_NODES:
                folded = sum(map(_size, nodes[index:]))
                return self.node(f"… {folded:,} more", ("[", "]"), loose) if folded else loose
            loose = self.one(node, loose)
        return loose

    def one(self, node: Node, loose: list[_Loose]) -> list[_Loose]:
        match node:
            case Planned():
                return self.node(name_of(node), _SHAPES.get(node.kind, ("[", "]")), loose)
            case Exit(how="leave"):
                self.leaves += loose
                return []
            case Exit(how=how):
                self.end(_ENDS[how], loose)
                return []
            case Block(kind="branch", body=arms):
                return self.branch([arm for arm in arms if isinstance(arm, Block)], loose)
            case Block(kind="loop"):
                start = self.node(node.text, ("{{", "}}"), loose)
                self.arrows(self.draw(node.body, start), start[0].node)
                return start
            case Block(kind="parallel"):
                start = self.node("race" if node.text == "race" else "parallel", ("((", "))"), loose)
                return [end for inner in node.body for end in self.draw([inner], start)]
            case Block(kind="call"):
                around, self.leaves = self.leaves, []
                ends = [*self.draw(node.body, loose), *self.leaves]
                self.leaves = around
                return ends
        start = self.node(f"whenever {node.text} is called", ("{{", "}}"), loose)
        return [*start, *self.draw(node.body, start)]

    def branch(self, arms: list[Block], loose: list[_Loose]) -> list[_Loose]:
        """Arms that begin at one diamond; a failure that is caught begins there too."""
        tried = arms[0].kind == "try"
        asks = self.node("try" if tried else _short(arms[0].text) or "?", ("{", "}"), loose)[0]
        ends: list[_Loose] = []
        for index, arm in enumerate(arms):
            if self.count >= MOST_NODES:
                folded = sum(map(_size, arms[index:]))
                return [*ends, *(self.node(f"… {folded:,} more", ("[", "]"), [asks]) if folded else [asks])]
            ends += self.draw(arm.body, [_Loose(asks.node, _arrow(arm, index))])
        if not tried and arms[-1].kind != "else":
            ends.append(_Loose(asks.node, "else"))
        return ends

    def end(self, word: str, loose: Sequence[_Loose]) -> None:
        """Arrows to the one node that stands for this way to end."""
        if loose:
            self.arrows(loose, self.ends.setdefault(word, f"end_{word}"))


def mermaid(plan: Plan) -> str:
    """The text of a flowchart, from start to end. Beyond about 200 nodes the rest is folded."""
    chart = _Chart()
    start = chart.node(plan.name, ("([", "])"), [])
    chart.end("done", chart.draw(plan.body, start))
    ends = [f'    {name}(["{word}"])' for word, name in chart.ends.items()]
    return "\n".join(["flowchart TD", *chart.lines, *ends]) + "\n"


def escaped(label: str) -> str:
    """Text in which nothing is left that Mermaid or the page around it could obey; entities stand for all but plain signs."""
    safe = head(one_line(label), _LONGEST)
    return "".join(char if char.isalnum() or char in " _.,:=+-…" else f"#{ord(char)};" for char in safe)


def _arrow(arm: Block, index: int) -> str:
    if arm.kind == "try":
        return ""
    if arm.kind == "except":
        return f"on {_short(arm.text) or 'any error'}"
    if arm.kind == "else":
        return "else"
    return "yes" if index == 0 else _short(arm.text)


def _short(said: str) -> str:
    return head(one_line(said), CONDITION)


def _size(node: Node) -> int:
    return 1 if isinstance(node, Planned) else sum(map(_size, node.body)) if isinstance(node, Block) else 0
