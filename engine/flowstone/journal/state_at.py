"""What a run knew at a past point: `flow.state/1`, the fold of its first events; and what changed between two (`flow.diff/1`)."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

from flowstone.clock import to_rfc3339
from flowstone.errors import NotFound
from flowstone.journal.documents import Document, waiting_documents
from flowstone.journal.events import Event, Kind
from flowstone.journal.facts import RunFacts
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.paths import Part, path_text
from flowstone.journal.phase import phase_by
from flowstone.journal.states import StepStatus
from flowstone.journal.waits import waits_of

KNOWN = ("status", "phase", "input", "steps", "results", "state", "path", "waiting")
"""What of a state is compared: all but where and when it was."""


def state_at(row: RunFacts, events: Sequence[Event], n: int) -> Document:
    """`flow.state/1` just after event `n`, that event included; its run's owner of then is taken as alive.

    `events` are all of the run's, or at least those up to `n`. Raises NotFound if there is no event `n`.
    """
    if not 0 <= n < len(events):
        raise NotFound(f"run {row.id} has no event {n}; it has 0 to {len(events) - 1}", hint=f"flow timeline {row.id} --events")
    ledger = Ledger(takewhile(lambda event: event.n <= n, events))
    operations = ledger.operations
    waits = waits_of(ledger)
    return {
        "schema": "flow.state/1",
        "run": row.id,
        "event": n,
        "at": to_rfc3339(ledger.updated_at),
        "status": ledger.status.value,
        "phase": phase_by(ledger.status, ledger.owner, "alive", waits, undoing=ledger.undoing is not None).value,
        "input": ledger.created.get("input"),
        "steps": {key: operation.status.value for key, operation in operations.items()},
        "results": results_of(operations.values()),
        "state": ledger.state,
        "path": list(operations),
        "waiting": waiting_documents(waits),
    }


def results_of(operations: Iterable[Operation]) -> dict[str, Any]:
    """What the body has been told: results of succeeded steps in their recorded form, and outcomes of gates, by step key."""
    return {
        operation.key: _result(operation.completion)
        for operation in operations
        if operation.of_body
        and operation.status is StepStatus.SUCCEEDED
        and operation.completion is not None
        and operation.kind not in ("sleep", "state")
    }


def changes(a: Any, b: Any) -> list[Document]:
    """What must change in `a` to make it `b`, both plain JSON values: `op` (add, remove, replace), `path`, `before`, `after`.

    Fields in the order of `a`, then what only `b` has; lists place by place. 1, 1.0 and true are different values.
    """
    found: list[Document] = []
    _compare(a, b, [], found)
    return found


def diff_document(a: Document, b: Document, *, ignore_times: bool = False) -> Document:
    """`flow.diff/1` between two states, of one run or of two; `ignore_times`: without when something is due."""
    return {
        "schema": "flow.diff/1",
        "a": _point(a),
        "b": _point(b),
        "changes": changes(_compared(a, ignore_times), _compared(b, ignore_times)),
    }


def _compared(state: Document, ignore_times: bool) -> Document:
    known = {name: state[name] for name in KNOWN}
    if ignore_times:
        known["waiting"] = [{**wait, "deadline": None, "wake_at": None} for wait in state["waiting"]]
    return known


def _result(completion: Event) -> Any:
    body = completion.body()
    if completion.kind == Kind.GATE_CLOSED:
        return {"outcome": body["outcome"], "data": body.get("data"), "by": (body.get("by") or {}).get("user")}
    return body.get("result")


def _point(state: Document) -> Document:
    return {"run": state["run"], "event": state["event"]}


def _compare(a: Any, b: Any, path: list[Part], found: list[Document]) -> None:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in [*a, *(name for name in b if name not in a)]:
            _compare_member(a, b, name, name in a, name in b, path, found)
    elif isinstance(a, list) and isinstance(b, list):
        for place in range(max(len(a), len(b))):
            _compare_member(a, b, place, place < len(a), place < len(b), path, found)
    elif repr(a) != repr(b):  # == would take 1, 1.0 and true for the same, and 0.0 and -0.0
        found.append(_change("replace", path, a, b))


def _compare_member(a: Any, b: Any, part: Part, in_a: bool, in_b: bool, path: list[Part], found: list[Document]) -> None:
    path.append(part)
    if in_a and in_b:
        _compare(a[part], b[part], path, found)
    elif in_a:
        found.append(_change("remove", path, a[part], None))
    else:
        found.append(_change("add", path, None, b[part]))
    path.pop()


def _change(op: str, path: Sequence[Part], before: Any, after: Any) -> Document:
    return {"op": op, "path": path_text(path), "before": before, "after": after}
