"""Where a run's time went: its attempts and waits as spans, and the document `flow.timeline/1` (DESIGN.md section 19)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flowstone.clock import to_rfc3339
from flowstone.journal.documents import WITH_FUNCTION, Document, instant, milliseconds, run_document
from flowstone.journal.events import MAIL, Event, Kind
from flowstone.journal.facts import RunFacts
from flowstone.journal.ledger import Ledger
from flowstone.journal.vanished import cut_off_at, seen_at

OWN = frozenset({"undo", "on_error"})
"""Kinds of the engine's own steps, which the body did not ask for."""


@dataclass(slots=True)
class Span:
    """One attempt of a step, one wait of a sleep, one round of a gate, or the moment of a state. Read it, do not write it."""

    step: str
    """The step key."""
    name: str
    kind: str
    """step, child, undo, on_error, sleep, approval, suspend or state."""
    attempt: int
    """Number of the attempt; for a gate the round."""
    status: str
    """running, succeeded, failed, interrupted, cancelled; waiting; for a gate also refused and its outcome."""
    start_n: int
    start_at: int
    end_n: int | None = None
    end_at: int | None = None
    """None while it lasts. For an attempt whose process died see `_step_interrupted`."""
    error: str | None = None
    """`Type: message`."""
    child: str | None = None
    cut: bool = False
    """Whether `flow retry` has put what came of it aside."""
    by: str | None = None
    """Who answered, or said what came of an attempt that was cut off."""
    comment: str | None = None
    resolved: str | None = None
    """What a person said that came of an attempt that was cut off: succeeded or failed; its own status stays interrupted."""
    next_attempt_at: int | None = None
    """When the next attempt is due, after a failure that is not final."""

    @property
    def is_wait(self) -> bool:
        """Whether it waits for time or for a person, so that nothing runs."""
        return self.kind in ("sleep", "approval", "suspend")

    def lasted(self, until: int | None = None) -> int | None:
        """Microseconds from its start to its end, or to `until` while it lasts; a clock set back gives 0."""
        end = until if self.end_at is None else self.end_at
        return None if end is None else max(0, end - self.start_at)


def spans(events: Iterable[Event], *, upto: int | None = None) -> list[Span]:
    """The spans of a run by their start; with `upto`, as the journal was just after that event."""
    fold = _Fold()
    for event in events:
        if upto is not None and event.n > upto:
            break
        fold.apply(event)
    return fold.spans


def busy(found: Iterable[Span], until: int) -> list[tuple[int, int]]:
    """The intervals in which any attempt runs, as (start, end), by start, disjoint; what has no end lasts `until`.

    Waits are not busy, nor is a step that is a child run: the child's own attempts are.
    """
    intervals = sorted(
        (span.start_at, max(span.start_at, until if span.end_at is None else span.end_at))
        for span in found
        if span.kind in WITH_FUNCTION
    )
    merged: list[tuple[int, int]] = []
    for start, end in intervals:
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def working(intervals: Iterable[tuple[int, int]]) -> int:
    """Microseconds in which any attempt ran."""
    return sum(end - start for start, end in intervals)


def timeline_document(
    row: RunFacts, ledger: Ledger, events: Sequence[Event], *, life: str | None, now: int, seen_at: int | None = None
) -> Document:
    """`flow.timeline/1`: the run, its events, and its attempts and waits; `seen_at` as in `run_document`."""
    run = run_document(row, ledger, life=life, now=now, seen_at=seen_at)
    del run["steps"]
    return {
        "schema": "flow.timeline/1",
        "run": run,
        "events": [event_document(event) for event in events],
        "attempts": [span_document(span) for span in spans(events)],
    }


def event_document(event: Event) -> Document:
    """One entry of `events[]`."""
    return {
        "n": event.n,
        "at": to_rfc3339(event.at),
        "kind": str(event.kind),
        "step": event.step,
        "attempt": event.attempt,
        "body": event.body(),
    }


def span_document(span: Span) -> Document:
    """One entry of `attempts[]`."""
    return {
        "step": span.step,
        "attempt": span.attempt,
        "kind": span.kind,
        "status": span.status,
        "start_n": span.start_n,
        "end_n": span.end_n,
        "start_at": to_rfc3339(span.start_at),
        "end_at": instant(span.end_at),
        "duration_ms": milliseconds(span.lasted()),
        "child": span.child,
        "error": span.error,
        "cut": span.cut,
    }


