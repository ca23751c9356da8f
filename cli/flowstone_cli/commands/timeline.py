"""`flow timeline RUN`: when a run did what."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from flowstone.errors import UsageError
from flowstone.journal.events import Event
from flowstone_cli import json_text
from flowstone_cli.parameters import At, Run
from flowstone_cli.session import Session
from flowstone_cli.typed import again, json_or_lines, unknown_choice

if TYPE_CHECKING:
    from flowstone_cli.render.timeline import Look
    from flowstone_cli.view import RunView

_ONLY = ("failed", "waiting", "slow")

Point = Annotated[str | None, typer.Option("--from", metavar="AT", help="Begin the time axis there.", show_default=False)]


def command(
    ctx: typer.Context,
    run: Run,
    events: Annotated[bool, typer.Option("--events", help="The journal, event by event.")] = False,
    at: At = None,
    all: Annotated[bool, typer.Option("--all", help="Every row, however many.")] = False,
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="KIND",
            help="failed: with a failed attempt; waiting: that waited; slow: the 20 slowest.",
            show_default=False,
        ),
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="GLOB", help="Only steps like this: 'quotes*'.", show_default=False)
    ] = None,
    expand: Annotated[
        str | None, typer.Option("--expand", metavar="GLOB", help="Draw these fan-outs whole.", show_default=False)
    ] = None,
    since: Point = None,
    until: Annotated[str | None, typer.Option("--to", metavar="AT", help="End it there.", show_default=False)] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run ends or parks.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="The events, one JSON object per line.")] = False,
) -> int:
    """Show when a run did what, on one time axis; with --at what it knew then.

    In a pipe one line per attempt or wait, with tabs between: events, start, end,
    milliseconds, kind, status, step, attempt, child run, error.
    """
    from flowstone_cli.render.timeline import Look

    session: Session = ctx.obj
    if only not in (None, *_ONLY):
        raise unknown_choice(session.arguments, "--only", str(only), _ONLY)
    if session.options.json and (follow or jsonl):
        raise json_or_lines(session.arguments)
    if follow and (at is not None or until is not None):
        hint = again(session.arguments, without=("-f", "--follow"))
        raise UsageError("-f shows what is to come: it goes with neither --at nor --to", hint=hint)
    row = session.find(run)
    if follow or jsonl:
        from flowstone_cli.commands.timeline_follow import follow_run

        return follow_run(session, row, Look(everything=all, only=only, step=step, expand=expand), jsonl=jsonl, wait=follow)
    # The drawing shows no values: it need not look for secrets.
    view = session.view(row, session.out, reveal=not (session.options.json or events or at is not None))
    out, seen = session.out, view.events
    if at is not None:
        from flowstone.journal.points import event_number

        seen = view.events[: event_number(at, view.events, view.id) + 1]
    look = Look(all, only, step, expand, *_window(since, until, view))
    if session.options.json:
        from flowstone.journal.timeline import span_document, spans, timeline_document
        from flowstone_cli.render import timeline

        document = timeline_document(row, view.ledger, seen, life=view.life, now=view.now, seen_at=view.seen_at)
        document["attempts"] = [span_document(span) for span in timeline.shown(view, spans(seen), look)]
        out.write(json_text.document(document))
    elif events:
        from flowstone_cli.render import events as journal

        out.write(journal.people(seen, out) if out.terminal else journal.piped(seen))
    elif at is not None and out.terminal:
        from flowstone.journal.state_at import state_at
        from flowstone_cli.render import state

        known = state_at(row, view.events, seen[-1].n)
        out.write(state.people(known, row.workflow, view.id, view.events, out, pointer=True))
    else:
        _write(session, view, seen, look)
    return 0


def _write(session: Session, view: "RunView", seen: Sequence[Event], look: "Look") -> None:
    from flowstone.journal.timeline import spans
    from flowstone_cli.render import timeline

    found, out = spans(seen), session.out
    if out.terminal:
        out.write(timeline.people(view, found, session.lanes(found), out, look))
    else:
        out.write(timeline.piped(timeline.shown(view, found, look)))


def _window(since: str | None, until: str | None, view: "RunView") -> tuple[int | None, int | None]:
    """From when to when, in microseconds. Raises UsageError if that is no time at all."""
    if since is None and until is None:
        return None, None
    from flowstone.journal.points import instant_of

    begin, end = (None if text is None else instant_of(text, view.events, view.id) for text in (since, until))
    if begin is not None and end is not None and end <= begin:
        raise UsageError(f"--to {until} is not after --from {since}", hint=f"flow timeline {view.id} --events")
    return begin, end
