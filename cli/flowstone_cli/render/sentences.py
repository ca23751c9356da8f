"""Progress in sentences, for terminals whose text is read aloud (ACCESSIBLE): what has changed, several changes at a time."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from flowstone.journal.events import Event, Kind
from flowstone.journal.labels import label_of
from flowstone_cli.clean import one_line
from flowstone_cli.render.plain import error_text
from flowstone_cli.render.spoken import duration
from flowstone_cli.render.text import count

MOST = 6
"""Sentences at a time; of more than that only those that one must hear are said, the others are counted."""
_ENDS = {
    Kind.STEP_SUCCEEDED.value: "succeeded",
    Kind.STEP_INTERRUPTED.value: "was interrupted",
    Kind.STEP_CANCELLED.value: "was cancelled",
}


class Sentences:
    """Gathers what has changed."""

    def __init__(self) -> None:
        self._run = ""
        self._starts: dict[tuple[str, str], int] = {}
        self._policies: dict[tuple[str, str], int] = {}
        self._changes: dict[tuple[str, str, int | None], tuple[str, str]] = {}
        """Run, step and attempt → what has become of it (started, succeeded, or empty for what one must hear), in a sentence."""

    def begin(self, run: str, events: Iterable[Event]) -> None:
        """This is the run; what has happened before is not said again. What was taken in already is said."""
        said, self._changes = self._changes, {}
        self._run = run
        for event in events:
            self.take(event, run)
        self._changes = said

    def take(self, event: Event, run: str) -> None:
        """Take a change in."""
        if event.step is None:
            said = self._of_run(event, run)
            if said:
                self._changes[run, event.kind, event.n] = "", said
            return
        place = (run, event.step)
        kind, said = self._of_step(event, place)
        if said:
            whose = "" if run == self._run else f" of child run {run[:6]}"
            key = (run, event.step, event.attempt)
            self._changes.pop(key, None)  # what started and has ended meanwhile is said once
            self._changes[key] = kind, said.replace("@", one_line(label_of(event.step)) + whose, 1)

    def said(self) -> list[str]:
        """The sentences about what has changed since they were asked for last."""
        changes = [*self._changes.values()]
        self._changes.clear()
        if len(changes) <= MOST:
            return [sentence for _, sentence in changes]
        must = [sentence for kind, sentence in changes if not kind]
        counts = Counter(kind for kind, _ in changes if kind)
        if len(must) > MOST:
            counts["failed or wait"] = len(must) - MOST
        told = [f"{count(number, 'step')} {kind}" for kind, number in counts.items()]
        return [*must[:MOST], *([", ".join(told) + "."] if told else [])]

    def alive(self, since: int) -> str:
        """That the run goes on, when nothing else has been said for a while."""
        names = [one_line(label_of(step)) for _, step in self._starts]
        more = [f"{len(names) - MOST} more"] if len(names) > MOST else []
        running = ": " + ", ".join([*names[:MOST], *more]) if names else ""
        return f"Still running after {duration(since)}{running}."

    def _of_run(self, event: Event, run: str) -> str:
        whose = "" if run == self._run else f" of child run {run[:6]}"
        match event.kind:
            case Kind.RUN_CREATED if self._run in ("", run):
                return f"Run {run[:6]} of {one_line(event.body()['workflow'])} started."
            case Kind.RUN_CANCELLING:
                return f"The cancel{whose} has begun."
            case Kind.RUN_RESUMED if run == self._run:
                return "The run goes on."
        return ""

    def _of_step(self, event: Event, place: tuple[str, str]) -> tuple[str, str]:
        body: dict[str, Any] = event.body() if event.kind not in (Kind.STEP_SUCCEEDED, Kind.STATE_SET) else {}
        match event.kind:
            case Kind.STEP_STARTED:
                self._starts[place] = event.at
                policy = body.get("policy") or {}
                if policy:
                    self._policies[place] = policy.get("max_attempts") or (policy.get("retries") or 0) + 1
                return "started", f"Step @ started{self._again(event, place)}."
            case Kind.STEP_SUCCEEDED | Kind.STEP_INTERRUPTED | Kind.STEP_CANCELLED:
                start = self._starts.pop(place, None)
                took = "" if start is None else f" after {duration(event.at - start)}"
                word = _ENDS[event.kind]
                return ("succeeded" if word == "succeeded" else ""), f"Step @ {word}{took}{self._again(event, place)}."
            case Kind.STEP_FAILED:
                self._starts.pop(place, None)
                due = body.get("next_attempt_at")
                then = "not retried" if due is None else f"retry in {duration(due - event.at)}"
                attempt = f"attempt {event.attempt}{self._of_how_many(place)}"
                return "", f"Step @ failed, {attempt}, {then}. {one_line(error_text(body['error']))}."
            case Kind.SLEEP_STARTED:
                return "", f"Sleeping: @, for {duration(body['wake_at'] - event.at)}."
            case Kind.GATE_OPENED:
                deadline = body.get("deadline")
                return "", "Waiting for an answer: @" + (
                    "." if deadline is None else f", expires in {duration(deadline - event.at)}."
                )
            case Kind.GATE_CLOSED:
                by = (body.get("by") or {}).get("user")
                return "", f"@ is {body['outcome']}" + (f" by {one_line(by)}." if by else ".")
            case Kind.CHILD_STARTED:
                return "started", f"Step @ started child run {body['child'][:6]}."
        return "", ""

    def _again(self, event: Event, place: tuple[str, str]) -> str:
        return f", attempt {event.attempt}{self._of_how_many(place)}" if (event.attempt or 1) > 1 else ""

    def _of_how_many(self, place: tuple[str, str]) -> str:
        most = self._policies.get(place)
        return f" of {most}" if most else ""
