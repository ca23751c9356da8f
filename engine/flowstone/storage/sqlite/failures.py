"""Turns what SQLite and the system report into errors of ours: a plain sentence and a hint. Knows which of them end a store."""

import errno
import pwd
import sqlite3
from pathlib import Path
from shlex import quote

from flowstone.errors import CannotCreate, FlowError, NotAllowed, StorageFailed, TryAgain, ValueRefused

_KIND = 0xFF
"""SQLite's result codes hold their kind in the low byte."""
_FATAL = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def ends_the_store(error: sqlite3.Error) -> bool:
    """Whether nothing may be trusted to this connection any more.

    After a failed sync the next commit would report success although its pages may be lost (reliability: measured).
    """
    return _kind(error) in _FATAL


def in_words(error: sqlite3.Error, path: object) -> FlowError:
    """The error of ours for one of SQLite's."""
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    match _kind(error):
        case sqlite3.SQLITE_FULL:
            return StorageFailed(f"the disk is full: {path} could not be written", hint="make room, then flow recover")
        case sqlite3.SQLITE_IOERR:
            return StorageFailed(f"reading or writing {path} failed ({name})", hint="flow doctor")
        case sqlite3.SQLITE_CORRUPT:
            return StorageFailed(
                f"{path} is damaged ({error})", hint=f"sqlite3 {quote(str(path))} .recover, or go back to a backup"
            )
        case sqlite3.SQLITE_NOTADB:
            return StorageFailed(f"{path} is not a database", hint="name the right file with --db PATH")
        case sqlite3.SQLITE_CANTOPEN:
            return StorageFailed(f"{path} cannot be opened", hint="flow doctor")
        case sqlite3.SQLITE_READONLY:
            return NotAllowed(f"{path} is read-only", hint=f"ls -l {quote(str(path))}")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return TryAgain(f"{path} is locked by another program", hint=f"fuser -v {quote(str(path))}")
        case sqlite3.SQLITE_CONSTRAINT:
            return TryAgain(f"that is recorded already; nothing was written ({error})", hint="flow runs")
        case sqlite3.SQLITE_TOOBIG:
            return ValueRefused("a value is larger than the database takes", hint="store a file and return its path")
        case _:
            return StorageFailed(f"the database {path} failed: {error} ({name})", hint="flow doctor")


def making_in_words(error: OSError, path: Path) -> FlowError:
    """The error of ours for one of the system's when the file `path`, which a person has named, was to be made."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return system_in_words(error, path)
    return CannotCreate(f"{path} cannot be made: {error.strerror or error}", hint=f"ls -ld {quote(str(path.parent))}")


def system_in_words(error: OSError, path: object) -> StorageFailed:
    """The error of ours for one of the system's about `path`."""
    whose = f" ({whose_is(path)})" if isinstance(error, PermissionError) else ""
    return StorageFailed(f"{path} cannot be used: {error.strerror or error}{whose}", hint=f"ls -ld {quote(str(path))}")


def whose_is(path: object) -> str:
    """To whom a file belongs, or the nearest folder above one that is not there or not to be seen: `/srv belongs to root`."""
    for one in (Path(str(path)), *Path(str(path)).parents):
        try:
            owner = one.stat().st_uid
        except OSError:
            continue
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = f"uid {owner}"
        return f"{one} belongs to {name}"
    return "nobody knows to whom it belongs"


def _kind(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _KIND
