"""The index columns of a run's row, as a fold over drafts: known before an append, so that row and journal change together."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flowstone.journal.events import MAIL, Draft, Event, Kind
from flowstone.journal.labels import typed_name
from flowstone.journal.waits import Wait, make_wait

_BEGINS = frozenset({Kind.STEP_STARTED, Kind.SLEEP_STARTED, Kind.GATE_OPENED, Kind.STATE_SET})
_ENDS_WAIT = frozenset({Kind.STEP_STARTED, Kind.STEP_SUCCEEDED, Kind.STEP_CANCELLED, Kind.GATE_CLOSED})
_MOST = frozenset({Kind.STEP_STARTED, Kind.STEP_SUCCEEDED})
"""Most of any journal; nothing more is to be said about them."""
_OWN = (":undo", ":on_error")
"""How the keys of the engine's own steps end; in an author's names a colon is encoded."""


@dataclass(frozen=True, slots=True)
class Index:
    """What a run's row says beside its status; at every event the same as the ledger. `waits` by key, in the order of opening."""

    waits: dict[str, Wait] = field(default_factory=dict)
    stopped: tuple[Wait, ...] = ()
    """What a suspension waits for that is no operation: `flow resume` after a stop, a missing function."""
    interrupted: bool = False
    """Its last pass was stopped in the middle: it waits for nothing but to be taken up."""
    steps: int = 0
    """Steps and child runs that were asked for; gates, sleeps and states are none."""
    done: int = 0
    """How many of them have succeeded."""
    current: str | None = None
    error: str | None = None
    """JSON object of why the run did not complete: its error, or who cancelled it and the reason."""

    def after(self, drafts: Iterable[Draft | Event]) -> "Index":
        """The index once these are in the journal too."""
        waits, stopped, interrupted = dict(self.waits), self.stopped, self.interrupted
        steps, done, current, error = self.steps, self.done, self.current, self.error
        for draft in drafts:
            kind, step = draft.kind, draft.step
            if kind in MAIL:
                continue
            if kind in _BEGINS:
                current = step
                steps += _is_new_step(draft)
            if kind == Kind.STEP_SUCCEEDED:
                done += _is_of_step(step, waits)
            if kind in _ENDS_WAIT:
                waits.pop(step or "", None)
                if kind in _MOST:
                    continue
            if kind in _WAITS:
                wait = _WAITS[kind](draft, json.loads(draft.text))
                if wait is not None and step is not None:
                    waits[step] = wait
                elif kind == Kind.STEP_FAILED and step in waits:
                    del waits[step]
            elif kind in (Kind.RUN_INTERRUPTED, Kind.RUN_CLAIMED):
                interrupted = kind == Kind.RUN_INTERRUPTED
            elif kind == Kind.RUN_SUSPENDED:
                stopped = _stopped(json.loads(draft.text))
            elif kind == Kind.RUN_RESUMED:
                stopped = ()
            elif kind == Kind.RUN_REOPENED:
                stopped, error = (), None
                counts = json.loads(draft.text)
                steps, done = counts["steps"], counts["done"]
            elif kind in _SETTLES:
                waits, stopped = {}, ()
                error = _SETTLES[kind](json.loads(draft.text))
        return Index(waits, stopped, interrupted, steps, done, current, error)

    def waiting(self) -> str:
        """JSON text of all that the run waits for; that nobody has taken it up yet is known without it (`phase.row_waits`)."""
        if self.interrupted or not (self.waits or self.stopped):
            return "[]"
        text = json.dumps([*self.waits.values(), *self.stopped], separators=(",", ":"), ensure_ascii=False)
        # A message may name a file whose name is no text: half a surrogate pair, which only the escape can hold.
        return text.encode("utf-8", "backslashreplace").decode()


def _is_of_step(step: str | None, waits: dict[str, Wait]) -> bool:
    """Whether it is a step of the body: none of the engine's own, and no sleep, which ends with the same event."""
    return not (step or "").endswith(_OWN) and waits.get(step or "", {}).get("kind") != "sleep"


def _is_new_step(draft: Draft | Event) -> bool:
    """Whether it begins a step of the body, and is no further attempt of one."""
    return draft.kind == Kind.STEP_STARTED and draft.text != "{}" and not (draft.step or "").endswith(_OWN)


def _sleep(draft: Draft | Event, body: dict[str, Any]) -> Wait:
    return make_wait("sleep", step=draft.step, reason=typed_name(draft.step or "", body["name"]), wake_at=body["wake_at"])


def _gate(draft: Draft | Event, body: dict[str, Any]) -> Wait:
    return make_wait(
        body["kind"],
        step=draft.step,
        reason=typed_name(draft.step or "", body["name"]),
        round=draft.attempt,
        deadline=body["deadline"],
        schema=body["schema"],
        message=body["message"] or None,
    )


def _retry(draft: Draft | Event, body: dict[str, Any]) -> Wait | None:
    if body["final"]:
        return None
    return make_wait("retry", step=draft.step, reason=draft.step, round=(draft.attempt or 1) + 1, wake_at=body["next_attempt_at"])


def _child(draft: Draft | Event, body: dict[str, Any]) -> Wait:
    return make_wait("child", step=draft.step, reason=draft.step, child=body["child"])


def _unknown(draft: Draft | Event, body: dict[str, Any]) -> Wait | None:
    return make_wait("resolve", step=draft.step, reason=draft.step) if body.get("unknown") else None


_WAITS: dict[str, Callable[[Draft | Event, dict[str, Any]], Wait | None]] = {
    Kind.SLEEP_STARTED: _sleep,
    Kind.GATE_OPENED: _gate,
    Kind.STEP_FAILED: _retry,
    Kind.CHILD_STARTED: _child,
    Kind.STEP_INTERRUPTED: _unknown,
}


def _failed(body: dict[str, Any]) -> str:
    return json.dumps(body["error"])


def _cancelled(body: dict[str, Any]) -> str:
    by = (body.get("by") or {}).get("user")
    return json.dumps({"type": "RunCancelled", "message": body["reason"], "by": by})


_SETTLES: dict[str, Callable[[dict[str, Any]], str | None]] = {
    Kind.RUN_COMPLETED: lambda _body: None,
    Kind.RUN_FAILED: _failed,
    Kind.RUN_CANCELLED: _cancelled,
}


def _stopped(body: dict[str, Any]) -> tuple[Wait, ...]:
    if body["code"] == "STOPPED":
        return (make_wait("suspend", reason="stopped"),)
    return tuple(make_wait("function", reason=name) for name in body.get("functions", ()))
