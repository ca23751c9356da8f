"""`flow db migrate`: bring the database to the schema of this version of flow, after a copy of it was made beside it."""

from typing import Annotated

import typer

from flowstone.storage.sqlite.schema import MIGRATIONS
from flowstone_cli import json_text
from flowstone_cli.clean import one_line
from flowstone_cli.session import Session
from flowstone_cli.typed import unknown_choice


def command(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="migrate", help="The only thing to do so far.", show_default=False)],
) -> int:
    """Bring the database to the schema of this version of flow.

    Every verb that writes does so too. The file as it was is kept beside it.
    """
    session: Session = ctx.obj
    if what != "migrate":
        raise unknown_choice(session.arguments, "flow db", what, ("migrate",))
    session.store("write")
    file, version = session.settings.db, len(MIGRATIONS)
    if session.options.json:
        session.out.write(json_text.document({"schema": "flow.db/1", "file": str(file), "version": version}))
    else:
        session.out.write(f"{one_line(str(file))}\n")
        session.say(f"the database has schema version {version}")
    return 0
