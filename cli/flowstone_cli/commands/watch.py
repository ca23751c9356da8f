"""`flow watch RUN`: the live view of a run that another process carries out, read from its journal."""

from typing import Annotated

import typer

from flowstone_cli import exit_codes, json_text
from flowstone_cli.parameters import Run
from flowstone_cli.progress import Progress
from flowstone_cli.render import outcome
from flowstone_cli.session import Session

MOST_CHILDREN = 20
"""Child runs whose journals are read too."""


def command(
    ctx: typer.Context,
    run: Run,
    exit_status: Annotated[bool, typer.Option("--exit-status", help="Exit as the run stands: 1 failed, 8 not ended.")] = False,
) -> int:
    """Watch a run until it ends or parks. Ctrl-C stops the watching, not the run."""
    session: Session = ctx.obj
    row = session.find(run)
    store = session.store()
    progress = Progress(session.err, session.tell, session.clock, quiet=session.options.quiet)
    short = session.short(row.id)
    seen: dict[str, int] = {}
    try:
        for _ in session.follow(row.id):
            for run_id in (row.id, *progress.children[:MOST_CHILDREN]):
                events = store.events(run_id, after=seen.get(run_id, -1))
                if row.id not in seen:
                    progress.begin(f"{row.workflow} {short}", row.id, events, hint="Ctrl-C stops watching; the run goes on")
                else:
                    progress.observe(run_id, events)
                seen[run_id] = events[-1].n if events else seen.get(run_id, -1)
    except KeyboardInterrupt:
        progress.end()
        session.say(f"run {short} goes on: flow watch {short}")
        return exit_codes.SIGINT
    finally:
        progress.end()
    view = session.view(store.run(row.id), session.err)
    code = exit_codes.of_run(view.row.status, view.ledger.error)
    if not session.options.quiet:
        session.tell(outcome.block(view, session.err))
    if session.options.json:
        session.out.write(json_text.document(view.document))
    return code if exit_status else exit_codes.OK
