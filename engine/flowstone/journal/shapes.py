"""What each kind of event carries and what a run's row may hold, as data; and whether a stored one does.

A body whose checksum is right may still be nonsense: another program wrote it, or a flow that is not known here.
"""

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from flowstone.journal.events import Event, Kind
from flowstone.journal.facts import RunFacts

LATEST = 253_402_300_799_999_999
"""Microseconds at the end of the year 9999: later instants cannot be written down."""
_MOST = 2**63

_PLACE = "name: text, branch: text?~, position: count?~, predecessor: text?~, site: text?~, digest: text?~, copied: flag~, "
_OWN = "function: text?~, policy: policy?~, undo: text?~, on_error: text?~, compensates: text~, handles: text~, cause: cause?~"
_SHAPES = {
    Kind.RUN_CREATED: "workflow: text, input: any, version: text, seed: whole, wire: wire, key: text?, fork: fork?, "
    "plan: objects~, deterministic: flag?~, start: text?~",
    Kind.RUN_INTERRUPTED: "code: text, owner: text?~, pid: count?~, host: text?~, found_by: by?~, seen_at: instant?~",
    Kind.RUN_CLAIMED: "owner: text, epoch: count, pid: count?, host: text?",
    Kind.RUN_SUSPENDED: "code: text, gates: texts, reasons: texts, functions: texts~, undo: text~, cause: cause~",
    Kind.RUN_RESUMED: "by: by, cause: text, passes: texts",
    Kind.RUN_REOPENED: "by: by, cut: cut, steps: count, done: count",
    Kind.RUN_CANCEL_REQUESTED: "by: by, reason: text, undo: flag~",
    Kind.RUN_CANCELLING: "by: by, reason: text, undo: flag~, without_body: text?~",
    Kind.RUN_COMPLETED: "output: any",
    Kind.RUN_FAILED: "error: error",
    Kind.RUN_CANCELLED: "reason: text, by: by?",
    Kind.RUN_MIGRATED: "from: text, to: text",
    Kind.STEP_SCHEDULED: "",
    Kind.STEP_REPORTED: "child: text~, status: text~",
    Kind.STEP_STARTED: "kind: text, " + _PLACE + _OWN + ", input: any~, description: text?~, node: any~",
    Kind.STEP_SUCCEEDED: "result: any, notes: object~, branch: text?~",
    Kind.STEP_FAILED: "error: error, final: flag, next_attempt_at: instant?",
    Kind.STEP_INTERRUPTED: "code: text, unknown: flag~",
    Kind.STEP_CANCELLED: "",
    Kind.SLEEP_STARTED: _PLACE + "wake_at: instant",
    Kind.GATE_OPENED: "kind: gate, "
    + _PLACE
    + "schema: object?, approvers: text, scope: text?, deadline: instant?, message: text, "
    "round: count, again: flag~, undo: text?~",
    Kind.GATE_ANSWERED: "name: text, decision: decision, data: any, comment: text?, by: by, scopes: texts~",
    Kind.GATE_REFUSED: "error: refusal",
    Kind.GATE_CLOSED: "outcome: text, data: any, by: by?, comment: text?, at: instant?",
    Kind.CHILD_STARTED: "child: text, workflow: text",
    Kind.STATE_SET: _PLACE + "state: text, value: any, undo: text?~",
    Kind.STEP_RESOLVED: "outcome: text, result: any, by: by, reason: text",
}
"""By kind: `field: type`. A `?` allows null too, a `~` that the field is missing; fields that are not named may be anything."""

