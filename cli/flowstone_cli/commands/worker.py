"""`flow worker`: takes up runs that are interrupted, due or detached, again and again, until it is stopped."""

from typing import Annotated

import typer

from flowstone.clock import to_rfc3339
from flowstone.errors import FlowError
from flowstone.ports import RunRow
from flowstone_cli import exit_codes
from flowstone_cli.commands.recover import say_passed_over
from flowstone_cli.parameters import microseconds
from flowstone_cli.render import sweep
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Leave when nothing is due any more.")] = False,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", help="At most so many runs at a time.", min=1)] = 4,
    workflow: Annotated[
        list[str], typer.Option("--workflow", metavar="NAME", help="Only runs of this one; may be repeated.", show_default=False)
    ] = [],  # noqa: B006
    poll: Annotated[str, typer.Option("--poll", metavar="DUR", help="How often to look for runs.")] = "1s",
) -> int:
    """Work on runs that are interrupted, due or detached; Ctrl-C puts them down and leaves.

    Prints a line when a run is taken up and one when it has ended or waits again; in a pipe as JSON. Takes only runs whose
    workflow is in this folder.
    """
    session: Session = ctx.obj
    every = microseconds("--poll", poll)
    from flowstone.worker import Only, work
    from flowstone_cli.acting import Acting

    with Acting(session, "create", quiet=True) as acting:
        out = acting.out

        def tell(row: RunRow, after: RunRow | FlowError | None) -> None:
            one = sweep.Swept(row.id, row.workflow, session.phase(row), None, None, None)
            if isinstance(after, FlowError):
                one = one._replace(exit=exit_codes.of_error(after), error=after.message)
            elif after is not None:
                one = one._replace(after=session.phase(after), exit=exit_codes.of_row(after))
            if out.terminal and not session.options.json:
                out.write(sweep.people(one, out, session.short(row.id, out)))
            else:
                event = "taken_up" if after is None else "put_down"
                out.write(sweep.worker_line(event, to_rfc3339(session.clock.now()), one))

        for name in workflow:
            acting.engine.library.load(name)
        engine = Only(acting.engine, frozenset(workflow)) if workflow else acting.engine
        passes = acting.carry_out(work(engine, concurrency=concurrency, poll=every, once=once, tell=tell))
        if once and acting.stopped_code is None:
            say_passed_over(acting, nothing=not passes)
    return acting.stopped_code or exit_codes.OK
