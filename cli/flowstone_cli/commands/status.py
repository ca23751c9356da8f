"""`flow status RUN`: where a run is, why, and what to type next."""

import typer

from flowstone_cli import json_text
from flowstone_cli.parameters import Run
from flowstone_cli.session import Session


def command(ctx: typer.Context, run: Run) -> int:
    """Show where a run is and what to type next."""
    from flowstone_cli.render import status

    session: Session = ctx.obj
    view = session.view(session.find(run), session.out)
    if session.options.json:
        session.out.write(json_text.document(view.document))
    else:
        session.out.write(status.people(view, session.out) if session.out.terminal else status.piped(view))
    return 0
