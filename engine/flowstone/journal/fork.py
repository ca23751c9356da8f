"""A fork: the events that a new run begins with, copied from another run's journal up to a step (DESIGN.md section 11).

Copied steps are never undone by the fork; what had been undone runs again. The old run stays untouched.
"""

import json
from collections.abc import Sequence
from typing import Any

from flowstone.errors import NotFound
from flowstone.journal.events import Draft, Event, Kind
from flowstone.journal.ledger import Ledger
from flowstone.journal.states import StepStatus

_COPIED = frozenset(
    {
        Kind.STEP_STARTED,
        Kind.STEP_SUCCEEDED,
        Kind.STEP_FAILED,
        Kind.STEP_INTERRUPTED,
        Kind.STEP_CANCELLED,
        Kind.SLEEP_STARTED,
        Kind.GATE_OPENED,
        Kind.GATE_ANSWERED,
        Kind.GATE_REFUSED,
        Kind.GATE_CLOSED,
        Kind.CHILD_STARTED,
        Kind.STATE_SET,
    }
)


def fork_point(ledger: Ledger, step: str, run: str = "RUN") -> int:
    """The first event that a fork at the step of that key does not keep. Raises NotFound for a key that was not reached;
    `run` is the id that its hint names.

    A step before it that has been undone moves it there: its effect is gone, so it has to run again, and all that followed. So
    does a cancel, which the new run has not had.
    """
    operation = ledger.operations.get(step)
    if operation is None or not operation.of_body:
        reached = [key for key, one in ledger.operations.items() if one.of_body]
        raise NotFound(f'the run has not reached a step "{step}"', details=reached[:20], hint=f"flow status {run}")
    undone = [
        one.asked_n
        for one in ledger.operations.values()
        if (undo := ledger.operations.get(one.key + ":undo")) is not None and undo.status is StepStatus.SUCCEEDED
    ]
    cancelling = [event.n for event in ledger.completions if event.kind == Kind.RUN_CANCELLING]
    return min([operation.asked_n, *undone, *cancelling])


def kept_keys(ledger: Ledger, point: int) -> list[str]:
    """The keys of the operations that had their completion when the one at `point` was asked for, in the order asked for."""
    kept = {event.step for event in ledger.completions if event.n < point and event.step is not None}
    return [key for key in ledger.operations if key in kept]


def copied(events: Sequence[Event], ledger: Ledger, point: int) -> list[Draft]:
    """The events of the kept operations, in their order, marked as copied."""
    keys = kept_keys(ledger, point)
    wanted = set(keys) | {key + ":on_error" for key in keys}
    asked = {key: ledger.operations[key].asked_n for key in wanted if key in ledger.operations}
    return [
        Draft(Kind(event.kind), event.step, event.attempt, _marked(event))
        for event in events
        if event.kind in _COPIED and event.step in asked and asked[event.step] <= event.n < point
    ]


def _marked(event: Event) -> str:
    if event.kind not in (Kind.STEP_STARTED, Kind.SLEEP_STARTED, Kind.GATE_OPENED, Kind.STATE_SET):
        return event.text
    body: dict[str, Any] = event.body()
    if "branch" not in body:
        return event.text
    return json.dumps(body | {"undo": None, "copied": True}, separators=(",", ":"))
