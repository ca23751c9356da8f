"""Progress of a run on stderr: a live view for people, sentences where text is read aloud; else one line per event.

A thread of its own folds, draws and writes: whoever observes only hands events over, however slow the terminal is.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from flowstone.clock import Clock
from flowstone.journal.events import Event, Kind
from flowstone.journal.labels import label_of
from flowstone_cli.clean import clean, fit, one_line
from flowstone_cli.render.live import Live
from flowstone_cli.render.plain import Fields, Plain
from flowstone_cli.render.region import Region
from flowstone_cli.render.sentences import Sentences
from flowstone_cli.render.text import told
from flowstone_cli.terminal import Stream

FRAME = 0.1
"""Seconds between two drawings."""
SILENCE = 30.0
"""Seconds without a line after which one says that the run is alive."""
BETWEEN = 5.0
"""Seconds between two groups of sentences."""
STOPS = "Ctrl-C stops the run, twice at once"
MOST_LINES = 1000
"""Lines of output between two drawings; more than that nobody reads, and `flow logs` has them."""
STALL = 500_000
"""Microseconds between two drawings after which something may have happened to the process."""
LAST_DRAWING = 1.0
"""Seconds that the end waits for a drawing that is being written: a terminal may be held (Ctrl-S)."""

_ATTEMPT_ENDS = (Kind.STEP_SUCCEEDED, Kind.STEP_FAILED, Kind.STEP_INTERRUPTED, Kind.STEP_CANCELLED)


def is_live(stream: Stream) -> bool:
    """Whether lines may be redrawn on this stream."""
    plain = stream.spoken or os.environ.get("CI") or os.environ.get("TERM") == "dumb"
    return stream.terminal and not plain


def _kept(events: Sequence[Event]) -> Iterable[Event]:
    """The events of a run without those of steps that a retry has put aside."""
    if not any(event.kind == Kind.RUN_REOPENED for event in events):
        return events
    from flowstone.journal.ledger import Ledger

    kept = Ledger(events).operations
    return [event for event in events if event.step is None or event.step in kept]


class Progress:
    """Shows the events of one run as they land, and what its steps print. Called from any thread."""

    def __init__(
        self, stream: Stream, tell: Callable[[str], None], clock: Clock, *, quiet: bool, silence: float = SILENCE
    ) -> None:
        self._stream = stream
        self._tell = tell
        self._clock = clock
        self.quiet = quiet
        self._silence = silence
        self._live = is_live(stream)
        self._begun_at = clock.now()
        self._plain = Plain(self._begun_at)
        self._sentences = Sentences() if stream.spoken else None
        self._view = Live("", STOPS)
        self._begun = False
        self._region = Region()
        self._lock = threading.RLock()
        """Guards what is handed over; held for a moment only, except while a plain line is written."""
        self._drawing = threading.RLock()
        """Guards the view and the screen; held while the terminal takes a drawing."""
        self._events: deque[tuple[str, Event]] = deque()
        self._partial: dict[tuple[str | None, str], str] = {}
        self._said: deque[str] = deque(maxlen=MOST_LINES)
        """Lines of output that are not on the screen for good yet; the newest one waits in the view."""
        self._dropped = 0
        self._over = threading.Event()
        self._spoke = threading.Event()
        self._before: dict[int, Any] = {}
        """Signal handlers to be put back."""
        if not quiet:
            if self._live and threading.current_thread() is threading.main_thread():
                for number, handler in ((signal.SIGTSTP, self._stopped), (signal.SIGCONT, self._continued)):
                    if signal.getsignal(number) is not signal.SIG_IGN:
                        self._before[number] = signal.signal(number, handler)
            work = self._draw_often if self._live else self._speak if self._sentences is None else self._tell_often
            threading.Thread(target=work, name="flow-progress", daemon=True).start()

    def begin(self, title: str, run: str, events: Sequence[Event], *, hint: str = STOPS) -> None:
        """Say which run it is (workflow and id as shown, whole id), and what has happened before: that is not told again."""
        if self.quiet:
            return
        with self._drawing:
            self._view, self._begun = Live(title, hint, run), True
            self._events.clear()
            for event in _kept(events) if self._live else events:
                if self._live:
                    self._view.take(event, self._stream)
                elif self._sentences is None:
                    self._plain.note(event, run)
            if self._sentences is not None:
                self._sentences.begin(run, events)
            self._plain.run = run

    @property
    def children(self) -> list[str]:
        """The child runs that go on, as far as the view shows them."""
        with self._drawing:
            return self._view.children

    def observe(self, run: str, events: Sequence[Event]) -> None:
        """Take events of a run that have landed: the one that was begun, or another, such as a child of it."""
        if self.quiet:
            return
        with self._lock:
            for event in events:
                if event.kind in _ATTEMPT_ENDS:
                    self._end_lines(event.step)
                if self._live:
                    self._events.append((run, event))
                elif self._sentences is not None:
                    self._sentences.take(event, run)
                    self._spoke.set()
                elif line := self._plain.line(event, self._clock.now(), run):
                    self._write(line + "\n")

    def echo(self, step: str | None, stream: str, text: str) -> None:
        """Show what a step (None: the body) has printed."""
        if self.quiet or not text:
            return
        with self._lock:
            *whole, rest = (self._partial.pop((step, stream), "") + text).split("\n")
            if rest:
                self._partial[step, stream] = rest
            self._take_lines(step, whole)

    def say(self, text: str) -> None:
        """One line of our own while the run goes on."""
        if self.quiet:
            return
        with self._lock:
            lines = told(self._stream, one_line(text)).splitlines(keepends=True)
            if self._live:
                self._said.extend(lines)
            else:
                self._write("".join(lines))

    def end(self, final: Fields | None = None) -> None:
        """No more will come: the view goes away; in plain form the last line says how it ended."""
        self._over.set()
        self._spoke.set()
        if self.quiet:
            return
        with self._lock:
            for step, stream in list(self._partial):
                self._take_lines(step, [self._partial.pop((step, stream))])
            if self._sentences is not None:
                self._tell_sentences()
            elif not self._live and final is not None:
                self._write(self._plain.said("run", str(final.pop("status")), final, self._clock.now()) + "\n")
        if not self._live or not self._drawing.acquire(timeout=LAST_DRAWING):
            return
        try:
            text = self._region.erased(self._folded(self._stream) + self._taken(keep=False))
            if text:
                self._tell(text)
        finally:
            self._drawing.release()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    # output

    def _end_lines(self, step: str | None) -> None:
        """An attempt has ended: what it printed last is a line, so that the next attempt begins one."""
        for stream in ("out", "err"):
            text = self._partial.pop((step, stream), None)
            if text is not None:
                self._take_lines(step, [text])

    def _take_lines(self, step: str | None, lines: list[str]) -> None:
        if not lines:
            return
        if not self._stream.terminal:
            self._write("".join(clean(line) + "\n" for line in lines))
            return
        shown = [self._output_line(step, line) for line in lines]
        if self._live and not self._over.is_set():
            self._dropped += max(0, len(self._said) + len(shown) - MOST_LINES)
            self._said.extend(shown)
        else:
            self._write("".join(shown))

    def _output_line(self, step: str | None, text: str) -> str:
        name = f"{one_line(label_of(step))}: " if step is not None else ""
        return f"{name}{clean(text)}\n" if self._stream.spoken else f"{self._stream.glyph('│')} {name}{clean(text)}\n"

    def _write(self, text: str) -> None:
        self._tell(text)
        self._spoke.set()

    def _speak(self) -> None:
        """In plain form: a line after each long silence."""
        while not self._over.is_set():
            self._spoke.clear()
            if not self._spoke.wait(self._silence) and not self._over.is_set():
                with self._lock:
                    self._tell(self._plain.alive(self._clock.now()) + "\n")

    def _tell_often(self) -> None:
        """Where text is read aloud: what has changed, at most every few seconds, and a sentence after each long silence."""
        while not self._over.is_set():
            self._spoke.clear()
            changed = self._spoke.wait(self._silence)
            if self._over.is_set():
                return
            with self._lock:
                if changed:
                    self._tell_sentences()
                elif self._sentences is not None:
                    self._tell(told(self._stream, self._sentences.alive(self._clock.now() - self._begun_at), indent=""))
            self._over.wait(BETWEEN)

    def _tell_sentences(self) -> None:
        if self._sentences is not None:
            self._tell("".join(told(self._stream, sentence, indent="") for sentence in self._sentences.said()))

    # the view

    def _draw_often(self) -> None:
        last = self._clock.now()
        while not self._over.wait(FRAME):
            last, before = self._clock.now(), last
            if not self._in_foreground():
                self._region.forget()
                continue
            if last - before > STALL:  # stopped perhaps: let `_continued` come first
                continue
            with self._drawing:
                if not self._over.is_set():
                    text = self._drawn()
                    if text:
                        self._tell(text)

    def _drawn(self) -> str:
        """What brings the screen up to date."""
        width, height = self._size()
        stream = replace(self._stream, width=width)
        above = self._folded(stream) + self._taken(keep=True)
        if not self._begun:
            return above
        with self._lock:
            said = self._said[-1] if self._said else ""
            for (step, _), text in list(self._partial.items())[-1:]:
                said = self._output_line(step, text.rpartition("\r")[2])
        said = fit(one_line(said.removesuffix("\n")), width, stream.glyph("…"))
        return self._region.drawn(self._view.lines(self._clock.now(), stream, max(1, height // 3), said), width, above)

    def _folded(self, stream: Stream) -> str:
        """The lines that stay on the screen for the events since the last drawing."""
        made = []
        while self._events:
            run, event = self._events.popleft()
            made.append(self._view.take(event, stream, run))
        return "".join(made)

    def _taken(self, *, keep: bool) -> str:
        """The lines of output since the last drawing; with `keep` without the newest, which stands in the view."""
        with self._lock:
            last = [self._said.pop()] if keep and self._said else []
            made = "".join(self._said)
            self._said.clear()
            self._said.extend(last)
            dropped, self._dropped = self._dropped, 0
        return (f"{self._stream.glyph('…')} {dropped:,} lines more: flow logs\n" if dropped else "") + made

    def _size(self) -> tuple[int, int]:
        """The window as it is now; asked at each drawing, so that nobody needs a signal for it."""
        try:
            assert self._stream.file is not None
            size = os.get_terminal_size(self._stream.file.fileno())
        except (OSError, ValueError):
            return self._stream.width, 24
        return (self._stream.width if os.environ.get("COLUMNS") else size.columns or self._stream.width), size.lines or 24

    def _in_foreground(self) -> bool:
        """Whether the terminal is ours; a job that was put in the background draws nothing over the shell."""
        try:
            assert self._stream.file is not None
            return os.tcgetpgrp(self._stream.file.fileno()) == os.getpgrp()
        except (OSError, ValueError):  # not our controlling terminal
            return True

    def _stopped(self, number: int, frame: Any) -> None:
        """Ctrl-Z: the view goes away before the shell writes, and comes back below what it has written."""
        held = self._drawing.acquire(timeout=LAST_DRAWING)
        if held:
            self._tell(self._region.erased())
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # returns when the process goes on
        signal.signal(signal.SIGTSTP, self._stopped)
        if held:
            self._drawing.release()

    def _continued(self, number: int, frame: Any) -> None:
        """After a stop that nobody could see coming (SIGSTOP) others may have written too."""
        self._region.forget()
