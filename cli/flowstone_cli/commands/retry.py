"""`flow retry RUN`: re-open a failed run where it failed and go on; with --dry-run only say what would be kept."""

from typing import Annotated

import typer

from flowstone.ports import RunRow
from flowstone_cli import json_text
from flowstone_cli.parameters import NoWait, Run, Wait
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    run: Run,
    from_step: Annotated[
        str | None, typer.Option("--from", metavar="STEP", help="Another step to begin at.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is kept and what runs again; touch nothing.")] = False,
    wait: Wait = False,
    no_wait: NoWait = False,
) -> int:
    """Retry a failed or cancelled run at the step that failed, or at STEP; what was done before is kept.

    If an undo has failed, the undo goes on.
    """
    session: Session = ctx.obj
    if dry_run:
        return _dry_run(session, run, from_step)
    row = session.find(run, "write")
    from flowstone_cli.acting import Acting, park_after

    from_step = _key(session, row, from_step)
    limit = park_after(wait, no_wait)
    with Acting(session, "write") as acting:
        acting.engine.retry(row.id, from_step)
        acting.drive(row.id, "retry", limit)
    return acting.conclude(row.id, answer=True)


def _key(session: Session, row: RunRow, step: str | None) -> str | None:
    """The key of the step that was named."""
    from flowstone.journal.points import step_key

    return None if step is None else step_key(step, session.store().events(row.id), session.short(row.id))


def _dry_run(session: Session, run: str, step: str | None) -> int:
    from flowstone.journal.ledger import Ledger
    from flowstone.running.reopening import reopening_cut
    from flowstone_cli.acting import Acting
    from flowstone_cli.render import kept as drawn

    row = session.find(run)
    step = _key(session, row, step)
    with Acting(session, "read", quiet=True) as acting:
        acting.engine.check_retry(row.id, step)
    events = session.store().events(row.id)
    before, after = Ledger(events), Ledger(events)
    cut = reopening_cut(row, before, step)
    after.reopen(cut)
    kept = [key for key, operation in after.operations.items() if not operation.open]
    again = [key for key in before.operations if key not in kept]
    out = session.out
    if session.options.json:
        out.write(
            json_text.document({"schema": "flow.retry/1", "run": row.id, "from": cut["step"], "kept": kept, "again": again})
        )
    else:
        out.write(drawn.people("kept", kept, again, out) if out.terminal else drawn.piped("kept", kept, again))
    return 0
