"""Which processes live: each keeps a locked file in `<database>-owners/`, and the kernel lets go of the lock when it dies.

An owner id is `<random>.<machine>.<boot>.<pid namespace>.<pid>.<start>` and the name of that file. The id carries the facts so
that a process whose file is missing can still be judged, from the run's row alone.
"""

import fcntl
import json
import os
import re
import socket
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

from flowstone import identity
from flowstone.ports import Life, OwnerFacts
from flowstone.storage.sqlite import forks
from flowstone.storage.sqlite.descriptors import Descriptor, lost
from flowstone.storage.sqlite.failures import system_in_words
from flowstone.storage.sqlite.paths import PRIVATE_FILE, PRIVATE_FOLDER, beside, resolved
from flowstone.storage.sqlite.process import Process, here, is_stopped, life, this_process

_ID = re.compile(r"[0-9a-f]{32}\.([0-9a-f]{12}|-)\.([0-9a-f]{12}|-)\.(\d{1,20}|-)\.(\d{1,9})\.(\d{1,20}|-)")
_UNFINISHED = "unfinished-"
_MOST_SWEPT = 1000
"""Files looked at by one enlistment."""
_LONGEST_FACTS = 4096
_YOUNG_SECONDS = 24 * 3600


class OwnerFiles:
    """The owners of the runs in the database at `database`. A forked child is none, until it enlists itself."""

    def __init__(self, database: str | os.PathLike[str]) -> None:
        self._folder = beside(resolved(database), "-owners")
        self._id: str | None = None
        self._descriptor: Descriptor | None = None
        forks.watch(self)

    def enlist(self) -> str:
        """Make this process an owner for the rest of its life; the same id at every call. Raises StorageFailed."""
        if self._id is None:
            try:
                self._folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
                self._sweep()
                self._id = self._lock_file()
            except OSError as error:
                raise system_in_words(error, self._folder) from error
        return self._id

    def life(self, owner: str) -> Life:
        """Whether that owner lives. DEAD only on proof: its file can be locked, or it is missing and its process gone."""
        process = _process(owner)
        if owner == self._id:
            return Life.ALIVE
        if process is None or process.machine != here()[0]:
            return Life.UNKNOWN
        held = _is_held(self._folder / owner)
        if held is None:
            return life(process)
        return Life.ALIVE if held else Life.DEAD

    def facts(self, owner: str) -> OwnerFacts:
        """What is known about that owner, from its file or else from its id."""
        process = _process(owner)
        if process is None:
            return OwnerFacts(pid=None, host=None, user=None)
        try:
            with (self._folder / owner).open("rb") as file:
                seen_at = os.fstat(file.fileno()).st_mtime_ns // 1000
                told = json.loads(file.read(_LONGEST_FACTS))
        except (OSError, ValueError):
            told, seen_at = None, None
        host, user = (told.get("host"), told.get("user")) if isinstance(told, dict) else (None, None)
        if host is None and process.machine == here()[0]:
            host = socket.gethostname()
        return OwnerFacts(
            pid=int(process.pid),
            host=host if isinstance(host, str) else None,
            user=user if isinstance(user, str) else None,
            seen_at=seen_at,
            stopped=is_stopped(process),
        )

    def beat(self) -> None:
        """Show that this process lives: its file's time of change. Raises StorageFailed if the file was closed by a step."""
        if self._descriptor is not None:
            if not self._descriptor.ours:
                raise lost()
            os.utime(self._descriptor.number)

    def retire(self) -> None:
        """This process stops being an owner: its file goes. Idempotent."""
        if self._id is not None:
            (self._folder / self._id).unlink(missing_ok=True)
        self.forked()

    def forked(self) -> None:
        """In a child: close the copy of the descriptor, which would make a dead parent look alive."""
        if self._descriptor is not None:
            self._descriptor.close()
        self._descriptor = self._id = None

    def _lock_file(self) -> str:
        """Make this process's file: locked before it has the name by which others probe it."""
        process = this_process()
        owner = f"{identity.new_owner_id()}.{process.text()}"
        unfinished = self._folder / f"{_UNFINISHED}{owner}"
        descriptor = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            facts = {"pid": os.getpid(), "host": socket.gethostname(), "user": identity.present_user()}
            os.write(descriptor, json.dumps(facts).encode())
            unfinished.rename(self._folder / owner)
        except BaseException:
            os.close(descriptor)
            unfinished.unlink(missing_ok=True)
            raise
        self._descriptor = Descriptor(descriptor)
        return owner

    def _sweep(self) -> None:
        """Remove old files of dead owners, if their ids alone still prove them dead without the files.

        A young one still tells when its process was last seen.
        """
        newest = time.time() - _YOUNG_SECONDS
        with os.scandir(self._folder) as entries:
            files = [self._folder / entry.name for entry in islice(entries, _MOST_SWEPT)]
        for file in files:
            process = _process(file.name.removeprefix(_UNFINISHED))
            if process is not None and life(process) is Life.DEAD and _is_held(file) is False:
                with suppress(FileNotFoundError):  # its process retired, or another sweep was first
                    if file.stat().st_mtime < newest:
                        file.unlink()


def _process(owner: str) -> Process | None:
    """The process of an owner id; None for any other text: ids come from a database, and become the names of files."""
    fields = owner.split(".")
    return Process(*fields[1:]) if _ID.fullmatch(owner) else None


def _is_held(file: Path) -> bool | None:
    """Whether some process holds the lock of an owner's file; None if there is no such file to ask.

    A shared lock, so that two who probe at once do not take each other for the owner.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
