"""The journal's vocabulary: the kinds of events, an event as stored, and a draft of one that has no number yet."""

import json
from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """Every kind of event; what each carries is in DESIGN.md section 4 and in the place that drafts it."""

    RUN_CREATED = "run.created"
    RUN_INTERRUPTED = "run.interrupted"
    RUN_CLAIMED = "run.claimed"
    RUN_SUSPENDED = "run.suspended"
    RUN_RESUMED = "run.resumed"
    RUN_REOPENED = "run.reopened"
    RUN_CANCEL_REQUESTED = "run.cancel_requested"
    RUN_CANCELLING = "run.cancelling"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    RUN_MIGRATED = "run.migrated"
    STEP_SCHEDULED = "step.scheduled"
    STEP_REPORTED = "step.reported"
    STEP_STARTED = "step.started"
    STEP_SUCCEEDED = "step.succeeded"
    STEP_FAILED = "step.failed"
    STEP_INTERRUPTED = "step.interrupted"
    STEP_CANCELLED = "step.cancelled"
    SLEEP_STARTED = "sleep.started"
    GATE_OPENED = "gate.opened"
    GATE_ANSWERED = "gate.answered"
    GATE_REFUSED = "gate.refused"
    GATE_CLOSED = "gate.closed"
    CHILD_STARTED = "child.started"
    STATE_SET = "state.set"
    STEP_RESOLVED = "step.resolved"


MAIL = frozenset({Kind.GATE_ANSWERED, Kind.RUN_CANCEL_REQUESTED, Kind.STEP_RESOLVED, Kind.STEP_REPORTED})
"""What others than the owner write; it changes nothing for the body until the owner has appended a completion."""


class Event(NamedTuple):
    """One stored event. `at` is for display only: the order of a run is `n`."""

    n: int
    at: int
    kind: str
    step: str | None
    attempt: int | None
    text: str
    """The body, JSON text."""

    def body(self) -> dict[str, Any]:
        """The body, parsed anew at each call; values in it are still in their recorded form (see values/codec.py)."""
        parsed: dict[str, Any] = _parsed(self.text)
        return parsed


class Draft(NamedTuple):
    """An event to be appended: the store numbers it and stamps its instant."""

    kind: Kind
    step: str | None = None
    attempt: int | None = None
    text: str = "{}"


class Raw(str):
    """JSON text that `body_text` takes as it is, so that a large value is not parsed and written again."""


def body_text(**fields: Any) -> str:
    """The JSON text of a body made of plain JSON values and `Raw` texts."""
    raw = [name for name, value in fields.items() if isinstance(value, Raw)]
    if not raw:
        return _encoded(fields)
    parts = [f'"{name}":{fields.pop(name)}' for name in raw]
    return (_encoded(fields)[:-1] + "," if fields else "{") + ",".join(parts) + "}"


_encoded = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().raw_decode


def _parsed(text: str) -> Any:
    """As json.loads, without its search for blanks around the text: readers do this for every event of a run."""
    value, end = _decode(text)
    return value if end == len(text) else json.loads(text)
