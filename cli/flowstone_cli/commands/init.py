"""`flow init [DIR]`: make a project, with settings, a folder of workflows and an example."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from flowstone.settings import PROJECT_FILE
from flowstone_cli import json_text
from flowstone_cli.clean import one_line
from flowstone_cli.named_files import make, refuse_taken
from flowstone_cli.session import Session

EXAMPLE = "order.py"


def command(
    ctx: typer.Context,
    dir: Annotated[Path, typer.Argument(metavar="[DIR]", help="The project's folder; this one by default.")] = Path(),
) -> int:
    """Make a project: flow.toml, workflows/, and an example to run. Nothing that is there is replaced."""
    session: Session = ctx.obj
    made = {dir / PROJECT_FILE: template(PROJECT_FILE), dir / "workflows" / EXAMPLE: template(EXAMPLE)}
    for path in made:
        refuse_taken(path)
    for path, text in made.items():
        make(path, text)
    tell(session, list(made), "init")
    session.say(f"try: {'' if dir == Path() else f'cd {dir} && '}flow run order --set item=lamp --set amount=20")
    return 0


def template(name: str) -> str:
    """The text of a file that comes with the command."""
    return (files("flowstone_cli") / "templates" / name).read_text(encoding="utf-8")


def tell(session: Session, made: list[Path], verb: str) -> None:
    """The files that were made, on stdout."""
    if session.options.json:
        session.out.write(json_text.document({"schema": f"flow.{verb}/1", "files": [str(path.absolute()) for path in made]}))
    else:
        session.out.write("".join(f"{one_line(str(path))}\n" for path in made))
