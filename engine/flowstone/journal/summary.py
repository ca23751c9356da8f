"""The index columns of a run's row, as a fold over drafts: known before an append, so that row and journal change together."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from flowstone.journal.events import Draft, Event, Kind
from flowstone.journal.labels import typed_name
from flowstone.journal.waits import Wait, make_wait

_BEGINS = frozenset({Kind.STEP_STARTED, Kind.SLEEP_STARTED, Kind.GATE_OPENED, Kind.STATE_SET})
_ENDS_WAIT = frozenset({Kind.STEP_STARTED, Kind.STEP_SUCCEEDED, Kind.STEP_CANCELLED, Kind.GATE_CLOSED, Kind.STEP_FAILED})
_SETTLES = frozenset({Kind.RUN_COMPLETED, Kind.RUN_FAILED, Kind.RUN_CANCELLED})


@dataclass(frozen=True, slots=True)
class Index:
    """What a run's row says beside its status. `waits` by step key, in the order of opening."""

    waits: dict[str, Wait] = field(default_factory=dict)
    stopped: tuple[Wait, ...] = ()
    """What a suspension waits for that is no operation: `flow resume` after a stop, a missing function."""
    steps: int = 0
    done: int = 0
    current: str | None = None
    error: str | None = None

    def after(self, drafts: Iterable[Draft | Event]) -> "Index":
        """The index once these are in the journal too."""
        waits, stopped = self.waits, self.stopped
        steps, done, current, error = self.steps, self.done, self.current, self.error
        for draft in drafts:
            kind, step = draft.kind, draft.step
            if kind in _BEGINS:
                current = step
                if '"position":' in draft.text and '"again":true' not in draft.text:  # not its further attempts and rounds
                    steps += 1
            if kind in _ENDS_WAIT and step in waits:
                waits = {key: wait for key, wait in waits.items() if key != step}
            if kind in (Kind.STEP_SUCCEEDED, Kind.STATE_SET):
                done += step is not None and not step.endswith((":undo", ":on_error"))
            elif kind == Kind.GATE_CLOSED:
                done += json.loads(draft.text)["outcome"] != "cancelled"
            elif kind in _WAITS:
                wait = _WAITS[kind](draft, json.loads(draft.text), waits)
                if wait is not None and step is not None:
                    waits = {**waits, step: wait}
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
                error = json.dumps(json.loads(draft.text)["error"]) if kind == Kind.RUN_FAILED else None
        return replace(self, waits=waits, stopped=stopped, steps=steps, done=done, current=current, error=error)

    def waiting(self) -> str:
        """JSON text of all that the run waits for."""
        if not self.waits and not self.stopped:
            return "[]"
        return json.dumps([*self.waits.values(), *self.stopped], separators=(",", ":"), ensure_ascii=False)


def _sleep(draft: Draft | Event, body: dict[str, Any], _waits: dict[str, Wait]) -> Wait:
    return make_wait("sleep", step=draft.step, reason=typed_name(draft.step or "", body["name"]), wake_at=body["wake_at"])


def _gate(draft: Draft | Event, body: dict[str, Any], _waits: dict[str, Wait]) -> Wait:
    return make_wait(
        body["kind"],
        step=draft.step,
        reason=typed_name(draft.step or "", body["name"]),
        round=draft.attempt,
        deadline=body["deadline"],
        schema=body["schema"],
        message=body["message"] or None,
    )


def _retry(draft: Draft | Event, body: dict[str, Any], _waits: dict[str, Wait]) -> Wait | None:
    if body["final"]:
        return None
    return make_wait("retry", step=draft.step, reason=draft.step, round=(draft.attempt or 1) + 1, wake_at=body["next_attempt_at"])


def _child(draft: Draft | Event, body: dict[str, Any], _waits: dict[str, Wait]) -> Wait:
    return make_wait("child", step=draft.step, reason=draft.step, child=body["child"])


def _unknown(draft: Draft | Event, body: dict[str, Any], _waits: dict[str, Wait]) -> Wait | None:
    return make_wait("resolve", step=draft.step, reason=draft.step) if body.get("unknown") else None


_WAITS: dict[str, Callable[[Draft | Event, dict[str, Any], dict[str, Wait]], Wait | None]] = {
    Kind.SLEEP_STARTED: _sleep,
    Kind.GATE_OPENED: _gate,
    Kind.STEP_FAILED: _retry,
    Kind.CHILD_STARTED: _child,
    Kind.STEP_INTERRUPTED: _unknown,
}


def _stopped(body: dict[str, Any]) -> tuple[Wait, ...]:
    if body["code"] == "STOPPED":
        return (make_wait("suspend", reason="stopped"),)
    if body["code"] == "FUNCTION_NOT_FOUND":
        return tuple(make_wait("function", reason=reason) for reason in body["reasons"])
    return ()
