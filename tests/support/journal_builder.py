"""Builds the events of a run by hand, in the bodies that running/ writes, and its row as a store would hold it."""

import json
from dataclasses import dataclass, replace
from typing import Any

from flowstone.journal.cut import cut_at
from flowstone.journal.events import Event
from flowstone.journal.ledger import Ledger
from flowstone.journal.states import Status
from flowstone.journal.summary import Index

START = 1_795_770_000_000_000
"""When the runs of tests begin: an instant in 2026, in microseconds."""
SECOND = 1_000_000
MILLISECOND = 1000


@dataclass(frozen=True)
class Row:
    """A run's row, with the attributes that readers read."""

    id: str = "k7f2qd9xmc4w"
    workflow: str = "deploy"
    status: Status = Status.RUNNING
    version: str = "v1"
    key: str | None = None
    user: str = "ana"
    parent_run: str | None = None
    parent_step: str | None = None
    created_at: int = START
    updated_at: int = START
    finished_at: int | None = None
    owner: str | None = None
    epoch: int = 0
    mail: int = 0
    events: int = 0
    waiting: str = "[]"
    steps: int = 0
    done: int = 0
    current_step: str | None = None
    error: str | None = None


class Journal:
    """The events of one run, written verb by verb; every verb returns the journal, so that they can be chained.

    Time stands still until `after` moves it.
    """

    def __init__(self, input: Any = None, *, workflow: str = "deploy", at: int = START) -> None:
        self.events: list[Event] = []
        self.at = at
        self.position = 0
        self.add("run.created", workflow=workflow, input=input, version="v1", seed=1, wire={"user": "ana"}, key=None, fork=None)

    def after(self, us: int) -> "Journal":
        """Let time pass."""
        self.at += us
        return self

    def add(self, kind: str, step: str | None = None, attempt: int | None = None, /, **body: Any) -> "Journal":
        """Append any event."""
        self.events.append(Event(len(self.events), self.at, kind, step, attempt, json.dumps(body)))
        return self

    def claimed(self, owner: str = "owner-1", epoch: int = 1) -> "Journal":
        return self.add("run.claimed", owner=owner, epoch=epoch, pid=4711, host="here")

    def interrupted(self, code: str = "VANISHED", **more: Any) -> "Journal":
        return self.add("run.interrupted", code=code, owner="owner-1", pid=4711, host="here", found_by="owner-2", **more)

    def suspended(self, code: str = "WAITING", gates: tuple[str, ...] = (), reasons: tuple[str, ...] = ()) -> "Journal":
        functions = list(reasons) if code == "FUNCTION_NOT_FOUND" else []
        return self.add("run.suspended", code=code, gates=list(gates), reasons=list(reasons), functions=functions)

    def resumed(self, cause: str = "resume", passes: tuple[str, ...] = ()) -> "Journal":
        return self.add("run.resumed", by={"user": "ana"}, cause=cause, passes=list(passes))

    def reopened(self, cut: Any = None) -> "Journal":
        """Re-open the run at the step of that key."""
        made = cut_at(self.ledger(), cut)
        kept = self.ledger()
        kept.reopen(made)
        steps = sum(operation.is_step for operation in kept.operations.values())
        return self.add("run.reopened", by={"user": "ana"}, cut=made, steps=steps, done=kept.done)

    def completed(self, output: Any = None) -> "Journal":
        return self.add("run.completed", output=output)

    def failed(self, step: str | None = None, type: str = "CardDeclined", message: str = "no funds") -> "Journal":
        error: dict[str, Any] = {
            "type": type,
            "message": message,
            "code": "STEP_FAILED",
            "step": step,
            "trace": "Traceback",
            "site": "order.py:48",
        }
        return self.add("run.failed", error=error)

    def cancelled(self, reason: str = "not approved") -> "Journal":
        return self.add("run.cancelled", reason=reason, by={"user": "ana"})

    def step(self, key: str, attempt: int = 1, *, name: str | None = None, retries: int = 5, **more: Any) -> "Journal":
        """Start an attempt; the first carries the body that begins the operation."""
        if key in self.ledger().operations:
            return self.add("step.started", key, attempt, **more)
        policy = {"retries": retries, "retry_delay": None, "timeout": None, "repeatable": True, "max_attempts": retries + 1}
        body = {
            "kind": "step", "name": name or key, "function": f"workflows.deploy:{key}", "input": None, "digest": "d",
            "predecessor": None, "policy": policy, "undo": None, "on_error": None, "description": None, "actor": None,
            "site": "deploy.py:12",
        }  # fmt: skip
        return self.add("step.started", key, attempt, **{**body, **self._place(), **more})

    def undo(self, key: str, attempt: int = 1, *, cause: Any = None) -> "Journal":
        """Start the undo of a step; `cause` stands in the first undo of a run."""
        return self._own("undo", key, attempt, compensates=key, **({} if cause is None else {"cause": cause}))

    def on_error(self, key: str, attempt: int = 1) -> "Journal":
        """Start the handler of a step that has failed for good."""
        return self._own("on_error", key, attempt, handles=key)

    def _own(self, kind: str, key: str, attempt: int, **more: Any) -> "Journal":
        whole = f"{key}:{kind}"
        if whole in self.ledger().operations:
            return self.add("step.started", whole, attempt)
        policy = {"retries": 5, "retry_delay": None, "timeout": None, "repeatable": True, "max_attempts": 6}
        body = {
            "kind": kind, "name": key, "function": f"workflows.deploy:{kind}", "input": None, "predecessor": key,
            "policy": policy, "description": None, "site": "deploy.py:12",
        }  # fmt: skip
        return self.add("step.started", whole, attempt, **body, **more)

    def succeeded(self, key: str, result: Any = None, attempt: int = 1) -> "Journal":
        return self.add("step.succeeded", key, attempt, result=result)

    def step_failed(
        self,
        key: str,
        attempt: int = 1,
        *,
        next_in: int | None = None,
        type: str = "StockTimeout",
        message: str = "busy",
    ) -> "Journal":
        """End an attempt with a failure: final, or with the next attempt due in `next_in` microseconds."""
        error: dict[str, Any] = {
            "type": type,
            "module": "shop",
            "mro": [],
            "message": message,
            "trace": "Traceback",
            "data": None,
            "code": "RAISED",
        }
        due = None if next_in is None else self.at + next_in
        return self.add("step.failed", key, attempt, error=error, final=due is None, next_attempt_at=due)

    def step_interrupted(self, key: str, attempt: int = 1, code: str = "VANISHED", **more: Any) -> "Journal":
        return self.add("step.interrupted", key, attempt, code=code, **more)

    def step_cancelled(self, key: str, attempt: int = 1) -> "Journal":
        return self.add("step.cancelled", key, attempt)

    def ran(self, key: str, result: Any = None, *, us: int = MILLISECOND) -> "Journal":
        """A step that succeeds at its first attempt after `us`."""
        return self.step(key).after(us).succeeded(key, result)

    def sleep(self, name: str, us: int) -> "Journal":
        body = {"kind": "sleep", "name": name, "predecessor": None, "wake_at": self.at + us}
        return self.add("sleep.started", f"sleep:{name}", 1, **body, **self._place())

    def gate(
        self,
        reason: str,
        *,
        kind: str = "approval",
        expiry: int | None = None,
        key: str | None = None,
        round: int = 1,
        **more: Any,
    ) -> "Journal":
        """Open a gate, or its next round."""
        prefix = "approve" if kind == "approval" else "suspend"
        body = {
            "kind": kind, "name": reason, "predecessor": None, "schema": None, "approvers": "any", "scope": None, "message": "",
            "deadline": None if expiry is None else self.at + expiry, "round": round,
        }  # fmt: skip
        return self.add("gate.opened", key or f"{prefix}:{reason}", round, **{**body, **self._place(), **more})

    def answered(self, key: str, decision: str = "approved", data: Any = None, *, comment: str = "", round: int = 1) -> "Journal":
        return self.add("gate.answered", key, round, decision=decision, data=data, comment=comment, by={"user": "ana"}, name=key)

    def refused(self, key: str, round: int = 1) -> "Journal":
        return self.add("gate.refused", key, round, error={"message": "the answer does not fit", "details": []})

    def closed(self, key: str, outcome: str = "approved", data: Any = None, *, comment: str = "", round: int = 1) -> "Journal":
        by = {"user": "ana"} if outcome in ("approved", "rejected") else None
        return self.add("gate.closed", key, round, outcome=outcome, data=data, comment=comment, by=by, at=self.at)

    def state(self, name: str, value: Any, key: str | None = None) -> "Journal":
        return self.add(
            "state.set", key or f"state:{name}", 1, name=name, state=name, value=value, predecessor=None, **self._place()
        )

    def ledger(self) -> Ledger:
        return Ledger(self.events)

    def row(self, **more: Any) -> Row:
        """The row that goes with these events; `more` replaces what the ledger cannot know."""
        ledger, index = self.ledger(), Index().after(self.events)
        row = Row(
            status=ledger.status, created_at=ledger.created_at, updated_at=ledger.updated_at, finished_at=ledger.finished_at,
            owner=ledger.owner, epoch=ledger.epoch, events=len(self.events), waiting=index.waiting(), steps=index.steps,
            done=index.done, current_step=index.current, error=index.error,
        )  # fmt: skip
        return replace(row, **more)

    def _place(self) -> dict[str, Any]:
        self.position += 1
        return {"branch": "", "position": self.position - 1}


def five_minutes() -> Journal:
    """The session of FIVE-MINUTES.md: killed while building, approved, failed, retried, completed. 22 events, 62 seconds."""
    return (
        Journal({"version": "1.4"})
        .claimed().step("build")
        .after(10 * SECOND).interrupted(seen_at=START + 2 * SECOND).claimed("owner-2", 2).step_interrupted("build")
        .step("build", 2).after(5 * SECOND).succeeded("build", "app.txt", 2)
        .gate("publish", expiry=2 * 86_400 * SECOND).suspended(gates=("approve:publish",), reasons=("publish",))
        .after(41 * SECOND).answered("approve:publish", comment="looks fine").claimed("owner-3", 3).resumed("approve")
        .closed("approve:publish", comment="looks fine")
        .step("publish", retries=0).after(3 * MILLISECOND)
        .step_failed("publish", type="FileNotFoundError", message="no live/app.txt")
        .failed("publish", "FileNotFoundError", "no live/app.txt")
        .after(6 * SECOND - 6 * MILLISECOND).claimed("owner-4", 4).reopened(cut="publish")
        .step("publish", 2).after(3 * MILLISECOND).succeeded("publish", "live/app.txt", 2).completed("live/app.txt")
    )  # fmt: skip