class _Fold:
    """Takes the events in, in the order of n, and keeps the spans that they make."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.by_step: dict[str, list[Span]] = {}
        self.open: dict[str, Span] = {}
        """Spans without an end, by step key."""
        self.completed: dict[str, int] = {}
        """The number of the completion by step key; a step that has failed for good has it only once its on_error has ended."""
        self.resolved: dict[str, dict[str, Any]] = {}
        """What people have said about attempts whose outcome is unknown, by step key."""
        self.last_written_at = 0
        """When the owner wrote its last event."""
        self.seen_at: int | None = None
        """When the process that vanished was last known to live."""

    def apply(self, event: Event) -> None:
        handler = _HANDLERS.get(event.kind)
        if handler is not None:
            handler(self, event)
        if event.kind not in MAIL:
            self.last_written_at = event.at

    def _begin(self, event: Event, name: str, kind: str, status: str) -> Span:
        key = event.step or ""
        span = Span(key, name, kind, event.attempt or 1, status, event.n, event.at)
        self.spans.append(span)
        self.by_step.setdefault(key, []).append(span)
        self.open[key] = span
        return span

    def _end(self, event: Event, status: str, *, final: bool) -> Span:
        key = event.step or ""
        span = self.open.pop(key, None) or self.by_step[key][-1]
        span.end_n = event.n
        if span.status == "interrupted" and span.kind != "child":
            said = self.resolved.pop(key, {})
            span.resolved, span.by, span.comment = status, (said.get("by") or {}).get("user"), said.get("reason")
        else:
            span.status = status
        if span.end_at is None:  # else it was cut off, and only now is known what became of it
            span.end_at = event.at
        if final:
            self.completed[key] = event.n
            if span.kind == "on_error":
                self.completed[key.removesuffix(":on_error")] = event.n
        return span

    def _step_started(self, event: Event) -> None:
        earlier = self.by_step.get(event.step or "")
        if earlier:
            self._begin(event, earlier[0].name, earlier[0].kind, "running")
        else:
            body = event.body()
            self._begin(event, body["name"], body.get("kind", "step"), "running")

    def _step_succeeded(self, event: Event) -> None:
        self._end(event, "succeeded", final=True)

    def _step_failed(self, event: Event) -> None:
        body = event.body()
        span = self._end(event, "failed", final=body["final"])
        span.error, span.next_attempt_at = _sentence(body["error"]), body.get("next_attempt_at")

    def _step_interrupted(self, event: Event) -> None:
        """End an attempt that was cut off; see `cut_off_at`. A child run goes on: only the watching was cut off."""
        key = event.step or ""
        if self.by_step[key][-1].kind == "child":
            self.by_step[key][-1].status = "interrupted"
        else:
            span = self._end(event, "interrupted", final=False)
            span.end_at = cut_off_at(span.start_at, event.at, self.seen_at)

    def _step_resolved(self, event: Event) -> None:
        self.resolved[event.step or ""] = event.body()

    def _step_cancelled(self, event: Event) -> None:
        key = event.step or ""
        if key in self.open:
            self._end(event, "cancelled", final=True)
        else:
            self.completed[key] = event.n

    def _sleep_started(self, event: Event) -> None:
        self._begin(event, event.body()["name"], "sleep", "waiting")

    def _gate_opened(self, event: Event) -> None:
        body = event.body()
        self._begin(event, body["name"], body["kind"], "waiting")

    def _gate_refused(self, event: Event) -> None:
        body = event.body()
        self._end(event, "refused", final=False).error = (body.get("error") or {}).get("message")

    def _gate_closed(self, event: Event) -> None:
        body = event.body()
        span = self._end(event, body["outcome"], final=True)
        span.by, span.comment = (body.get("by") or {}).get("user"), body.get("comment") or None

    def _state_set(self, event: Event) -> None:
        self._begin(event, event.body()["name"], "state", "succeeded")
        self._end(event, "succeeded", final=True)

    def _child_started(self, event: Event) -> None:
        if event.step in self.open:
            self.open[event.step].child = event.body().get("child")

    def _run_interrupted(self, event: Event) -> None:
        self.seen_at = seen_at(event, self.last_written_at)

    def _run_reopened(self, event: Event) -> None:
        """Mark what the cut does not keep (see Ledger.cut): what was asked for from it on, and what has no kept completion."""
        cut = event.body()["cut"]
        late = frozenset(cut["late"])
        aside = set(cut["again"])
        firsts = {key: span for key, of_step in self.by_step.items() if (span := _first_kept(of_step)) is not None}
        for key, first in firsts.items():
            completed = self.completed.get(key)
            if first.start_n >= cut["n"] and key not in cut["keep"]:
                aside.add(key)
            elif first.kind in OWN:
                if key.removesuffix(f":{first.kind}") in aside:
                    aside.add(key)
            elif completed is None or (completed >= cut["n"] and completed not in late):
                aside.add(key)
        for key in aside:
            self.completed.pop(key, None)
            for span in self.by_step[key]:
                span.cut = True

    def _run_settled(self, event: Event) -> None:
        """End what is still open: the run ended over its head."""
        for span in self.open.values():
            span.status, span.end_n, span.end_at = "cancelled", event.n, event.at
        self.open.clear()


def _first_kept(of_step: Sequence[Span]) -> Span | None:
    return next((span for span in of_step if not span.cut), None)


def _sentence(error: dict[str, Any]) -> str:
    return ": ".join(str(part) for part in (error.get("type"), error.get("message")) if part)


_HANDLERS: dict[str, Callable[[_Fold, Event], None]] = {
    Kind.STEP_STARTED: _Fold._step_started,
    Kind.STEP_SUCCEEDED: _Fold._step_succeeded,
    Kind.STEP_FAILED: _Fold._step_failed,
    Kind.STEP_INTERRUPTED: _Fold._step_interrupted,
    Kind.STEP_RESOLVED: _Fold._step_resolved,
    Kind.STEP_CANCELLED: _Fold._step_cancelled,
    Kind.SLEEP_STARTED: _Fold._sleep_started,
    Kind.GATE_OPENED: _Fold._gate_opened,
    Kind.GATE_REFUSED: _Fold._gate_refused,
    Kind.GATE_CLOSED: _Fold._gate_closed,
    Kind.STATE_SET: _Fold._state_set,
    Kind.CHILD_STARTED: _Fold._child_started,
    Kind.RUN_INTERRUPTED: _Fold._run_interrupted,
    Kind.RUN_REOPENED: _Fold._run_reopened,
    Kind.RUN_COMPLETED: _Fold._run_settled,
    Kind.RUN_FAILED: _Fold._run_settled,
    Kind.RUN_CANCELLED: _Fold._run_settled,
}
