"""`flow status RUN`: where a run is, why, and what to type next."""

from dataclasses import replace
from typing import Annotated

import typer

from flowstone_cli import exit_codes, json_text
from flowstone_cli.parameters import Run
from flowstone_cli.session import Session
from flowstone_cli.typed import unknown_choice


def command(
    ctx: typer.Context,
    run: Run,
    exit_status: Annotated[bool, typer.Option("--exit-status", help="Exit as the run stands: 1 failed, 8 not ended.")] = False,
    steps: Annotated[str, typer.Option("--steps", metavar="all|open|failed", help="Which steps to list.")] = "all",
) -> int:
    """Show where a run is and what to type next."""
    from flowstone_cli.render import status
    from flowstone_cli.view import SHOWN_STEPS

    session: Session = ctx.obj
    if steps not in SHOWN_STEPS:
        raise unknown_choice(session.arguments, "--steps", steps, list(SHOWN_STEPS))
    view = replace(session.view(session.find(run), session.out), steps=steps)
    if session.options.json:
        session.out.write(json_text.document(view.document))
    else:
        session.out.write(status.people(view, session.out) if session.out.terminal else status.piped(view))
    return exit_codes.of_run(view.row.status, view.ledger.error) if exit_status else exit_codes.OK
