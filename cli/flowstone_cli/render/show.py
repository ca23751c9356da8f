"""`flow show`: a workflow, what it is for, its plan, and its input in words."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowstone.journal.plan import Plan
from flowstone_cli.clean import cells, left, one_line
from flowstone_cli.render import plan as plan_lines
from flowstone_cli.render import schema
from flowstone_cli.render.text import INDENT, LABEL, count, field, line, tsv, wrap
from flowstone_cli.terminal import Stream

if TYPE_CHECKING:
    from flowstone.graph.model import Model


def people(shown: dict[str, Any], plan: Plan, start: Path, stream: Stream, model: "Model | None" = None) -> str:
    """Name, place, size and version; the description; the plan; the input, field by field; the command that starts it.

    A graph is drawn as a tree.
    """
    file = Path(shown["file"])
    place = f"{file.relative_to(start) if file.is_relative_to(start) else file}:{shown['line']}"
    facts = f"   {place}   {count(len(plan.entries), 'step')}, version {shown['version'][:6]}"
    name = one_line(shown["name"])
    fits = not stream.terminal or cells(name + facts) <= stream.width
    made = line(stream, name, (facts, "quiet")) if fits else line(stream, name) + line(stream, (facts.strip(), "quiet"))
    for paragraph in shown["description"].strip().splitlines():
        made += "".join(line(stream, piece) for piece in wrap(one_line(paragraph), stream.width))
    if model is not None:
        from flowstone_cli.render.graph import tree

        made += "\n" + tree(model, stream)
    elif plan.body:
        made += "\n" + plan_lines.people(plan, stream)
    made += "\n" + _input(shown["input"], stream)
    command = f"flow run {shown['name']}{schema.example_of(shown['input'])}"
    return made + field(stream, "try", command, typed=True)


def piped(shown: dict[str, Any], plan: Plan) -> str:
    """The same in a pipe: `field TAB value`; for each field of the input its path, what it takes, and whether it is required.

    For each operation of the plan: see render/plan.py.
    """
    made = "".join(tsv(name, shown[name]) for name in ("name", "kind", "description", "file", "line", "version"))
    for one in schema.fields_of(shown["input"]):
        made += tsv("input", one.path, one.words, "required" if one.required else "optional")
    return made + plan_lines.piped(plan)


def _input(taken: dict[str, Any], stream: Stream) -> str:
    if taken == {}:
        return field(stream, "input", "any JSON value")
    fields = schema.fields_of(taken)
    if not fields:
        return field(stream, "input", "none")
    width = max(cells(one_line(one.path)) for one in fields)
    room = stream.width - INDENT - LABEL - width - 2 if stream.terminal else 1_000_000
    made = ""
    for one in fields:
        for number, words in enumerate(wrap(one_line(one.words), max(12, room))):
            label, name = "" if made else "input", "" if number else one_line(one.path)
            made += field(stream, label, (left(name, width) + "  " if width else "") + words)
    return made
