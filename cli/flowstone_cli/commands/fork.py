"""`flow fork RUN --from STEP`: a new run that begins with what another one had done before a step."""

from typing import Annotated

import typer

from flowstone.journal.events import Event
from flowstone.ports import RunRow
from flowstone_cli import input_files, json_text
from flowstone_cli.parameters import Input as InputFiles
from flowstone_cli.parameters import NoWait, Run, Set, SetStr, Wait
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    run: Run,
    from_step: Annotated[str, typer.Option("--from", metavar="STEP", help="The first step that runs again.", show_default=False)],
    input: InputFiles = [],  # noqa: B006  typer's way to say "none"; never changed
    set: Set = [],  # noqa: B006
    set_str: SetStr = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is copied and what runs again; touch nothing.")] = False,
    wait: Wait = False,
    no_wait: NoWait = False,
) -> int:
    """Start a new run with the results that RUN had before STEP; RUN stays as it is.

    The input is RUN's, with the fields that --set changes, or the one of -i. What is copied is never undone by the new run; what
    RUN has undone runs again.
    """
    session: Session = ctx.obj
    row = session.find(run, "read" if dry_run else "write")
    events = session.store().events(row.id)
    from flowstone.journal.points import step_key

    step = step_key(from_step, events, session.short(row.id))
    given = input_files.read(input, set, set_str, session.arguments, onto=events[0].body()["input"])
    from flowstone.running.forking import UNCHANGED
    from flowstone_cli.acting import Acting, park_after

    data = given.value if given.given else UNCHANGED
    if dry_run:
        with Acting(session, "read", quiet=True) as acting:
            acting.engine.check_fork(row.id, step, data)
        return _dry_run(session, row, events, step)
    limit = park_after(wait, no_wait)
    with Acting(session, "write") as acting:
        forked = acting.engine.fork(row.id, step, data)
        acting.drive(forked.id, "fork", limit)
    return acting.conclude(forked.id, answer=True)


def _dry_run(session: Session, row: RunRow, events: list[Event], step: str) -> int:
    from flowstone.journal.fork import fork_point, kept_keys
    from flowstone.journal.ledger import Ledger
    from flowstone_cli.render import kept

    ledger = Ledger(events)
    point = fork_point(ledger, step, row.id)
    copied = kept_keys(ledger, point)
    again = [key for key, operation in ledger.operations.items() if operation.of_body and key not in copied]
    out = session.out
    if session.options.json:
        document = {"schema": "flow.fork/1", "run": row.id, "from": step, "copied": copied, "again": again}
        out.write(json_text.document(document))
    else:
        out.write(kept.people("copied", copied, again, out) if out.terminal else kept.piped("copied", copied, again))
    return 0
