"""`flow show NAME`: what a workflow is for, where it is defined, which input it takes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flowstone_cli import json_text
from flowstone_cli.clean import clean
from flowstone_cli.render import show
from flowstone_cli.session import Session

NO_INPUT = {"type": "object", "properties": {}, "additionalProperties": False}
"""The schema of a workflow that takes no input."""


def command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The workflow; flow list names them.", show_default=False)],
    schema: Annotated[bool, typer.Option("--schema", help="Only the JSON schema of its input.")] = False,
) -> int:
    """Show what a workflow does, where it is defined, and which input it takes."""
    session: Session = ctx.obj
    out = session.out  # judged before the streams are exchanged
    shown = _read(session, name)
    if schema:
        text = json_text.pretty if out.terminal and not session.options.json else json_text.compact
        out.write(text(shown["input"]) + "\n")
    elif session.options.json:
        out.write(json_text.document({"schema": "flow.show/1", **shown}))
    elif out.terminal:
        out.write(show.people(shown, Path.cwd(), out))
    else:
        out.write(show.piped(shown))
    return 0


def _read(session: Session, name: str) -> dict[str, Any]:
    """`flow.show/1` without its schema. Imports the workflow's file; what that prints goes to stderr."""
    from flowstone.authoring.definition import WorkflowDefinition, definition_of
    from flowstone.authoring.inputs import shape_of
    from flowstone.authoring.loader import Library
    from flowstone.errors import LoadFailed
    from flowstone_cli.capture import Capture

    library = Library(session.settings.dir, session.settings.root)
    found = library.index.find(name)
    with Capture(lambda _stream, text: session.tell(clean(text))) as capture:
        session.out.file = capture.answer
        definition = definition_of(library.load(name))
        if not isinstance(definition, WorkflowDefinition):
            raise LoadFailed(f"{name} is not a workflow")
        shape = shape_of(definition)
        fits = shape.schema()
        version = library.version(name).hash
    return {
        "name": found.name,
        "kind": str(found.kind),
        "description": definition.description,
        "file": str(found.file),
        "line": found.line,
        "tags": list(definition.tags),
        "version": version,
        "input": fits if fits is not None else {} if shape.takes_whole else NO_INPUT,
        "plan": [],
        "deterministic": None,
    }
