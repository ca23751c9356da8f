"""`flow version`: which version this is."""

import typer

from flowstone_cli import VERSION, json_text
from flowstone_cli.session import Session


def command(ctx: typer.Context) -> int:
    """Print the version."""
    session: Session = ctx.obj
    if session.options.json:
        session.out.write(json_text.document({"schema": "flow.version/1", "version": VERSION}))
    else:
        session.out.write(f"flow {VERSION}\n")
    return 0
