"""`flow backup FILE`: a copy of the database as it is now, made while others work with it."""

from pathlib import Path
from typing import Annotated

import typer

from flowstone_cli import json_text
from flowstone_cli.clean import one_line
from flowstone_cli.render.text import size
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; it is for you alone (0600).", show_default=False)],
) -> int:
    """Copy the database into a new file, whole or not at all, also while runs go on.

    A plain cp would miss what stands in the file beside it.
    """
    session: Session = ctx.obj
    target = file.absolute()
    session.store("write").back_up(target)
    taken = target.stat().st_size
    if session.options.json:
        session.out.write(json_text.document({"schema": "flow.backup/1", "file": str(target), "bytes": taken}))
    else:
        session.out.write(f"{one_line(str(target))}\n")
        session.say(f"{file} holds the database, {size(taken)}")
    return 0
