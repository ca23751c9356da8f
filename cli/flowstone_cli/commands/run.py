"""`flow run NAME`: start a run of a workflow, carry it as far as it goes, print its output."""

from typing import TYPE_CHECKING, Annotated

import typer

from flowstone.errors import BadData, UsageError
from flowstone.ports import Filter
from flowstone_cli import exit_codes, input_files
from flowstone_cli.parameters import Input as InputFiles
from flowstone_cli.parameters import Key, NoWait, Set, SetStr, Wait
from flowstone_cli.render.text import count
from flowstone_cli.session import Session
from flowstone_cli.typed import again

if TYPE_CHECKING:
    from flowstone_cli.acting import Acting

_MOST_LOOKED_AT = 500
"""Unfinished runs that `flow run` looks at to say that others are due."""


def command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The workflow; flow list names them.", show_default=False)],
    input: InputFiles = [],  # noqa: B006  typer's way to say "none"; never changed
    set: Set = [],  # noqa: B006
    set_str: SetStr = [],  # noqa: B006
    key: Key = None,
    detach: Annotated[bool, typer.Option("--detach", help="Only create the run, for a worker, and print its id.")] = False,
    start: Annotated[str | None, typer.Option("--start", metavar="NODE", help="Begin a graph at one of its entries.")] = None,
    wait: Wait = False,
    no_wait: NoWait = False,
) -> int:
    """Run a workflow and print its output as JSON.

    Stops with exit 8 where it needs a person or a long time. With --key, a key that is taken starts nothing: the run that has it
    is printed.
    """
    session: Session = ctx.obj
    try:
        given = input_files.read(input, set, set_str, session.arguments)
    except BadData as error:
        error.hint = error.hint or f"flow show {name}"
        raise
    from flowstone_cli.acting import Acting, park_after

    limit = park_after(wait, no_wait)
    if detach and (wait or no_wait):
        hint = again(session.arguments, without=("--wait", "--no-wait"))
        raise UsageError("--detach waits for nothing: leave --wait and --no-wait out", hint=hint)
    if session.is_fresh:  # before a database is made for it
        from flowstone.graph.files import library as library_of

        library_of(session.settings.dir, session.settings.root).index.find(name)
    with Acting(session, "create") as acting:
        try:
            started = acting.engine.start(name, given.value, key=key, detach=detach, start=start)
        except BadData as error:
            raise _naming(error, given, name, session.arguments) from error
        if started.created and not detach:
            _say_what_else_is_due(acting, started.row.id)
            acting.progress.observe(started.row.id, session.store().events(started.row.id))
            acting.drive(started.row.id, "run", limit)
    if not started.created:
        session.say(f'the key "{key}" is taken by run {started.row.id}: nothing was started')
    if not detach:
        return acting.conclude(started.row.id, answer=True)
    if not session.options.json:
        acting.out.write(started.row.id + "\n")
    return acting.conclude(started.row.id, code=exit_codes.OK if started.created else exit_codes.of_row(started.row))


def _say_what_else_is_due(acting: "Acting", run_id: str) -> None:
    """One line about other runs that a sweep would take up: told from their rows alone, since this is about another run."""
    from flowstone.journal.ledger import Ledger
    from flowstone.running.recovery import may_be_due, taken_up_at

    session = acting.session
    now = session.clock.now()
    rows = session.store().runs(Filter(unfinished=True), limit=_MOST_LOOKED_AT)
    # Mail that was read long ago cannot be told from fresh mail by the row.
    due = [row for row in rows if row.id != run_id and may_be_due(session.owners, row._replace(mail=0), now)]
    if due:
        here = acting.engine.library.names()
        found, resting = 0, 0
        for row in due:
            if row.workflow in here:
                later = row.owner is not None and taken_up_at(Ledger(session.store().events(row.id)), row, now) is not None
                found, resting = found + (not later), resting + later
        if found:
            session.say(f"{count(found, 'other run')} {'is' if found == 1 else 'are'} interrupted or due: flow recover")
        elif resting:
            session.say(f"{count(resting, 'other run')} {'is' if resting == 1 else 'are'} interrupted: flow runs")


def _naming(error: BadData, given: input_files.Input, workflow: str, arguments: list[str]) -> BadData:
    """The same error, naming the files that the input came from."""
    files = f" ({', '.join(given.sources)})" if given.sources else ""
    message = f"the input does not fit {workflow}" if error.details else error.message
    hint = error.hint or input_files.as_text(arguments, error.details) or f"flow show {workflow}"
    return BadData(message + files, hint=hint, details=error.details)
