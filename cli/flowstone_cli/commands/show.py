"""`flow show NAME`: what a workflow is for, where it is defined, what it asks for, which input it takes."""

from importlib.util import decode_source
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowstone.errors import LoadFailed, UsageError
from flowstone_cli import json_text
from flowstone_cli.clean import clean
from flowstone_cli.render import show
from flowstone_cli.session import Session

if TYPE_CHECKING:
    from flowstone.authoring.loader import Library
    from flowstone.authoring.names import Found
    from flowstone.graph.model import Model
    from flowstone.journal.plan import Plan

NO_INPUT = {"type": "object", "properties": {}, "additionalProperties": False}
"""The schema of a workflow that takes no input."""


def command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The workflow; flow list names them.", show_default=False)],
    schema: Annotated[bool, typer.Option("--schema", help="Only the JSON schema of its input.")] = False,
    graph: Annotated[str | None, typer.Option("--graph", metavar="mermaid|dot", help="Only a chart of its plan.")] = None,
) -> int:
    """Show what a workflow does, where it is defined, what it asks for, and which input it takes."""
    session: Session = ctx.obj
    if graph is not None:
        _check_graph(graph, name, [one for one, given in (("--schema", schema), ("--json", session.options.json)) if given])
    out = session.out
    shown, plan, model = _read(session, name)
    if schema:
        text = json_text.pretty if out.terminal and not session.options.json else json_text.compact
        out.write(text(shown["input"]) + "\n")
    elif graph is not None:
        out.write(_chart(graph, name, plan, model))
    elif session.options.json:
        out.write(json_text.document({"schema": "flow.show/1", **shown}))
    elif out.terminal:
        out.write(show.people(shown, plan, Path.cwd(), out, model))
    else:
        out.write(show.piped(shown, plan))
    return 0


def _check_graph(graph: str, name: str, others: list[str]) -> None:
    if graph not in ("mermaid", "dot"):
        raise UsageError(f"--graph {graph}: the kinds of chart are mermaid and dot", hint=f"flow show {name} --graph mermaid")
    if others:
        said = f"--graph prints a chart and {others[0]} something else: give one of them"
        raise UsageError(said, hint=f"flow show {name} --graph {graph}")


def _chart(kind: str, name: str, plan: "Plan", model: "Model | None") -> str:
    if model is not None:
        from flowstone_cli.render import graph

        return graph.mermaid(model) if kind == "mermaid" else graph.dot(model)
    if kind == "dot":
        raise UsageError(f"{name} is no graph: its chart is mermaid only", hint=f"flow show {name} --graph mermaid")
    from flowstone_cli.render.mermaid import mermaid

    return mermaid(plan)


def _read(session: Session, name: str) -> "tuple[dict[str, Any], Plan, Model | None]":
    """`flow.show/1` without its schema, the plan, and the graph if it is one. What importing the file prints goes to stderr."""
    from flowstone.authoring.definition import WorkflowDefinition, definition_of
    from flowstone.authoring.inputs import shape_of
    from flowstone.graph.definition import Graph
    from flowstone.graph.files import library as library_of
    from flowstone.graph.plan import plan_of as plan_of_graph
    from flowstone.journal.plan import shown_document
    from flowstone_cli.capture import Capture
    from flowstone_cli.onlooker import Onlooker

    library = library_of(session.settings.dir, session.settings.root)
    found = library.index.find(name)
    err = session.err  # judged before the streams are exchanged
    capture, onlooker = (
        Capture(lambda _stream, text: session.tell(clean(text))),
        Onlooker(library, session.settings.root, session.say),
    )
    with capture, onlooker:
        session.out.file, err.file = capture.answer, capture.talk
        loaded = library.load(name)
        definition = definition_of(loaded)
        if not isinstance(definition, WorkflowDefinition):
            raise LoadFailed(f"{name} is not a workflow", hint="flow list")
        shape = shape_of(definition)
        fits = shape.schema()
        version = library.version(name).hash
    model = loaded.model if isinstance(loaded, Graph) else None
    plan = _plan(library, found) if model is None else plan_of_graph(model)
    shown = {
        "name": found.name,
        "kind": str(found.kind),
        "description": definition.description,
        "file": str(found.file),
        "line": found.line,
        "tags": list(definition.tags),
        "version": version,
        "input": fits if fits is not None else {} if shape.takes_whole else NO_INPUT,
        "plan": shown_document(plan),
        "deterministic": plan.deterministic,
    }
    return shown, plan, model


def _plan(library: "Library", found: "Found") -> "Plan":
    from flowstone.journal.plan_reading import plan_of

    names = {name for one in library.index.workflows() for name in (one.name, one.attribute)}
    return plan_of(decode_source(found.file.read_bytes()), found.attribute, workflows=names)
