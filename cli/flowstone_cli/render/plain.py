"""Progress in plain lines, one per event: seconds, step, word, then name=value. For pipes, CI, and terminals without motion."""

import json
from typing import Any

from flowstone.clock import to_rfc3339
from flowstone.journal.events import Event, Kind
from flowstone.journal.words import milliseconds
from flowstone_cli.clean import one_line

Fields = dict[str, Any]

SECOND = 1_000_000
MOST_NAMED = 10
"""Running steps that are named while nothing else happens."""
_WORDS = {Kind.GATE_OPENED.value: "waiting", Kind.SLEEP_STARTED.value: "sleeping"}


class Plain:
    """Makes the lines. `begin`: the instant from which seconds are counted."""

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self.run = ""
        """The run that needs no mention; steps of others, such as child runs, are told with theirs."""
        self._starts: dict[tuple[str, str], int] = {}
        self._policies: dict[tuple[str, str], int | None] = {}

    def line(self, event: Event, now: int, run: str = "") -> str | None:
        """The line for an event of a run; None for one of which nothing is said."""
        ms, body = self.note(event, run), event.body()
        fields = self._fields(event, body, ms, run)
        if fields is None:
            return None
        if self.run and run != self.run:
            fields["run"] = run
        word = body["outcome"] if event.kind == Kind.GATE_CLOSED else _WORDS.get(event.kind, event.kind.partition(".")[2])
        return self.said(event.step or "run", word, fields, now)

    def alive(self, now: int) -> str:
        """The line that tells that the run is alive, when nothing else has been said for a while."""
        names = [step for _, step in self._starts]
        more = len(names) - MOST_NAMED
        running = ",".join(names[:MOST_NAMED]) + (f",and {more} more" if more > 0 else "")
        return self.said("run", "alive", {"running": running or None}, now)

    def said(self, subject: str, word: str, fields: Fields, now: int) -> str:
        """One line."""
        parts = [f"{name}={_field(value)}" for name, value in fields.items() if value is not None]
        return " ".join([f"{max(0, now - self._begin) / SECOND:.3f}", one_line(subject), word, *parts])

    def note(self, event: Event, run: str = "") -> int | None:
        """Keep what runs; the milliseconds that an ending attempt took."""
        if event.step is None:
            return None
        if event.kind == Kind.STEP_STARTED:
            self._starts[run, event.step] = event.at
            policy = event.body().get("policy")
            if policy is not None:
                self._policies[run, event.step] = policy.get("max_attempts") or (policy.get("retries") or 0) + 1
            return None
        if event.kind in (Kind.STEP_SUCCEEDED, Kind.STEP_FAILED, Kind.STEP_INTERRUPTED, Kind.STEP_CANCELLED):
            start = self._starts.pop((run, event.step), None)
            return None if start is None else milliseconds(max(0, event.at - start))
        return None

    def _attempt(self, event: Event, run: str) -> str:
        most = self._policies.get((run, event.step or ""))
        counts = most is not None and (event.attempt or 0) <= most  # a retry of the run begins to count anew
        return f"{event.attempt}/{most}" if counts else str(event.attempt)

    def _fields(self, event: Event, body: Fields, ms: int | None, run: str) -> Fields | None:
        match event.kind:
            case Kind.RUN_CREATED:
                return {"workflow": body["workflow"], "key": body.get("key")}
            case Kind.STEP_STARTED:
                return {"attempt": self._attempt(event, run)}
            case Kind.CHILD_STARTED:
                return {"child": body["child"]}
            case Kind.STEP_SUCCEEDED | Kind.STEP_INTERRUPTED | Kind.STEP_CANCELLED:
                return {"ms": ms}
            case Kind.STEP_FAILED:
                due = body.get("next_attempt_at")
                retry = None if due is None else milliseconds(max(0, due - event.at))
                return {"attempt": self._attempt(event, run), "ms": ms, "error": error_text(body["error"]), "retry_in_ms": retry}
            case Kind.SLEEP_STARTED:
                return {"wake_at": to_rfc3339(body["wake_at"])}
            case Kind.GATE_OPENED:
                deadline = body.get("deadline")
                return {"expires": None if deadline is None else to_rfc3339(deadline)}
            case Kind.GATE_CLOSED:
                return {"by": (body.get("by") or {}).get("user")}
            case Kind.GATE_REFUSED:
                return {"error": body["error"].get("message")}
            case Kind.RUN_INTERRUPTED | Kind.RUN_SUSPENDED:
                return {"code": body.get("code")}
            case Kind.RUN_RESUMED:
                return {"cause": body.get("cause")}
            case Kind.RUN_CANCELLING | Kind.RUN_REOPENED | Kind.RUN_MIGRATED:
                return {}
        return None


def error_text(error: Fields) -> str:
    """A recorded error in one sentence: `OSError: busy`."""
    kind, message = error.get("type"), error.get("message") or ""
    return f"{kind}: {message}" if kind else str(message)


def _field(value: Any) -> str:
    text = one_line(str(value))
    return text if text and not any(char in text for char in ' "=') else json.dumps(text, ensure_ascii=False)
