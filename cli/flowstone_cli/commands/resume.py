"""`flow resume RUN [REASON]`: go on with a run that is suspended, sleeping or interrupted."""

from typing import Annotated

import typer

from flowstone.journal.states import SETTLED
from flowstone_cli.parameters import NoWait, Reason, Run, Wait
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    run: Run,
    reason: Reason = None,
    takeover: Annotated[bool, typer.Option("--takeover", help="Take the run from a process that may still live.")] = False,
    wait: Wait = False,
    no_wait: NoWait = False,
) -> int:
    """Go on with a run; finished steps are not run again.

    Passes the suspend gates that were open, or only REASON.
    """
    session: Session = ctx.obj
    row = session.find(run, "write")
    from flowstone_cli.acting import Acting, park_after

    limit = park_after(wait, no_wait)
    with Acting(session, "write") as acting:
        row = acting.engine.resume(row.id, reason, takeover=takeover)
        if row.status not in SETTLED:
            acting.drive(row.id, "resume", limit)
    if row.status in SETTLED:
        session.say(f"run {session.short(row.id)} has {row.status} already: there is nothing to resume")
    return acting.conclude(row.id, answer=True)
