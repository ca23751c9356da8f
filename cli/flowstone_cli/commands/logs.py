"""`flow logs RUN [STEP]`: what a run's steps have printed, and its body has logged."""

from collections import deque
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Annotated

import typer

from flowstone.errors import NotFound, UsageError
from flowstone.journal.events import Event
from flowstone.journal.labels import label_of
from flowstone.journal.timeline import Span, spans
from flowstone_cli import json_text
from flowstone_cli.parameters import Run
from flowstone_cli.render.logs import Line, Lines, People, document, piped
from flowstone_cli.session import Session

_FAILED = ("failed", "interrupted")


def command(
    ctx: typer.Context,
    run: Run,
    step: Annotated[str | None, typer.Argument(metavar="[STEP]", help="A step, or STEP~2 for one attempt.")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run ends or parks.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", metavar="N", help="Only the last N lines.", min=0)] = None,
    grep: Annotated[str | None, typer.Option("--grep", metavar="TEXT", help="Only lines with this text.")] = None,
    stream: Annotated[str | None, typer.Option("--stream", metavar="out|err", help="Only one of the two.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only of attempts that failed.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print one JSON object per line.")] = False,
) -> int:
    """Print what the steps of a run have printed."""
    session: Session = ctx.obj
    if stream not in (None, "out", "err"):
        raise UsageError(f"--stream takes out or err; not {stream}")
    if session.options.json and (follow or jsonl):
        raise UsageError("--json is one document, and --jsonl one object per line: with -f take --jsonl")
    row = session.find(run)
    store = session.store()
    sources = _sources(step, store.events(row.id), session.short(row.id)) if step is not None else None
    lines, seen, people = Lines(), 0, People(session.out)
    last: deque[Line] | None = None if tail is None else deque(maxlen=tail)

    def wanted(found: Iterable[Line]) -> list[Line]:
        broken = _failed_attempts(store.events(row.id)) if failed else None
        return [
            line
            for line in found
            if (sources is None or line.step in sources[0] and sources[1] in (None, line.attempt))
            and (stream is None or line.stream == stream)
            and (grep is None or grep in line.text)
            and (broken is None or (line.step, line.attempt) in broken)
        ]

    def show(found: list[Line]) -> None:
        if not found:
            return
        if jsonl:
            session.out.write("".join(json_text.compact(document(line)) + "\n" for line in found))
        elif session.out.terminal:
            session.out.write(people.draw(found))
        else:
            session.out.write(piped(found, bare=step is not None))

    begun = False
    for _ in session.follow(row.id) if follow else (row,):
        pieces = store.logs(row.id, after=seen)
        seen = pieces[-1][0] if pieces else seen
        found = wanted(lines.take(piece for _, piece in pieces))
        if last is not None and not begun:
            last.extend(found)
            found = list(last) if follow else []
        if session.options.json:
            kept = found
        elif last is None or follow:
            show(found)
        begun = True
    rest = wanted(lines.rest())
    if last is not None and not follow:
        last.extend(rest)
        rest = list(last)
    if session.options.json:
        fields = [document(line) for line in (rest if last is not None else kept + rest)]
        session.out.write(json_text.document({"schema": "flow.logs/1", "run": row.id, "lines": fields}))
    else:
        show(rest)
    return 0