_OBJECTS = {
    "wire": "type: text, user: text, host: text?~, parent_run: text?~, parent_step: text?~",
    "fork": "run: text, step: text, n: count~",
    "by": "user: text?, uid: whole?~, host: text?~, tty: text?~, sudo_user: text?~",
    "by-of-note": "user: text?~, uid: whole?~, host: text?~, tty: text?~, sudo_user: text?~",
    "error": "type: text, message: text, code: text?~, step: text?~, trace: text?~, site: text?~, child: child?~, "
    "module: text?~, mro: texts?~, data: any~, heals: flag~, notes: texts~, attempts: count?~, undo: undo?~",
    "child": "run: text, step: text?",
    "refusal": "message: text, details: texts~",
    "policy": "retries: count, max_attempts: count~, retry_delay: any~, timeout: count?~, repeatable: flag~",
    "cut": "n: count, late: counts, keep: texts, again: texts, step: text?~",
    "cause": "verb: text, reason: text~, by: by?~, undo: flag~, error: error~",
    "error-of-row": "type: text?~, message: text?~, code: text?~, step: text?~, by: text?~, undo: undo?~",
    "undo": "step: text, type: text?~, message: text?~, trace: text?~",
    "wait": "kind: text, step: text?, reason: text?, round: count?, deadline: instant?, wake_at: instant?, child: text?, "
    "schema: object?, message: text?",
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def is_instant(value: Any) -> bool:
    """Whether it is a number of microseconds that can be written as an instant."""
    return type(value) is int and 0 <= value <= LATEST


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "any": (lambda _: True, "anything"),
    "text": (_is_text, "text"),
    "flag": (lambda value: type(value) is bool, "true or false"),
    "whole": (_is_whole, "a whole number"),
    "count": (_is_count, "a count"),
    "instant": (is_instant, "an instant"),
    "texts": (_list_of(_is_text), "a list of texts"),
    "counts": (_list_of(_is_count), "a list of counts"),
    "objects": (_list_of(_is_object), "a list of objects"),
    "object": (_is_object, "an object"),
    "gate": (lambda value: value in ("suspend", "approval"), "suspend or approval"),
    "decision": (lambda value: value in ("approved", "rejected"), "approved or rejected"),
}
"""What a type's name means, and how it is said."""


class _Field(NamedTuple):
    name: str
    type: str
    nullable: bool
    optional: bool


@cache
def _fields(shape: str) -> tuple[_Field, ...]:
    parts = (part.split(": ") for part in shape.rstrip(", ").split(", ") if part)
    return tuple(_Field(name, kind.rstrip("?~"), "?" in kind, "~" in kind) for name, kind in parts)


def _wrong(value: Any, shape: str, where: str) -> str | None:
    """What is wrong with an object, by the path of the field; None if nothing is."""
    if not isinstance(value, dict):
        return f"{where or 'its body'} is not an object"
    for field in _fields(shape):
        path = f"{where}.{field.name}" if where else field.name
        if field.name not in value:
            if field.optional:
                continue
            return f"it has no {path}"
        found = value[field.name]
        if found is None and (field.nullable or field.type == "any"):
            continue
        if field.type in _OBJECTS:
            inner = _wrong(found, _OBJECTS[field.type], path)
            if inner is not None:
                return inner
        elif not _TYPES[field.type][0](found):
            return f"its {path} is not {_TYPES[field.type][1]}"
    return None


def wrong_in(event: Event) -> str | None:
    """What is wrong with one event by itself; None if nothing is."""
    shape = _SHAPES.get(event.kind)  # type: ignore[call-overload]  # a kind as text
    if shape is None:
        return f"{event.kind!r} is no kind of event"
    if not 0 <= event.at <= LATEST:
        return "its instant is none"
    if not event.kind.startswith("run.") and not event.step:
        return "it is of no step"
    if event.kind == Kind.STEP_STARTED and event.text == "{}":  # a further attempt
        return None
    try:
        body = _parsed(event.text)
    except (ValueError, RecursionError) as error:
        return f"its body cannot be read: {error}"
    return _wrong(body, shape, "")


def _finite(text: str) -> float:
    """A number of a JSON text. Python's own reader takes NaN and 1e999 too, which then cannot be written again."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


_parsed = json.JSONDecoder(parse_float=_finite, parse_constant=_finite).decode


def wrong_in_row(row: RunFacts) -> str | None:
    """What in the columns of a run's row is nonsense; None if nothing is. Cheap: it is asked of every row that is read."""
    if not (is_instant(row.created_at) and is_instant(row.updated_at)):
        return "created_at or updated_at is no instant"
    if row.finished_at is not None and not is_instant(row.finished_at):
        return "finished_at is no instant"
    if not all(map(_is_count, (row.mail, row.events, row.steps, row.done))):
        return "mail, events, steps or done is no count"
    if row.waiting not in ("", "[]") and not _are_waits(row.waiting):
        return "waiting is not what a run waits for"
    if row.error is not None and _wrong_in_text(row.error, "error-of-row"):
        return "error is not the error of a run"
    return None


def wrong_in_note(at: int, by: str) -> str | None:
    """What in a note of the audit is nonsense; None if nothing is."""
    if not is_instant(at):
        return "its instant is none"
    return _wrong_in_text(by, "by-of-note")


def _are_waits(text: str) -> bool:
    try:
        waits = _parsed(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(waits, list) and not any(_wrong(wait, _OBJECTS["wait"], "") for wait in waits)


def _wrong_in_text(text: str, name: str) -> str | None:
    try:
        return _wrong(_parsed(text), _OBJECTS[name], "")
    except (ValueError, RecursionError) as error:
        return str(error)
