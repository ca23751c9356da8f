"""`flow timeline --events`: the journal, event by event."""

from collections.abc import Sequence

from flowstone.clock import to_rfc3339
from flowstone.journal.events import Event
from flowstone.journal.labels import label_of
from flowstone.journal.words import took_words
from flowstone_cli import json_text
from flowstone_cli.clean import left, right
from flowstone_cli.render import spoken
from flowstone_cli.render.text import line, tsv
from flowstone_cli.terminal import Stream

MOST = 500
"""Characters of a body that are looked at for one line."""


def people(events: Sequence[Event], stream: Stream) -> str:
    """Number, time since the start, kind, step, and as much of the body as fits."""
    digits = len(str(events[-1].n)) if events else 1
    kinds = max((len(event.kind) for event in events), default=0)
    made = []
    for event in events:
        attempt = f"~{event.attempt}" if event.attempt and event.attempt > 1 else ""
        step = f"{label_of(event.step)}{attempt}" if event.step else ""
        since = "+" + took_words(event.at - events[0].at)
        start = f"{right(str(event.n), digits)}  {right(since, 8)}  {left(event.kind, kinds)}  "
        body = "" if event.text == "{}" else json_text.safe(event.text[:MOST])
        if stream.spoken:
            after = spoken.duration(event.at - events[0].at)
            made.append(line(stream, f"{event.n}: {event.kind}{f' of {step}' if step else ''}, after {after}. ", body))
            continue
        made.append(line(stream, start, f"{step}  " if step else "", (body, "quiet")))
    return "".join(made)


def piped(events: Sequence[Event]) -> str:
    """n, at, kind, step, attempt, body."""
    return "".join(
        tsv(event.n, to_rfc3339(event.at), event.kind, event.step, event.attempt, json_text.safe(event.text)) for event in events
    )
