"""`flow config show|path`: the settings in force and where each comes from; the file that they are written in."""

from typing import Annotated, Any

import typer

from flowstone.errors import UsageError
from flowstone.journal.secrets import LOOKS_SECRET
from flowstone.settings import PROJECT_FILE, Settings
from flowstone_cli import json_text
from flowstone_cli.clean import left, one_line
from flowstone_cli.render.text import line, tsv, wrap
from flowstone_cli.session import Session
from flowstone_cli.terminal import Stream


def command(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="show|path", help="The settings, or only their file.")] = "show",
) -> int:
    """Show the settings in force and where each comes from; `path` prints the project's settings file."""
    session: Session = ctx.obj
    if what not in ("show", "path"):
        raise UsageError(f"flow config takes show or path; not {what}", hint="flow config show")
    settings, out = session.settings, session.out
    file = settings.file or settings.root / PROJECT_FILE
    if session.options.json:
        out.write(json_text.document(_document(settings)))
    elif what == "path":
        if settings.file is None:
            session.say(f"there is no settings file; this is where {PROJECT_FILE} would be")
        out.write(f"{one_line(str(file))}\n")
    else:
        out.write(_people(settings, out) if out.terminal else _piped(settings))
    return 0


def _values(settings: Settings) -> list[tuple[str, Any, str]]:
    """Name, value and origin of every setting, in the order of the settings."""
    found = []
    for name, origin in settings.origins.items():
        value = getattr(settings, name)
        found.append((name, value if isinstance(value, int | dict | list) or value is None else str(value), origin))
    return found


def _document(settings: Settings) -> dict[str, Any]:
    return {
        "schema": "flow.config/1",
        "root": str(settings.root),
        "file": None if settings.file is None else str(settings.file),
        "hidden": [*LOOKS_SECRET],
        "settings": [{"name": name, "value": value, "origin": origin} for name, value, origin in _values(settings)],
    }


def _piped(settings: Settings) -> str:
    return "".join(tsv(name, _text(value), origin) for name, value, origin in _values(settings))


def _people(settings: Settings, out: Stream) -> str:
    values = _values(settings)
    names, origins = (max(len(value[column]) for value in values) for column in (0, 2))
    room = max(12, out.width - names - origins - 4)
    made = ""
    for name, value, origin in values:
        text = _text(value)
        for number, start in enumerate(range(0, max(1, len(text)), room)):  # a path is broken rather than cut
            shown = ("", "") if number else (name, origin)
            made += line(out, left(shown[0], names) + "  ", (left(shown[1], origins), "quiet"), "  " + text[start : start + room])
    return made + "".join(line(out, words) for words in wrap(f"always hidden: {' '.join(LOOKS_SECRET)}", out.width))


def _text(value: Any) -> str:
    return "-" if value is None or value in ({}, []) else value if isinstance(value, str) else json_text.compact(value)
