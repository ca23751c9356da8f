"""`flow state RUN`: what a run knew, now or at a past point."""

import typer

from flowstone_cli import json_text
from flowstone_cli.parameters import At, Run
from flowstone_cli.session import Session


def command(ctx: typer.Context, run: Run, at: At = None) -> int:
    """Show what a run knew: input, results, state."""
    from flowstone.journal.points import event_number
    from flowstone.journal.state_at import state_at
    from flowstone_cli.render import state

    session: Session = ctx.obj
    row = session.find(run)
    events = session.store().events(row.id)
    out = session.out
    known = state_at(row, events, event_number("-1" if at is None else at, events, session.short(row.id)))
    if session.options.json:
        out.write(json_text.document(known))
    elif out.terminal:
        out.write(state.people(known, row.workflow, session.short(row.id, out), events, out))
    else:
        out.write(state.piped(known))
    return 0
