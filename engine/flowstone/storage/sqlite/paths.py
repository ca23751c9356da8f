"""What may lie at a database's path: checks with a sentence each, since SQLite says "unable to open" to all of them."""

import os
import stat
from pathlib import Path
from shlex import quote

from flowstone.errors import NotAllowed, NotFound, StorageFailed
from flowstone.storage.sqlite.failures import system_in_words, whose_is

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

Identity = tuple[int, int]
"""Device and inode: tells a file from another one put in its place."""


def beside(database: Path, ending: str) -> Path:
    """The path of a file that belongs to the database: its own path with `ending`."""
    return database.with_name(database.name + ending)


def resolved(path: str | os.PathLike[str]) -> Path:
    """The absolute path without symbolic links, fixed once. Raises StorageFailed for an empty or impossible path."""
    text = os.fspath(path)
    if not text:
        raise StorageFailed("the path of the database is empty", hint="give a file: --db .flow/flow.db")
    try:
        return Path(text).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise StorageFailed(f"{text!r} is no path: {error}", hint="give a file: --db .flow/flow.db") from error


def is_missing_or_empty(path: Path) -> bool:
    """Whether a database may be put at `path`."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return True
    except OSError as error:
        raise system_in_words(error, path) from error
    return stat.S_ISREG(found.st_mode) and found.st_size == 0


def refuse_unusable(path: Path, *, writing: bool) -> None:
    """Raise unless `path` is a file with content that this process may open."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"there is no database at {path}", hint="flow run NAME") from error
    except OSError as error:
        raise system_in_words(error, path) from error
    if stat.S_ISDIR(found.st_mode):
        raise StorageFailed(f"{path} is a folder, not a database", hint=f"name a file in it: --db {quote(str(path))}/flow.db")
    if not stat.S_ISREG(found.st_mode):
        raise StorageFailed(f"{path} is not an ordinary file", hint="name a file with --db PATH")
    if found.st_size == 0:
        raise NotFound(f"{path} is empty: it holds no runs", hint="flow run NAME")
    if not os.access(path, os.R_OK):
        raise StorageFailed(f"{path} may not be read by this user: {whose_is(path)}", hint=f"ls -l {quote(str(path))}")
    if writing and not os.access(path, os.W_OK):
        raise NotAllowed(f"{path} is read-only for this user: {whose_is(path)}", hint=f"ls -l {quote(str(path))}")


def make_folder(folder: Path) -> None:
    """Make the database's folder, private, and the missing ones above it; keep a `.flow` out of version control."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        for parent in reversed(missing):
            parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
            sync_folder(parent.parent)
        if missing and folder.name == ".flow":
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StorageFailed(
            f"the folder {folder} cannot be made: {error.strerror}", hint=f"ls -ld {quote(str(folder.parent))}"
        ) from error


def sync_folder(folder: Path) -> None:
    """Make the names of new files in `folder` survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private_file(path: Path) -> None:
    """Make an empty file for its owner only, where nothing is yet: SQLite gives its -wal and -shm the same rights."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, PRIVATE_FILE))


def identity(path: Path) -> Identity | None:
    """Which file lies at `path` now; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  # before every write: a Path's own takes three times as long
    except OSError:
        return None
    return found.st_dev, found.st_ino
