"""`flow logs RUN [STEP]`: what a run's steps have printed, and its body has logged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from shlex import quote
from typing import Annotated

import typer

from flowstone.errors import NotFound, UsageError
from flowstone.journal.events import Event, Kind
from flowstone.journal.labels import label_of
from flowstone.journal.timeline import spans
from flowstone_cli import json_text
from flowstone_cli.parameters import Run, instant_since
from flowstone_cli.render.logs import Line, Lines, People, document, piped
from flowstone_cli.session import Session
from flowstone_cli.typed import again, json_or_lines, unknown_choice


def command(
    ctx: typer.Context,
    run: Run,
    step: Annotated[
        str | None, typer.Argument(metavar="[STEP[~N]]", help="A step, or one of its attempts.", show_default=False)
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run ends or parks.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", help="Only the last N lines.", min=0, show_default=False)
    ] = None,
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="TEXT", help="Only lines with this text.", show_default=False)
    ] = None,
    stream: Annotated[
        str | None, typer.Option("--stream", metavar="out|err", help="Only one of the two.", show_default=False)
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only of attempts that failed or were interrupted.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="DUR|TIME", help="Only lines printed since then.", show_default=False)
    ] = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print one JSON object per line.")] = False,
) -> int:
    """Print what the steps of a run have printed.

    In a pipe the step, a tab and the text; only the text if STEP is given. With -v also the traces of attempts that failed.
    """
    session: Session = ctx.obj
    if stream not in (None, "out", "err"):
        raise unknown_choice(session.arguments, "--stream", stream, ("out", "err"))
    if session.options.json and (follow or jsonl):
        raise json_or_lines(session.arguments)
    if follow and failed:
        hint = again(session.arguments, without=("-f", "--follow"))
        raise UsageError("--failed shows attempts that have ended: it does not go with -f", hint=hint)
    row = session.find(run)
    traced = session.options.verbose > 0
    events = session.store().events(row.id) if step is not None or failed or traced else []
    wanted = _Wanted(
        sources=None if step is None else _sources(step, events, session.short(row.id)),
        stream=stream,
        text=grep or "",
        failed=_failed(events) if failed else None,
        since=None if since is None else instant_since(since, session.clock.now()),
    )
    people, left = People(session.out), tail
    for batch in _batches(session, row.id, follow):
        if traced and not follow:
            batch += _traces(events, batch)
            batch.sort(key=lambda line: line.id)
        lines = [line for line in batch if wanted.has(line)]
        if left is not None:
            lines, left = lines[len(lines) - min(len(lines), left) :], None  # what comes later is shown whole
        if session.options.json:
            fields = {"schema": "flow.logs/1", "run": row.id, "lines": [document(line) for line in lines]}
            session.out.write(json_text.document(fields))
        elif jsonl:
            session.out.write("".join(json_text.document(document(line)) for line in lines))
        elif lines:
            session.out.write(people.draw(lines) if session.out.terminal else piped(lines, bare=step is not None))
    return 0


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which lines are shown."""

    sources: tuple[frozenset[str], int | None] | None
    """Step keys, and the attempt if it is only one."""
    stream: str | None
    text: str
    failed: frozenset[tuple[str, int]] | None
    """Attempts that did not succeed."""
    since: int | None

    def has(self, line: Line) -> bool:
        """Whether a line is wanted."""
        if self.sources is not None:
            keys, attempt = self.sources
            if line.step not in keys or attempt not in (None, line.attempt):
                return False
        if self.since is not None and line.at < self.since:
            return False
        if self.failed is not None and (line.step, line.attempt) not in self.failed:
            return False
        return self.stream in (None, line.stream) and self.text in line.text


def _batches(session: Session, run_id: str, follow: bool) -> Iterator[list[Line]]:
    """All lines at once, or as they come, until nobody executes the run."""
    store, lines = session.store(), Lines()
    if not follow:
        found = lines.take(store.logs(run_id))
        yield sorted(found + lines.rest(), key=lambda line: line.id)
        return
    seen = 0
    for _ in session.follow(run_id):
        pieces = store.logs(run_id, after=seen)
        seen = pieces[-1][0] if pieces else seen
        yield lines.take(pieces)
    yield lines.rest()


def _traces(events: Sequence[Event], lines: Sequence[Line]) -> list[Line]:
    """Where the attempts that failed raised their errors, each after the last that it printed."""
    made = []
    for event in events:
        trace = (event.body().get("error") or {}).get("trace") if event.kind == Kind.STEP_FAILED else None
        if not trace:
            continue
        printed = [one.id for one in lines if (one.step, one.attempt) == (event.step, event.attempt)]
        after = max(printed or [one.id for one in lines if one.at <= event.at], default=0)
        texts = str(trace).rstrip("\n").split("\n")
        made += [Line(after, event.step, event.attempt, event.at, "err", text) for text in texts]
    return made


def _failed(events: Sequence[Event]) -> frozenset[tuple[str, int]]:
    return frozenset((span.step, span.attempt) for span in spans(events) if span.status in ("failed", "interrupted"))


def _sources(text: str, events: Sequence[Event], run: str) -> tuple[frozenset[str], int | None]:
    """The steps that STEP or STEP~N means: the key, else all of that name, in whatever branch, else a map's. Raises NotFound."""
    names = {span.step: span.name for span in spans(events)}
    name, tilde, number = text.rpartition("~")
    readings = [(text, None), (name, int(number))] if tilde and number.isdecimal() else [(text, None)]
    for one, attempt in readings:
        keys = (
            {key for key in names if one in (key, label_of(key))}
            or {key for key in names if names[key] == one}
            or {key for key in names if key.startswith(f"{one}[")}  # the items of a map
        )
        if keys:
            return frozenset(keys), attempt
    close = get_close_matches(text, [one for key, name in names.items() for one in (key, label_of(key), name)], n=1)
    hint = f"flow logs {run} {quote(close[0])}" if close else f"flow status {run}"
    raise NotFound(f"run {run} has no step {text!r}", hint=hint, details=list(names)[:10])
