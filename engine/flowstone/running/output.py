"""What steps print and bodies log, kept until the next append takes it into the journal's transaction."""

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
        self._pieces: list[LogPiece] = []
        self._sizes: dict[tuple[str | None, int | None], int] = {}
        self.running: dict[str, int] = {}
        """Steps whose attempt runs now, and its number: output that names no step is theirs if there is just one."""

    def write(self, stream: str, text: str) -> None:
        """Keep text of `stream` ("out" or "err") for the step in whose context this is called."""
        step = CURRENT.get()
        if step is not None:
            self.add(step.key, step.attempt, stream, text)
        elif len(self.running) == 1:
            [(key, attempt)] = self.running.items()
            self.add(key, attempt, stream, text)
        else:
            self.add(None, None, stream, text)

    def add(self, step: str | None, attempt: int | None, stream: str, text: str) -> None:
        """Keep text of a given attempt."""
        if not text:
            return
        with self._lock:
            size = self._sizes.get((step, attempt), 0)
            self._sizes[step, attempt] = size + len(text)
            if size < LIMIT:
                self._pieces.append(LogPiece(step, attempt, self._clock.now(), stream, text[: LIMIT - size]))
            if size < LIMIT <= size + len(text):
                note = f"\n… more than {LIMIT} characters: the rest of this attempt's output is not kept\n"
                self._pieces.append(LogPiece(step, attempt, self._clock.now(), stream, note))
        if self._echo is not None:
            self._echo(step, stream, text)

    def ended(self, step: str) -> None:
        """A step's attempt has ended: what comes now is not its output."""
        self.settle()
        self.running.pop(step, None)

    @property
    def waiting(self) -> bool:
        """Whether something has come that nobody has taken."""
        return bool(self._pieces)

    def put_back(self, pieces: list[LogPiece]) -> None:
        """Give back what was taken and could not be written."""
        with self._lock:
            self._pieces[:0] = pieces

    def take(self) -> list[LogPiece]:
        """What has come since the last call."""
        with self._lock:
            pieces, self._pieces = self._pieces, []
        return pieces
