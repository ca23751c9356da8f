"""A thread that looks on while author's code runs, and tells what keeps all else waiting: an import, a step in the event loop."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from flowstone.authoring import blocking
from flowstone.authoring.blocking import BODY

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from flowstone.authoring.loader import Library

HELD = 1.0
"""Seconds for which the event loop may be held up without a word."""
SLOW = 5.0
"""Seconds that an import may take without a word."""
_PAUSE = 0.25

Names = Callable[[], list[str]]
Tell = Callable[[str], None]


class Onlooker:
    """Looks on from the start until it is left. `tell` is called in its thread; `running` names the steps that go on."""

    def __init__(self, library: "Library", root: Path, tell: Tell, running: Names = list) -> None:
        self._library = library
        self._root = root
        self._running = running
        self._tell = tell
        self._main = threading.get_ident()
        self._over = threading.Event()
        self._import: tuple[Path, float] | None = None
        self._ping: _Ping | None = None
        self.loop: AbstractEventLoop | None = None
        """The event loop, while there is one."""
        threading.Thread(target=self._look, name="flow-onlooker", daemon=True).start()

    def __enter__(self) -> "Onlooker":
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()

    def _look(self) -> None:
        last = time.monotonic()
        while not self._over.wait(_PAUSE):
            now = time.monotonic()
            if now - last > HELD:  # this thread was kept waiting too: the process was stopped
                self._import = self._ping = None
            last = now
            self._look_at_import(now)
            self._look_at_loop(now)

    def _look_at_import(self, now: float) -> None:
        file = self._library.importing
        if file is None:
            self._import = None
        elif self._import is None or self._import[0] is not file:
            self._import = file, now
        elif now - self._import[1] >= SLOW:
            self._tell(
                f"importing {self._short(str(file))} takes long: {SLOW:g} s so far{self._where(', now at ')}; Ctrl-C ends it"
            )
            self._import = file, float("inf")

    def _look_at_loop(self, now: float) -> None:
        loop, ping = self.loop, self._ping
        if loop is None or self._library.importing is not None:
            self._ping = None
        elif ping is None or ping.answered.is_set():
            self._ping = _Ping(now)
            try:
                loop.call_soon_threadsafe(self._ping.answered.set)
            except RuntimeError:  # it was closed just now
                self._ping = None
        elif now - ping.since >= HELD and not ping.told:
            where = self._where(" at ")
            if where:
                ping.told = True
                steps = self._running()
                cure = "make the step a plain def, which has a thread of its own, or await" if steps else "a step may take long"
                held = f"{_named(steps)} holds up everything else{where}: other steps, cancels and timeouts wait"
                self._tell(f"{held}; {cure}")

    def _where(self, before: str) -> str:
        """The innermost line of the project that the main thread is at, or a body in its own; empty if they are at none."""
        frames = sys._current_frames()
        bodies = [frames.get(one.ident or 0) for one in threading.enumerate() if one.name == BODY]
        at_work = [frame for frame in bodies if frame is not None and frame.f_code.co_filename != blocking.__file__]
        for innermost in (frames.get(self._main), *at_work):
            frame: FrameType | None = innermost
            while frame is not None:
                if Path(frame.f_code.co_filename).is_relative_to(self._root):
                    return f"{before}{self._short(frame.f_code.co_filename)}:{frame.f_lineno}"
                frame = frame.f_back
        return ""

    def _short(self, file: str) -> str:
        return str(Path(file).relative_to(self._root)) if Path(file).is_relative_to(self._root) else file


class _Ping:
    """Something for the event loop to do at once."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.answered = threading.Event()
        self.told = False


def _named(steps: list[str]) -> str:
    if not steps:
        return "the workflow's body"
    if len(steps) == 1:
        return f'the step "{steps[0]}"'
    return "one of the steps " + ", ".join(f'"{step}"' for step in steps[:5])
