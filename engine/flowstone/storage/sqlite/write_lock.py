"""The one lock in front of every write transaction: `flock` on `<database>-lock`, held from before BEGIN until after COMMIT.

SQLite's own lock starves processes, makes Ctrl-C wait, and vanishes when any code of the process opens and closes the
database file; this one does none of that. It is a file of its own for the last reason.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from flowstone.errors import Locked
from flowstone.storage.sqlite import forks
from flowstone.storage.sqlite.descriptors import Descriptor, lost
from flowstone.storage.sqlite.failures import system_in_words
from flowstone.storage.sqlite.paths import PRIVATE_FILE, identity

QUIET_SECONDS = 2.0
"""How long somebody waits without a word."""
_PID_WIDTH = 20
_NOBODY = b""


Notice = Callable[[str], None]
"""Told, in words, whom somebody waits for; in the thread that waits."""


class WriteLock:
    """Held by one thread of one process at a time. Its file holds the pid of who took it last."""

    def __init__(self, path: Path, timeout: float, notice: Notice | None = None) -> None:
        self._path = path
        self._timeout = timeout
        self._notice = notice
        self._turn = threading.Lock()  # among our threads, which share the descriptor and so the flock
        self._descriptor: Descriptor | None = None
        self._mine = _NOBODY
        """What the lock's file says while this process holds it; made at the first taking."""
        forks.watch(self)

    @contextmanager
    def held(self, timeout: float | None = None) -> Iterator[None]:
        """Hold the lock, as from `take` to `give_back`."""
        descriptor = self.take(timeout)
        try:
            yield
        finally:
            self.give_back(descriptor)

    def take(self, timeout: float | None = None) -> Descriptor:
        """Take the lock. Raises Locked with the holder's pid after the timeout (seconds); Ctrl-C ends the waiting at once.

        Returns what to hand to `give_back`. Raises StorageFailed if the lock's file was closed behind our back: then SQLite's
        files were too.
        """
        seconds = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            raise self._taken()
        try:
            return self._take(deadline)
        except BaseException:
            self._turn.release()
            raise

    def give_back(self, descriptor: Descriptor) -> None:
        """Let others have the lock."""
        try:
            if self._descriptor is descriptor:  # not in a child forked meanwhile
                fcntl.flock(descriptor.number, fcntl.LOCK_UN)
        except OSError:
            if descriptor.ours:
                raise
        finally:
            self._turn.release()

    def close(self) -> None:
        """Close the lock's file."""
        if self._descriptor is not None:
            self._descriptor.close()
            self._descriptor = None

    @property
    def lost(self) -> bool:
        """Whether the lock's file was closed by somebody else."""
        return self._descriptor is not None and not self._descriptor.ours

    def forked(self) -> None:
        """In a child: close the copy, which would keep the parent's lock held after the parent's death."""
        self.close()
        self._mine = _NOBODY

    def _take(self, deadline: float) -> Descriptor:
        while True:
            descriptor = self._open()
            if not descriptor.ours:
                raise lost()
            try:
                fcntl.flock(descriptor.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait(descriptor, deadline)
            except OSError as error:
                raise system_in_words(error, self._path) from error
            if identity(self._path) == descriptor.file:
                self._sign(descriptor.number)
                return descriptor
            self.close()  # the file was removed or replaced: others lock the new one

    def _open(self) -> Descriptor:
        if self._descriptor is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                self._descriptor = Descriptor(os.open(self._path, flags, PRIVATE_FILE))
            except OSError as error:
                raise system_in_words(error, self._path) from error
        return self._descriptor

    def _wait(self, descriptor: Descriptor, deadline: float) -> None:
        """Block in flock, which is fair, but in a thread of its own, so that the waiting can end early."""
        waiter = _Waiter(descriptor.number)
        try:
            waiter.start()
            left = deadline - time.monotonic()
            if waiter.granted.wait(min(left, QUIET_SECONDS)):
                return
            if left > QUIET_SECONDS and self._notice is not None:
                self._notice(f"{self._taken().message}: waiting for it since {QUIET_SECONDS:g} s")
            if waiter.granted.wait(deadline - time.monotonic()):
                return
            raise self._taken()
        except BaseException:
            self._descriptor = None  # the waiter closes it
            waiter.give_up()
            raise

    def _sign(self, descriptor: int) -> None:
        self._mine = self._mine or f"{os.getpid():<{_PID_WIDTH}}".encode()
        try:
            if os.pread(descriptor, _PID_WIDTH, 0) != self._mine:
                os.pwrite(descriptor, self._mine, 0)
        except OSError:  # a full disk: the pid is there for a hint, the lock is held without it
            return

    def _taken(self) -> Locked:
        try:
            pid = int(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return Locked("the database is locked by another process", hint=f"fuser -v {quote(str(self._path))}")
        return Locked(f"the database is locked by process {pid}", hint=f"ps -fp {pid}")


class _Waiter(threading.Thread):
    """Waits for the lock on a descriptor, and gives descriptor and lock back if nobody wants them any more."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True, name="flowstone-write-lock")
        self._descriptor = descriptor
        self._settling = threading.Lock()
        self._given_up = False
        self.granted = threading.Event()

    def run(self) -> None:
        """Wait until the lock is granted."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._settling:
            if self._given_up:
                self._give_back()
            else:
                self.granted.set()

    def give_up(self) -> None:
        """Nobody waits for the lock any more."""
        with self._settling:
            self._given_up = True
            if self.granted.is_set():
                self._give_back()

    def _give_back(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # closing alone would not do if a forked child has a copy
        os.close(self._descriptor)
