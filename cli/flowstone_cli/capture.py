"""Keeps stdout for the answer while user code runs: whatever a step writes there goes into its output log instead.

Two kinds of writers: Python's sys.stdout and sys.stderr (attributed to the step that writes), and file descriptors 1 and 2
(os.write, C code, child processes; each through a pipe).
"""

import codecs
import fcntl
import io
import os
import select
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from flowstone.storage.sqlite.descriptors import Descriptor

Take = Callable[[str, str], None]
"""Takes ("out" or "err", text); called from any thread."""

_CAPACITY = 65_536
"""Bytes that a pipe holds."""
_OUT_OF_THE_WAY = 500
"""The real streams are kept from this number on: a step that closes "all" descriptors seldom gets there, so it can be told."""
_LAST_WORDS = 0.5
"""Seconds to wait at the end for what is still in a pipe; a child that keeps it open must not keep us."""


class Capture:
    """While it is entered, file descriptors 1 and 2 and Python's streams lead to `take`.

    `answer` is the real stdout and `talk` the real stderr, also after the end; None if it was closed from the start.
    """

    def __init__(self, take: Take) -> None:
        self._take = take
        self._real_out = sys.stdout
        self._real_err = sys.stderr
        self.answer: TextIO | None = None
        self.talk: TextIO | None = None
        self._pipes: list[_Pipe] = []

    def __enter__(self) -> "Capture":
        self.answer, self.talk = _kept(self._real_out, 1), _kept(self._real_err, 2)
        self._stderr = Descriptor(_moved(2))
        self._pipes = [_Pipe(1, "out", self._take), _Pipe(2, "err", self._take)]
        self._writers = _Writer(self._take, "out", 1, self._real_out), _Writer(self._take, "err", 2, self._real_err)
        sys.stdout, sys.stderr = self._writers
        return self

    def __exit__(self, *_error: object) -> None:
        sys.stdout, sys.stderr = self._real_out, self._real_err
        for real in (self._real_out, self._real_err):
            if real is not None:
                real.flush()
        if self._stderr.ours:  # else a step has closed it, and there is nothing to go back to
            os.dup2(self._stderr.number, 2)
            self._stderr.close()
            # Not back to the real stdout: a thread that a step left behind may still print.
            os.dup2(2, 1)
        for pipe in self._pipes:
            pipe.writing.close()
            pipe.thread.join(_LAST_WORDS)

    def hold(self) -> bool:
        """Take the streams again if somebody has replaced them, and tell whether."""
        replaced = (sys.stdout, sys.stderr) != self._writers
        sys.stdout, sys.stderr = self._writers
        return any([replaced, *(pipe.hold() for pipe in self._pipes)])

    def settle(self) -> None:
        """Take what has been written to the descriptors until now, so that it counts for the step that is about to end."""
        for pipe in self._pipes:
            pipe.drain()


class _Pipe:
    """What a file descriptor of the process leads to instead, read by a thread of its own and by whoever cannot wait for that."""

    def __init__(self, descriptor: int, name: str, take: Take) -> None:
        self._name = name
        self._take = take
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._lock = threading.Lock()
        self._open = True
        reading, writing = os.pipe()
        self._reading = Descriptor(reading)
        os.set_blocking(reading, False)
        os.dup2(writing, descriptor)
        os.close(writing)
        self._descriptor = Descriptor(descriptor)
        self.writing = Descriptor(_moved(descriptor))
        """Kept to come back to."""
        self.thread = threading.Thread(target=self._read, name=f"flow-std{name}", daemon=True)
        self.thread.start()

    def hold(self) -> bool:
        """Come back if the descriptor leads elsewhere, and tell whether it did."""
        if self._descriptor.ours or not self.writing.ours:
            return False
        os.dup2(self.writing.number, self._descriptor.number)
        return True

    def drain(self) -> bool:
        """Take what is in the pipe; False at its end."""
        with self._lock:
            for _ in range(2):  # twice what a pipe holds: a child that never stops writing must not keep us
                if not self._open:
                    break
                if not self._reading.ours:  # closed by a step
                    self._open = False
                    break
                try:
                    data = os.read(self._reading.number, _CAPACITY)
                except BlockingIOError:
                    break
                self._take(self._name, self._decoder.decode(data, final=not data))
                if not data:
                    self._open = False
                    self._reading.close()
        return self._open

    def _read(self) -> None:
        ready = select.poll()
        ready.register(self._reading.number, select.POLLIN)
        while ready.poll() and self.drain():
            pass


def _kept(real: TextIO | None, descriptor: int) -> TextIO | None:
    """The real stream under another descriptor."""
    if real is None:
        return None
    real.flush()
    return open(_moved(descriptor), "w", encoding=real.encoding, errors="backslashreplace", buffering=1)


def _moved(descriptor: int) -> int:
    """A copy of a descriptor, out of the way if the system allows for so high a number."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
    except OSError:
        return os.dup(descriptor)


class _Writer(io.TextIOBase):
    """Stands for sys.stdout or sys.stderr while user code runs."""

    def __init__(self, take: Take, name: str, descriptor: int, real: TextIO | None) -> None:
        self._take = take
        self._name = name
        self._descriptor = descriptor
        self._real = real

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """What bytes written to `buffer` are taken for."""
        return "utf-8"

    @property
    def buffer(self) -> Any:
        """For bytes: they go by the descriptor."""
        return self._real.buffer if self._real is not None else io.BytesIO()

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() takes text, not {type(text).__name__}")
        self._take(self._name, text)
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def flush(self) -> None:
        if self._real is not None:
            self._real.flush()  # what was written to `buffer`
