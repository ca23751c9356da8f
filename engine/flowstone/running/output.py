"""What steps print and bodies log, kept by run until the next append to its journal takes it into that transaction."""

import threading
from collections.abc import Callable
from typing import Protocol

from flowstone.authoring.current import CURRENT
from flowstone.clock import Clock
from flowstone.ports import LogPiece

LIMIT = 1024 * 1024
"""Characters kept per attempt; what comes after is shown but not kept."""


class Echo(Protocol):
    """Shows output as it comes, while the run goes on."""

    def __call__(self, step: str | None, stream: str, text: str) -> None:
        """Show `text` of a step (None: of the body)."""
        ...


class OutputLog:
    """Takes output from any thread and attributes it to the step that runs there."""

    def __init__(self, clock: Clock, echo: Echo | None = None) -> None:
        self._clock = clock
        self._echo = echo
        self.settle: Callable[[], None] = lambda: None
        """Brings in what is still on its way from file descriptors; called when a step ends."""
        self._lock = threading.Lock()
        self._pieces: dict[str | None, list[LogPiece]] = {}
        """By run; what names none goes to the run that writes next."""
        self._sizes: dict[tuple[str | None, str | None, int | None], int] = {}
        self.running: dict[tuple[str, str], int] = {}
        """Steps whose attempt runs now, and its number: output that names no step is theirs if there is just one."""

    def write(self, stream: str, text: str) -> None:
        """Keep text of `stream` ("out" or "err") for the step in whose context this is called."""
        step = CURRENT.get()
        if step is not None:
            self.add(step.run_id, step.key, step.attempt, stream, text)
        elif len(self.running) == 1:
            [((run, key), attempt)] = self.running.items()
            self.add(run, key, attempt, stream, text)
        else:
            self.add(None, None, None, stream, text)

    def add(self, run: str | None, step: str | None, attempt: int | None, stream: str, text: str) -> None:
        """Keep text of a given attempt, or of the body of a run."""
        if not text:
            return
        with self._lock:
            size = self._sizes.get((run, step, attempt), 0)
            self._sizes[run, step, attempt] = size + len(text)
            pieces = self._pieces.setdefault(run, [])
            if size < LIMIT:
                pieces.append(LogPiece(step, attempt, self._clock.now(), stream, text[: LIMIT - size]))
            if size < LIMIT <= size + len(text):
                note = f"\n… more than {LIMIT} characters: the rest of this attempt's output is not kept\n"
                pieces.append(LogPiece(step, attempt, self._clock.now(), stream, note))
        if self._echo is not None:
            self._echo(step, stream, text)

    def ended(self, run: str, step: str) -> None:
        """A step's attempt has ended: what comes now is not its output."""
        self.settle()
        self.running.pop((run, step), None)

    def waiting(self, run: str) -> bool:
        """Whether something has come that the run's next append would take."""
        return bool(self._pieces.get(run) or self._pieces.get(None))

    def put_back(self, run: str, pieces: list[LogPiece]) -> None:
        """Give back what was taken and could not be written."""
        with self._lock:
            self._pieces.setdefault(run, [])[:0] = pieces

    def take(self, run: str) -> list[LogPiece]:
        """What has come for a run since the last call."""
        with self._lock:
            return self._pieces.pop(None, []) + self._pieces.pop(run, [])

    def forget(self, run: str) -> None:
        """The pass of a run has ended, and its last append has taken what came until then."""
        with self._lock:
            self._pieces.pop(run, None)
            self._sizes = {of: size for of, size in self._sizes.items() if of[0] not in (run, None)}
        self.running = {of: attempt for of, attempt in self.running.items() if of[0] != run}
