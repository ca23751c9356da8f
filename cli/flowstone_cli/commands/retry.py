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
        _tell_what_stays_failed(session, row.id)
        acting.drive(row.id, "retry", limit)
    return acting.conclude(row.id, answer=True)


def _tell_what_stays_failed(session: Session, run: str) -> None:
    """The body may have coped with failures and failed by itself: then they are kept as well, and are not tried again."""
    from flowstone.journal.events import Kind
    from flowstone.journal.ledger import Ledger
    from flowstone.journal.states import StepStatus

    events = session.store().events(run)
    reopened = next(event for event in reversed(events) if event.kind == Kind.RUN_REOPENED)
    kept = [one.key for one in Ledger(events).operations.values() if one.of_body and one.status is StepStatus.FAILED]
    if reopened.body()["cut"]["step"] is None and kept:
        more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
        session.say(
            f"no step's failure ended the run: {kept[0]}{more}, which had failed, is kept so; --from STEP begins at a step"
        )


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
