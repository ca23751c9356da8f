"""`flow export RUN…`: runs as a file for other tools."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flowstone.errors import UsageError
from flowstone_cli import json_text
from flowstone_cli.named_files import replace
from flowstone_cli.parameters import Runs
from flowstone_cli.render.text import count
from flowstone_cli.session import Session
from flowstone_cli.typed import unknown_choice
from flowstone_cli.view import RunView

if TYPE_CHECKING:
    from flowstone_cli.render.rows import Lane


def _json(views: Sequence[RunView], session: Session) -> Iterator[str]:
    """`flow.export/1`: the run, its journal, and the source of its body; of several runs an array of these.

    Numbers are as recorded: it is replayed elsewhere.
    """
    from flowstone.journal.export import export_document

    for place, view in enumerate(views):
        source = session.store().source(view.row.version)
        text = json_text.compact(export_document(view.document, view.events, None if source is None else source.text))
        start, end = ("[" if place == 0 else "", ",\n" if place < len(views) - 1 else "]\n") if len(views) > 1 else ("", "\n")
        yield start + text + end


def _jsonl(views: Sequence[RunView], session: Session) -> Iterator[str]:
    """One event per line, with its run; the runs one after the other."""
    from flowstone.journal.timeline import event_document

    for view in views:
        for event in view.events:
            yield json_text.document({"run": view.row.id} | event_document(event))


def _chrome(views: Sequence[RunView], session: Session) -> Iterator[str]:
    from flowstone_cli.render.exports.chrome import Family, chrome
    from flowstone_cli.render.timeline import end_of

    return chrome([Family(view, *_lanes(view, session), end_of(view)) for view in views])


def _mermaid(view: RunView, session: Session) -> Iterator[str]:
    from flowstone_cli.render.exports.run_chart import run_chart
    from flowstone_cli.render.rows import tree
    from flowstone_cli.render.timeline import end_of

    run, children = _lanes(view, session)
    yield run_chart(view, tree(run, children), end_of(view))


def _html(view: RunView, session: Session) -> Iterator[str]:
    from flowstone_cli.render.exports.html import html
    from flowstone_cli.render.timeline import end_of

    return html(view, *_lanes(view, session), end_of(view))


def _lanes(view: RunView, session: Session) -> "tuple[Lane, dict[str, Lane]]":
    from flowstone.journal.timeline import spans
    from flowstone_cli.render.rows import Lane

    found = spans(view.events)
    return Lane(found, view.phase, view.row.finished_at is not None), session.lanes(found)


OF_SEVERAL: dict[str, Callable[[Sequence[RunView], Session], Iterator[str]]] = {"json": _json, "jsonl": _jsonl, "chrome": _chrome}
"""Format → what makes the pieces of its text, of as many runs as there are."""
OF_ONE: dict[str, Callable[[RunView, Session], Iterator[str]]] = {"html": _html, "mermaid": _mermaid}
"""Format that shows a single run → what makes the pieces of its text."""
FORMATS = ("json", "jsonl", "mermaid", "chrome", "html")


def command(
    ctx: typer.Context,
    runs: Runs,
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"One of: {', '.join(FORMATS)}.")] = "json",
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE|-", help="Where to; - is stdout.")] = "-",
) -> int:
    """Export runs: json (all of a run, replayable with --reveal), jsonl (events), html (a page), chrome (a trace), mermaid.

    Of several runs json is an array, jsonl has the events of one after the other, each with its run, and chrome a process for
    each. A page and a chart show one run.

    FILE is replaced at once or not at all, and is yours alone (0600).
    """
    session: Session = ctx.obj
    if format not in FORMATS:
        raise unknown_choice(session.arguments, "--format", format, FORMATS)
    views = [session.view(row, session.out) for row in {row.id: row for row in map(session.find, runs)}.values()]
    if format in OF_SEVERAL:
        pieces = OF_SEVERAL[format](views, session)
    elif len(views) == 1:
        pieces = OF_ONE[format](views[0], session)
    else:
        hint = f"flow export {views[0].id} --format {format}"
        raise UsageError(f"{format} shows one run, and {len(views)} are given; json, jsonl and chrome take several", hint=hint)
    if output != "-":
        was_there = Path(output).exists()
        replace(Path(output), pieces)
        held = f"run {session.short(views[0].row.id)}" if len(views) == 1 else count(len(views), "run")
        session.say(f"{output} holds {held}" + (", in place of what was there" if was_there else ""))
        return 0
    for piece in pieces:
        session.out.write(piece)
    return 0
