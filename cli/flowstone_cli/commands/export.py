"""`flow export RUN`: a run as a file for other tools."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flowstone_cli import json_text
from flowstone_cli.named_files import replace
from flowstone_cli.parameters import Run
from flowstone_cli.session import Session
from flowstone_cli.typed import unknown_choice
from flowstone_cli.view import RunView

if TYPE_CHECKING:
    from flowstone_cli.render.rows import Lane


def _json(view: RunView, session: Session) -> Iterable[str]:
    """`flow.export/1`: the run, its journal, and the source of its body. Numbers as recorded: it is replayed elsewhere."""
    from flowstone.journal.export import export_document

    source = session.store().source(view.row.version)
    yield json_text.compact(export_document(view.document, view.events, None if source is None else source.text)) + "\n"


def _jsonl(view: RunView, session: Session) -> Iterable[str]:
    """One event per line."""
    from flowstone.journal.timeline import event_document

    return (json_text.document(event_document(event)) for event in view.events)


def _mermaid(view: RunView, session: Session) -> Iterable[str]:
    from flowstone_cli.render.exports.run_chart import run_chart
    from flowstone_cli.render.rows import tree
    from flowstone_cli.render.timeline import end_of

    run, children = _lanes(view, session)
    yield run_chart(view, tree(run, children), end_of(view))


def _chrome(view: RunView, session: Session) -> Iterable[str]:
    from flowstone_cli.render.exports.chrome import chrome
    from flowstone_cli.render.timeline import end_of

    return chrome(view, *_lanes(view, session), end_of(view))


def _html(view: RunView, session: Session) -> Iterable[str]:
    from flowstone_cli.render.exports.html import html
    from flowstone_cli.render.timeline import end_of

    return html(view, *_lanes(view, session), end_of(view))


def _lanes(view: RunView, session: Session) -> "tuple[Lane, dict[str, Lane]]":
    from flowstone.journal.timeline import spans
    from flowstone_cli.render.rows import Lane

    found = spans(view.events)
    return Lane(found, view.phase, view.row.finished_at is not None), session.lanes(found)


FORMATS: dict[str, Callable[[RunView, Session], Iterable[str]]] = {
    "json": _json,
    "jsonl": _jsonl,
    "mermaid": _mermaid,
    "chrome": _chrome,
    "html": _html,
}
"""Name → what makes the pieces of its text."""


def command(
    ctx: typer.Context,
    run: Run,
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"One of: {', '.join(FORMATS)}.")] = "json",
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE|-", help="Where to; - is stdout.")] = "-",
) -> int:
    """Export a run: json (all of it, replayable with --reveal), jsonl (its events), html (a page), chrome (a trace), mermaid.

    FILE is replaced at once or not at all, and is yours alone (0600).
    """
    session: Session = ctx.obj
    if format not in FORMATS:
        raise unknown_choice(session.arguments, "--format", format, list(FORMATS))
    view = session.view(session.find(run), session.out)
    pieces = FORMATS[format](view, session)
    if output != "-":
        replace(Path(output), pieces)
        session.say(f"{output} holds run {session.short(view.row.id)}")
        return 0
    for piece in pieces:
        session.out.write(piece)
    return 0
