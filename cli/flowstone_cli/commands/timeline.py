"""`flow timeline RUN`: when a run did what."""

from typing import Annotated

import typer

from flowstone_cli import json_text
from flowstone_cli.parameters import At, Run
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    run: Run,
    events: Annotated[bool, typer.Option("--events", help="The journal, event by event.")] = False,
    at: At = None,
    all: Annotated[bool, typer.Option("--all", help="Every row, however many.")] = False,
) -> int:
    """Show when a run did what, on one time axis; with --at what it knew then."""
    session: Session = ctx.obj
    row = session.find(run)
    view = session.view(row, session.out)
    out, shown = session.out, view.events
    if at is not None:
        from flowstone.journal.points import event_number

        shown = view.events[: event_number(at, view.events, view.id) + 1]
    if session.options.json:
        from flowstone.journal.timeline import timeline_document

        out.write(json_text.document(timeline_document(row, view.ledger, shown, life=view.life, now=view.now)))
    elif events:
        from flowstone_cli.render import events as journal

        out.write(journal.people(shown, out) if out.terminal else journal.piped(shown))
    elif at is not None and out.terminal:
        from flowstone.journal.state_at import state_at
        from flowstone_cli.render import state

        known = state_at(row, view.events, shown[-1].n)
        out.write(state.people(known, row.workflow, view.id, view.events, out, pointer=True))
    else:
        from flowstone.journal.timeline import spans
        from flowstone_cli.render import timeline

        found = spans(shown)
        out.write(timeline.people(view, found, out, everything=all) if out.terminal else timeline.piped(found))
    return 0
