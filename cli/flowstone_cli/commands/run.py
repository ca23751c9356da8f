"""`flow run NAME`: start a run of a workflow, carry it as far as it goes, print its output."""

from typing import Annotated

import typer

from flowstone.errors import BadData
from flowstone_cli import input_files
from flowstone_cli.parameters import Input as InputFiles
from flowstone_cli.parameters import Key, NoWait, Set, SetStr, Wait
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The workflow; flow list names them.", show_default=False)],
    input: InputFiles = [],  # noqa: B006  typer's way to say "none"; never changed
    set: Set = [],  # noqa: B006
    set_str: SetStr = [],  # noqa: B006
    key: Key = None,
    wait: Wait = False,
    no_wait: NoWait = False,
) -> int:
    """Run a workflow and print its output as JSON.

    Stops with exit 8 where it needs a person or a long time. With --key, a key that is taken starts nothing: the run that has it
    is printed.
    """
    session: Session = ctx.obj
    given = input_files.read(input, set, set_str, session.arguments)
    from flowstone_cli.acting import Acting, park_after

    limit = park_after(wait, no_wait)
    with Acting(session, "create") as acting:
        try:
            started = acting.engine.start(name, given.value, key=key)
        except BadData as error:
            raise _naming(error, given, name) from error
        if started.created:
            acting.progress.observe(session.store().events(started.row.id))
            acting.drive(started.row.id, "run", limit)
    if not started.created:
        session.say(f'the key "{key}" is taken by run {started.row.id}: nothing was started')
    return acting.conclude(started.row.id, answer=True)


def _naming(error: BadData, given: input_files.Input, workflow: str) -> BadData:
    """The same error, naming the files that the input came from."""
    files = f" ({', '.join(given.sources)})" if given.sources else ""
    message = f"the input does not fit {workflow}" if error.details else error.message
    return BadData(message + files, hint=error.hint or f"flow show {workflow}", details=error.details)
