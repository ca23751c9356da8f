"""`flow list`: the workflows of this project, read without importing them."""

from pathlib import Path

import typer

from flowstone.authoring.names import Entry, Index
from flowstone_cli import json_text
from flowstone_cli.render import workflows
from flowstone_cli.session import Session


def command(ctx: typer.Context) -> int:
    """List the workflows of this project."""
    session: Session = ctx.obj
    entries = Index(session.settings.dir).entries()
    out = session.out
    if session.options.json:
        listed = [_fields(entry) for entry in entries]
        out.write(json_text.document({"schema": "flow.list/1", "workflows": listed}))
    elif out.terminal:
        out.write(workflows.people(entries, session.settings.dir, Path.cwd(), out))
    else:
        out.write(workflows.piped(entries, Path.cwd()))
    return 0


def _fields(entry: Entry) -> dict[str, object]:
    return {
        "name": entry.name,
        "description": entry.doc,
        "file": str(entry.file),
        "line": entry.line,
        "error": entry.error,
    }
