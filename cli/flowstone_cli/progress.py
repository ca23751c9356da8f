"""Progress of a run on stderr: one line that is redrawn for people; in a pipe, in CI, on a plain terminal one per event."""

import json
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from flowstone.clock import Clock, to_rfc3339
from flowstone.journal.events import Event, Kind
from flowstone.journal.labels import label_of
from flowstone.journal.words import duration_words
from flowstone_cli.clean import clean, fit, head, left, one_line
from flowstone_cli.terminal import Stream

SECOND = 1_000_000
_FRAME = 0.1
"""Seconds between two drawings."""
_QUIET_FOR = 30.0
"""Seconds without a line after which a plain one says that the run is alive."""
_NAME_WIDTH = 28

Fields = dict[str, Any]


def is_live(stream: Stream) -> bool:
    """Whether a line may be redrawn on this stream."""
    plain = os.environ.get("CI") or os.environ.get("ACCESSIBLE") or os.environ.get("TERM") == "dumb"
    return stream.terminal and not plain


class Progress:
    """Shows the events of one run as they land, and what its steps print. Called from any thread."""

    def __init__(self, stream: Stream, tell: Callable[[str], None], clock: Clock, *, quiet: bool) -> None:
        self._stream = stream
        self._tell = tell
        self._clock = clock
        self._quiet = quiet
        self._live = is_live(stream)
        self._lock = threading.RLock()
        self._begin = clock.now()
        self._starts: dict[str, int] = {}
        self._policies: dict[str, int | None] = {}
        self._partial: dict[tuple[str | None, str], str] = {}
        self._drawn = False
        self._over = threading.Event()
        self._spoke = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="flow-progress", daemon=True)
        if not quiet:
            self._ticker.start()

    def observe(self, events: Iterable[Event]) -> None:
        """Take events that have landed."""
        with self._lock:
            for event in events:
                ms = self._note(event)
                if not self._quiet:
                    line = self._live_line(event, ms) if self._live else self._plain_line(event, ms)
                    if line:
                        self._write(line)

    def echo(self, step: str | None, stream: str, text: str) -> None:
        """Show what a step (None: the body) has printed."""
        if self._quiet or not text:
            return
        with self._lock:
            lines = (self._partial.pop((step, stream), "") + text).split("\n")
            if lines[-1]:
                self._partial[step, stream] = lines[-1]
            self._echo_lines(step, lines[:-1])

    def end(self, final: Fields | None = None) -> None:
        """No more will come: the redrawn line goes away; in plain form the last line says how it ended."""
        with self._lock:
            self._over.set()
            self._spoke.set()
            for (step, _), text in self._partial.items():
                self._echo_lines(step, [text])
            self._partial.clear()
            self._erase()
            if final is not None and not self._live and not self._quiet:
                status = str(final.pop("status"))
                self._write(self._line("run", status, final))

    def _echo_lines(self, step: str | None, lines: list[str]) -> None:
        if not lines:
            return
        self._erase()
        if self._stream.terminal:
            bar = self._stream.glyph("│")
            name = f"{one_line(label_of(step))}: " if step is not None else ""
            self._tell("".join(f"{bar} {name}{clean(line)}\n" for line in lines))
        else:
            self._tell("".join(clean(line) + "\n" for line in lines))
        self._spoke.set()

    def _write(self, line: str) -> None:
        self._erase()
        self._tell(line + "\n")
        self._spoke.set()

    # bookkeeping

    def _note(self, event: Event) -> int | None:
        """Keep what runs; the milliseconds that an ending attempt took."""
        if event.step is None:
            return None
        if event.kind == Kind.STEP_STARTED:
            self._starts[event.step] = event.at
            policy = event.body().get("policy")
            if policy is not None:
                self._policies[event.step] = policy.get("max_attempts") or (policy.get("retries") or 0) + 1
            return None
        if event.kind in (Kind.STEP_SUCCEEDED, Kind.STEP_FAILED, Kind.STEP_INTERRUPTED, Kind.STEP_CANCELLED):
            start = self._starts.pop(event.step, None)
            return None if start is None else max(0, event.at - start) // 1000
        return None

    def _attempt(self, event: Event) -> str:
        most = self._policies.get(event.step or "")
        return f"{event.attempt}/{most}" if most else str(event.attempt)

    # one line per event

    def _line(self, subject: str, word: str, fields: Fields) -> str:
        seconds = max(0, self._clock.now() - self._begin) / SECOND
        parts = [f"{name}={_field(value)}" for name, value in fields.items() if value is not None]
        return " ".join([f"{seconds:.3f}", one_line(subject), word, *parts])

    def _plain_line(self, event: Event, ms: int | None) -> str | None:
        body = event.body()
        fields = self._plain_fields(event, body, ms)
        if fields is None:
            return None
        word = body["outcome"] if event.kind == Kind.GATE_CLOSED else _WORDS.get(event.kind, event.kind.partition(".")[2])
        return self._line(event.step or "run", word, fields)

    def _plain_fields(self, event: Event, body: Fields, ms: int | None) -> Fields | None:
        match event.kind:
            case Kind.RUN_CREATED:
                return {"workflow": body["workflow"], "key": body.get("key")}
            case Kind.STEP_STARTED:
                return {"attempt": self._attempt(event)}
            case Kind.STEP_SUCCEEDED | Kind.STEP_INTERRUPTED | Kind.STEP_CANCELLED:
                return {"ms": ms}
            case Kind.STEP_FAILED:
                due = body.get("next_attempt_at")
                retry = None if due is None else max(0, due - event.at) // 1000
                return {"attempt": self._attempt(event), "ms": ms, "error": _error(body["error"]), "retry_in_ms": retry}
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

    # one line that is redrawn

    def _live_line(self, event: Event, ms: int | None) -> str | None:
        """What stays on the screen: failed attempts only; how the run ends is told after the end."""
        if event.kind != Kind.STEP_FAILED:
            return None
        body = event.body()
        due = body.get("next_attempt_at")
        if due is None:
            return None
        sign = self._stream.paint(self._stream.glyph("retrying"), "retrying")
        name = left(fit(one_line(label_of(event.step or "")), _NAME_WIDTH), _NAME_WIDTH)
        wait = duration_words(due - event.at)
        took = duration_words((ms or 0) * 1000)
        rest = f"{took:>7}  attempt {event.attempt} failed, next in {wait}: {one_line(_error(body['error']))}"
        return f"{sign} {name} {head(rest, max(8, self._stream.width - _NAME_WIDTH - 4), self._stream.glyph('…'))}"

    def _tick(self) -> None:
        if self._live:
            while not self._over.wait(_FRAME):
                with self._lock:
                    if not self._over.is_set():
                        self._draw()
            return
        while not self._over.is_set():
            self._spoke.clear()
            if not self._spoke.wait(_QUIET_FOR):
                with self._lock:
                    running = ",".join(self._starts) or None
                    self._write(self._line("run", "alive", {"running": running}))

    def _draw(self) -> None:
        if not self._starts:
            self._erase()
            return
        step, start = min(self._starts.items(), key=lambda item: item[1])
        more = f"  and {len(self._starts) - 1} more" if len(self._starts) > 1 else ""
        name = left(fit(one_line(label_of(step)), _NAME_WIDTH), _NAME_WIDTH)
        took = duration_words(self._clock.now() - start)
        text = fit(f"{name} {took:>6}{more}", max(8, self._stream.width - 3))
        sign = self._stream.paint(self._stream.glyph("running"), "running")
        self._tell(f"\r\x1b[K{sign} {text}")
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            self._tell("\r\x1b[K")
            self._drawn = False


_WORDS = {Kind.GATE_OPENED.value: "waiting", Kind.SLEEP_STARTED.value: "sleeping"}


def _error(error: Fields) -> str:
    kind, message = error.get("type"), error.get("message") or ""
    return f"{kind}: {message}" if kind else message


def _field(value: Any) -> str:
    text = one_line(str(value))
    return text if text and not any(char in text for char in ' "=') else json.dumps(text, ensure_ascii=False)
