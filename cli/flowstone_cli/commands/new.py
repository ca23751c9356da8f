"""`flow new NAME`: make the file of a new workflow."""

import keyword
import re
from typing import Annotated

import typer

from flowstone.errors import UsageError
from flowstone_cli.commands.init import tell, template
from flowstone_cli.named_files import make, refuse_taken
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Letters, digits and _; the file is named like it.", show_default=False)
    ],
) -> int:
    """Make a new workflow, with one step to begin with, in a file of its own."""
    from flowstone.authoring.names import Index

    session: Session = ctx.obj
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        usable = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
        hint = f"flow new {usable}" if usable.isidentifier() and not keyword.iskeyword(usable) else "flow new nightly_report"
        raise UsageError(f"{name!r} cannot be the name of a Python function", hint=hint)
    folder = session.settings.dir
    if any(entry.name == name for entry in Index(folder).entries()):
        raise UsageError(f"there is a workflow {name!r} already", hint=f"flow show {name}")
    path = folder / f"{name}.py"
    refuse_taken(path)
    make(path, template("new.py").replace("NAME", name))
    tell(session, [path], "new")
    session.say(f"try: flow run {name} --set name=Ana")
    return 0
