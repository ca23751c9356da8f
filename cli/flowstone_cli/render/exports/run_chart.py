"""What a run did as a Mermaid flowchart: a node per step, an arrow from what had ended before to what began after it."""

from collections.abc import Sequence

from flowstone.journal.words import duration_words
from flowstone_cli.render.mermaid import MOST_NODES, escaped
from flowstone_cli.render.rows import Row
from flowstone_cli.view import RunView

_SHAPES = {"approval": ("{{", "}}"), "suspend": ("{{", "}}"), "sleep": ("([", "])"), "child": ("[[", "]]")}
_STYLES = {
    "failed": "stroke:#b00,stroke-width:3px",
    "interrupted": "stroke:#b60,stroke-width:3px",
    "waiting": "stroke-dasharray:6 3",
    "running": "stroke-width:3px",
    "undone": "stroke:#808,stroke-dasharray:2 2",
}


def run_chart(view: RunView, rows: Sequence[Row], end: int) -> str:
    """The text of the chart. Fan-outs are one node; beyond about 200 nodes the rest is one too."""
    shown, hidden = list(rows[:MOST_NODES]), len(rows) - MOST_NODES
    made = ["flowchart TD", f'    run(["{escaped(view.row.workflow)} {escaped(view.id)}"])']
    styled: dict[str, list[str]] = {}
    ranges = [_range(row, end) for row in shown]
    for number, row in enumerate(shown):
        left, right = ("[/", "/]") if row.size else _SHAPES.get(row.last.kind, ("[", "]"))
        many = f" {row.size:,}×" if row.size else ""
        tries = f", {len(row.spans)} tries" if len(row.spans) > 1 else ""
        said = f"{row.word}, {duration_words(row.spent(end))}{tries}"
        made.append(f'    n{number}{left}"{escaped(row.label)}{escaped(many)}<br/>{escaped(said)}"{right}')
        made += [f"    {name} --> n{number}" for name in _before(number, ranges) or ["run"]]
        styled.setdefault(row.word, []).append(f"n{number}")
    if hidden > 0:
        made += [f'    more["… {hidden:,} more"]', f"    n{len(shown) - 1} --> more"]
    for word, style in _STYLES.items():
        if word in styled:
            made += [f"    classDef {word} {style}", f"    class {','.join(styled[word])} {word}"]
    return "\n".join(made) + "\n"


def _range(row: Row, end: int) -> tuple[int, int]:
    """Its first and its last event: events order what the clock may not."""
    return min(span.start_n for span in row.everything), max(end if span.end_n is None else span.end_n for span in row.everything)


def _before(number: int, ranges: Sequence[tuple[int, int]]) -> list[str]:
    """What had ended when it began, without what had ended before another of these began."""
    start = ranges[number][0]
    ended = [index for index, (_, over) in enumerate(ranges) if over < start]
    latest = max((ranges[index][0] for index in ended), default=0)
    return [f"n{index}" for index in ended if ranges[index][1] >= latest]
