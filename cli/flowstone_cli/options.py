"""The options that every command takes, before and after the verb: declared once, gathered in one record."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer


@dataclass(slots=True)
class Options:
    """What was given of the options that every command takes."""

    db: str | None = None
    dir: str | None = None
    json: bool = False
    color: str | None = None
    quiet: bool = False
    verbose: int = 0
    reveal: bool = False
    ascii: bool = False
    unsafe_fs: bool = False


def shared_parameters(options: Options) -> list[Any]:
    """Fresh parameters for one command, which write what was given into `options`; the command itself never sees them."""
    parameters = _declared()
    for parameter in parameters:
        parameter.expose_value = False
        parameter.callback = _show_help if parameter.name == "help" else _keep(options, str(parameter.name))
    return parameters


def _show_help(ctx: Any, _parameter: Any, wanted: bool) -> None:
    # Ours, since typer's own writes past our streams: a reader that went away or a full disk has an exit code.
    if wanted:
        ctx.obj.out.write(ctx.get_help() + "\n")
        raise typer.Exit


def _keep(options: Options, name: str) -> Callable[[Any, Any, Any], Any]:
    def keep(_ctx: Any, _parameter: Any, value: Any) -> Any:
        if name == "color" and value not in (None, "auto", "always", "never"):
            raise typer.BadParameter(f"{value!r} is none of auto, always, never")
        if value or value == "":  # an empty path, as of a variable that is not set, is not "not given"
            setattr(options, name, value)
        return value

    return keep


def _declared() -> list[Any]:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command(add_help_option=False)
    def shared(
        db: Annotated[str | None, typer.Option("--db", metavar="PATH", help="The database file.")] = None,
        dir: Annotated[str | None, typer.Option("--dir", metavar="PATH", help="The folder of the workflows.")] = None,
        json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
        color: Annotated[str | None, typer.Option("--color", metavar="auto|always|never", help="Colours.")] = None,
        quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only errors on stderr.")] = False,
        verbose: Annotated[int, typer.Option("-v", "--verbose", count=True, help="More on stderr.", show_default=False)] = 0,
        reveal: Annotated[bool, typer.Option("--reveal", help="Show values that look like secrets.")] = False,
        ascii: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII only.")] = False,
        unsafe_fs: Annotated[bool, typer.Option("--unsafe-fs", help="Write to a network file system all the same.")] = False,
        help: Annotated[bool, typer.Option("-h", "--help", help="Show this and leave.", is_eager=True)] = False,
    ) -> None:
        """Declares; never called."""

    return list(typer.main.get_command(app).params)
