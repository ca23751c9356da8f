"""Points of a run as people name them (`--at AT`): an event number, an instant, a time since the start, a step or an attempt."""

import re
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from shlex import quote

from flowstone.clock import from_datetime, to_rfc3339
from flowstone.errors import NotFound, UsageError
from flowstone.journal.events import Event
from flowstone.journal.labels import label_of
from flowstone.journal.timeline import Span, spans
from flowstone.journal.words import took_words

UNITS = {"ms": 1000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
WITHIN = 999
"""Microseconds: an instant as we print it, in milliseconds, must find the event that it was printed for."""
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}")


def event_number(text: str, events: Sequence[Event], run: str) -> int:
    """The number of the event that `text` names; `run` is the run's id as it is to stand in hints.

    `12`, `-1` (the last), `2026-11-27T08:56:40Z` and `+1.5s` (the last event until then), `STEP` and `STEP~2` (the event with
    which that step or attempt ended), `before:STEP` (the event before it began). A number is always an event's: an attempt of a
    step named `12` is `12~1`. Raises NotFound for a point that the run does not have, UsageError for what names no point.
    """
    text = text.strip()
    if re.fullmatch(r"-?\d+", text):
        return _numbered(int(text), events, run)
    if text.startswith("+"):
        return _until(events[0].at + _since_start(text) + WITHIN, text, events, run)
    if _INSTANT.match(text):
        return _until(_instant(text) // 1000 * 1000 + WITHIN, text, events, run)
    if not text:
        raise UsageError("--at needs a point: an event number, an instant, +1.5s, or a step", hint=_all_events(run))
    head, colon, step = text.partition("before:")
    if colon and not head:
        of_step, number = _of_step(step, events, run)
        span = of_step[0] if number is None else _attempt(of_step, number, step, run)
        return max(0, span.start_n - 1)
    return _end_of(text, events, run)


def step_key(text: str, events: Sequence[Event], run: str) -> str:
    """The key of the step that `text` names: the key itself, as shown to people, or the author's name. Raises NotFound."""
    return _of_step(text, events, run)[0][0].step


def instant_of(text: str, events: Sequence[Event], run: str) -> int:
    """The instant that `text` names, in microseconds: an instant or a time since the start as it is, else that of its event."""
    text = text.strip()
    if text.startswith("+"):
        return events[0].at + _since_start(text)
    return _instant(text) if _INSTANT.match(text) else events[event_number(text, events, run)].at


def _numbered(number: int, events: Sequence[Event], run: str) -> int:
    n = number if number >= 0 else len(events) + number
    if not 0 <= n < len(events):
        raise NotFound(f"run {run} has no event {number}; it has 0 to {len(events) - 1}", hint=_all_events(run))
    return n


def _since_start(text: str) -> int:
    amounts = _AMOUNT.findall(text[1:])
    if not amounts or "".join(number + unit for number, unit in amounts) != text[1:]:
        hint = (
            f"{text}s or {text}ms"
            if re.fullmatch(r"\+\d+(\.\d+)?", text)
            else "a time since the start looks like +1.5s or +2d03h"
        )
        raise UsageError(f"{text!r} is no time since the start", hint=hint)
    return round(sum(float(number) * UNITS[unit] for number, unit in amounts))


def _instant(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no instant", hint="an instant looks like 2026-11-27T08:56:40Z") from None
    if moment.tzinfo is None:
        raise UsageError(
            f"{text!r} names no time zone, so nobody knows which instant it is", hint=f"{moment.isoformat()}Z for UTC"
        )
    return from_datetime(moment)


def _until(at: int, text: str, events: Sequence[Event], run: str) -> int:
    """The last event written until `at`; by number, so that a clock set back cannot hide one."""
    for event in reversed(events):
        if event.at <= at:
            return event.n
    raise NotFound(f"{text} is before run {run} began ({to_rfc3339(events[0].at)})", hint=_all_events(run))


def _end_of(text: str, events: Sequence[Event], run: str) -> int:
    of_step, number = _of_step(text, events, run)
    span = _attempt(of_step, number, text, run)
    if span.end_n is None:
        last = events[-1].n
        raise NotFound(
            f"{label_of(span.step)} has not ended: it is {span.status} since event {span.start_n}, {_offset(span, events)}",
            hint=f"flow state {run} --at {last}",
        )
    return span.end_n


def _offset(span: Span, events: Sequence[Event]) -> str:
    return f"+{took_words(span.start_at - events[0].at)}"


def _of_step(text: str, events: Sequence[Event], run: str) -> tuple[list[Span], int | None]:
    """The attempts of the step that `text` names, and the attempt's number if it names one."""
    by_key: dict[str, list[Span]] = {}
    for span in spans(events):
        by_key.setdefault(span.step, []).append(span)
    for name, number in _readings(text):
        keys = _keys_named(name, by_key)
        if len(keys) == 1:
            return by_key[keys[0]], number
        if keys:
            raise NotFound(
                f"{name!r} names {len(keys)} steps of run {run}; give the whole key", hint=_all_events(run), details=keys
            )
    close = get_close_matches(text, [name for key in by_key for name in (key, label_of(key))], n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    raise NotFound(f"run {run} has no step {text!r}{meant}", hint=_all_events(run), details=list(by_key)[:10])


def _readings(text: str) -> list[tuple[str, int | None]]:
    name, tilde, number = text.rpartition("~")
    return [(text, None), (name, int(number))] if tilde and number.isdecimal() else [(text, None)]


def _keys_named(name: str, by_key: dict[str, list[Span]]) -> list[str]:
    """The keys that a name may mean: the key itself, else as shown to people, else the author's name in whatever branch."""
    if name in by_key:
        return [name]
    return [key for key in by_key if label_of(key) == name] or [key for key, found in by_key.items() if found[0].name == name]


def _attempt(of_step: Sequence[Span], number: int | None, text: str, run: str) -> Span:
    if number is None:
        return of_step[-1]
    for span in of_step:
        if span.attempt == number:
            return span
    step = label_of(of_step[0].step)
    raise NotFound(
        f"run {run} has no attempt {text}; {step} has {len(of_step)}", hint=f"flow timeline {run} --step {quote(step)}"
    )


def _all_events(run: str) -> str:
    return f"flow timeline {run} --events"
