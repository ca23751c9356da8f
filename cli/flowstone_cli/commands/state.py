"""`flow state RUN`: what a run knew, now or at a past point."""

from typing import Annotated

import typer

from flowstone_cli import json_text
from flowstone_cli.parameters import At, Run
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    run: Run,
    at: At = None,
    diff: Annotated[
        str | None, typer.Option("--diff", metavar="AT", help="Also what has changed since that point.", show_default=False)
    ] = None,
) -> int:
    """Show what a run knew: input, results, state. With --diff and --json only what has changed (flow.diff/1)."""
    from flowstone.journal.points import event_number
    from flowstone.journal.state_at import diff_document, state_at
    from flowstone_cli.render import diff as differences
    from flowstone_cli.render import state

    session: Session = ctx.obj
    row = session.find(run)
    events = session.events(row.id)
    out, short = session.out, session.short(row.id)
    known = state_at(row, events, event_number("-1" if at is None else at, events, short))
    before = None if diff is None else state_at(row, events, event_number(diff, events, short))
    changed = None if before is None else diff_document(before, known)
    if session.options.json:
        out.write(json_text.document(known if changed is None else changed))
    elif out.terminal:
        out.write(state.people(known, row.workflow, session.short(row.id, out), events, out, pointer=changed is not None))
        if changed is not None:
            out.write(state.changes(changed["changes"], changed["a"]["event"], out))
    else:
        out.write(state.piped(known))
        if changed is not None:
            out.write("".join(f"changed\t{one}\n" for one in differences.piped(changed).splitlines()))
    return 0
