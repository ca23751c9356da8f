"""`flow timeline RUN -f` and `--jsonl`: the timeline redrawn while the run goes on; its events or attempts as they come."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from flowstone.journal.events import Event
from flowstone.journal.timeline import event_document, spans
from flowstone.ports import RunRow
from flowstone_cli import exit_codes, json_text
from flowstone_cli.progress import is_live
from flowstone_cli.render import timeline
from flowstone_cli.render.region import Region
from flowstone_cli.render.timeline import Look
from flowstone_cli.session import Session
from flowstone_cli.terminal import Stream

_SHARE = 9
"""How much longer than the work on a drawing is the pause after it."""


def follow_run(session: Session, row: RunRow, look: Look, *, jsonl: bool, wait: bool) -> int:
    """Show a run until nobody executes it (`wait`), or as it is; the exit code. Ctrl-C leaves the run alone."""
    try:
        if jsonl:
            _objects(session, row, wait=wait)
        elif session.out.terminal:
            _drawings(session, row, look)
        else:
            _lines(session, row, look)
    except KeyboardInterrupt:
        return exit_codes.SIGINT
    return exit_codes.OK


def _objects(session: Session, row: RunRow, *, wait: bool) -> None:
    seen = -1
    for _ in session.follow(row.id) if wait else (row,):
        events = session.events(row.id, after=seen)
        if events:
            session.out.write("".join(json_text.document(event_document(event)) for event in events))
            seen = events[-1].n


def _lines(session: Session, row: RunRow, look: Look) -> None:
    """One line per attempt or wait as soon as it has ended; at the end those that have not."""
    events: list[Event] = []
    told: set[int] = set()
    for now in _at_ease(session, row):
        events += session.store().events(row.id, after=len(events) - 1)
        _told(session, now, events, look, told, all=False)
    events += session.store().events(row.id, after=len(events) - 1)
    _told(session, session.store().run(row.id), events, look, told, all=True)


def _at_ease(session: Session, row: RunRow) -> Iterator[RunRow]:
    """As `Session.follow`, but what is made of each row may take only a tenth of the time: a long run has much to fold."""
    free_at = 0
    for now in session.follow(row.id):
        begun = session.clock.now()
        if begun >= free_at:
            yield now
            free_at = session.clock.now() + _SHARE * (session.clock.now() - begun)


def _told(session: Session, row: RunRow, events: Sequence[Event], look: Look, told: set[int], *, all: bool) -> None:
    view = session.view(row, session.out)
    found = [span for span in timeline.shown(view, spans(events), look) if span.start_n not in told]
    found = [span for span in found if all or span.end_at is not None]
    told.update(span.start_n for span in found)
    if found:
        session.out.write(timeline.piped(found))


def _drawings(session: Session, row: RunRow, look: Look) -> None:
    """The drawing in place, no taller than the window; at the end the whole of it."""
    out, region = session.out, Region()
    if is_live(out):
        for now in _at_ease(session, row):
            stream, height = _window(out)
            lines = _drawn(session, now, look, stream).splitlines()
            out.write(region.drawn(lines if len(lines) < height else [*lines[: height - 2], stream.glyph("…")], stream.width))
    else:
        for _ in session.follow(row.id):
            pass
    out.write(region.erased(_drawn(session, session.store().run(row.id), look, out)))


def _drawn(session: Session, row: RunRow, look: Look, stream: Stream) -> str:
    view = session.view(row, stream)
    found = spans(view.events)
    return timeline.people(view, found, session.lanes(found), stream, look)


def _window(stream: Stream) -> tuple[Stream, int]:
    """The stream as wide as the window is now, and the window's height."""
    try:
        assert stream.file is not None
        size = os.get_terminal_size(stream.file.fileno())
    except (OSError, ValueError):
        return stream, 24
    return replace(stream, width=stream.width if os.environ.get("COLUMNS") else size.columns or stream.width), size.lines or 24
