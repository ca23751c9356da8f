"""What can be said about a database file and the place where it lies, without changing anything. For `flow doctor`."""

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple

from flowstone.errors import FlowError, StorageFailed
from flowstone.storage.sqlite import statements
from flowstone.storage.sqlite.failures import in_words
from flowstone.storage.sqlite.opening import OLDEST_SQLITE, connect
from flowstone.storage.sqlite.paths import beside
from flowstone.storage.sqlite.schema import APPLICATION_ID, MIGRATIONS

Grade = Literal["ok", "note", "warning", "failed"]
"""note: good to know, nothing is wrong; warning: something may go wrong; failed: something is wrong."""


class Finding(NamedTuple):
    """The result of one check: what was looked at, how it is, a sentence, and a command that can be typed."""

    check: str
    grade: Grade
    message: str
    hint: str | None = None


NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gfs2", "ocfs2"})
"""File systems on which locks and shared memory do not hold between machines."""
_FIXED = ((3, 51, 3), (3, 50, 7), (3, 44, 6))
"""SQLite without the WAL-reset race: from the first on, and later patches of the other two lines."""
_ROOM_TO_WORK, _ROOM_TO_BE_EASY = 50 << 20, 1 << 30
_LARGE_WAL = 64 << 20
_MOUNTS = Path("/proc/self/mountinfo")


def examine(path: Path) -> list[Finding]:
    """All that can be said about the database at `path`; it may be missing or no database."""
    found = [sqlite_version(sqlite3.sqlite_version_info)]
    folder = next(one for one in (path.parent, *path.parents) if one.exists())
    found += [file_system(_kind_of(folder)), disk(shutil.disk_usage(folder).free)]
    if not path.exists():
        return [*found, Finding("database", "ok", f"{path} is not there yet: the first run makes it")]
    found += _rights(path)
    try:
        return found + _inside(path)
    except sqlite3.Error as error:
        return [*found, _failed("database", in_words(error, path))]
    except FlowError as error:
        return [*found, _failed("database", error)]


def sqlite_version(version: tuple[int, ...]) -> Finding:
    """Whether this SQLite can be used, and whether it has the WAL-reset race."""
    text = ".".join(map(str, version[:3]))
    if version < OLDEST_SQLITE:
        return Finding("sqlite", "failed", f"SQLite {text} is too old: 3.37 is needed", "use a newer Python")
    newest, *older = _FIXED
    if version >= newest or any(version[:2] == one[:2] and version >= one for one in older):
        return Finding("sqlite", "ok", f"SQLite {text}")
    said = "its WAL-reset race cannot happen between flow processes, which take turns; no other program may write the file"
    return Finding("sqlite", "note", f"SQLite {text}: {said} (fixed in 3.51.3)")


def file_system(kind: str | None) -> Finding:
    """Whether the file system under the database keeps what SQLite needs."""
    if kind is None:
        return Finding("file system", "note", "its kind is not known here; it must be a local one")
    if kind in NETWORK:
        said = f"{kind} is a network file system: locks do not hold on it, and runs would be lost"
        return Finding("file system", "failed", said, "flow config show; name a local file with --db PATH")
    if kind.startswith("fuse"):
        return Finding(
            "file system", "warning", f"{kind}: whether locks hold on it is not known", "name a local file with --db PATH"
        )
    if kind in ("tmpfs", "ramfs"):
        return Finding("file system", "warning", f"{kind} is memory: what is recorded is gone when the machine stops")
    return Finding("file system", "ok", kind)


def network_refusal(kind: str | None, path: Path) -> StorageFailed | None:
    """Why nothing is written to a file on this kind of file system; None if something may be."""
    if kind not in NETWORK:
        return None
    return StorageFailed(
        f"{path} is on {kind}, a network file system: locks do not hold on it, and two machines would run one run",
        hint="name a local file with --db PATH, or take the risk with --unsafe-fs",
    )


def refuse_network(path: Path) -> None:
    """Raise StorageFailed if the database at `path` is, or would be made, on a network file system."""
    folder = next(one for one in (path.parent, *path.parents) if one.exists())
    refusal = network_refusal(_kind_of(folder), path)
    if refusal is not None:
        raise refusal


def refuse_open_folder(path: Path) -> None:
    """Raise StorageFailed if every user may put another file in the place of the database at `path`."""
    refusal = _open_folder(path)
    if refusal is not None:
        raise refusal


def _open_folder(path: Path) -> StorageFailed | None:
    try:
        mode = path.resolve().parent.stat().st_mode
    except OSError:
        return None  # it is made, for its owner alone, or that is told where the database is opened
    if not mode & stat.S_IWOTH or mode & stat.S_ISVTX:
        return None
    folder = path.resolve().parent
    return StorageFailed(
        f"every user may write to {folder}, and so replace {path.name}",
        hint=f"chmod o-w {quote(str(folder))}, or take the risk with --unsafe-fs",
    )


def open_to_others(path: Path) -> Finding | None:
    """The warning for a database that other users may read or write."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077:
        return None
    return Finding("rights", "warning", f"{path} is open to other users (mode {mode:04o})", f"chmod 600 {quote(str(path))}")


def disk(free: int) -> Finding:
    """Whether there is room."""
    if free < _ROOM_TO_WORK:
        return Finding("disk", "failed", f"only {free >> 20} MiB are free", "flow prune --older 30d --vacuum")
    grade: Grade = "warning" if free < _ROOM_TO_BE_EASY else "ok"
    return Finding("disk", grade, f"{free >> 20:,} MiB free", "flow prune --older 30d --vacuum" if grade == "warning" else None)


def _kind_of(folder: Path) -> str | None:
    """The kind of the file system that holds a folder; None where the system does not say."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    best, kind = -1, None
    whole = folder.resolve()
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(before.split(" ")[4].encode("latin-1", "surrogateescape").decode("unicode_escape"))
        if whole.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split(" ")[0]
    return kind


def _rights(path: Path) -> list[Finding]:
    found = path.stat()
    if found.st_uid != os.getuid():
        return [Finding("rights", "warning", f"{path} belongs to another user (uid {found.st_uid})", f"ls -l {path}")]
    if not os.access(path, os.R_OK | os.W_OK):
        return [Finding("rights", "failed", f"{path} may not be read and written by this user", f"chmod 600 {path}")]
    refusal, others = _open_folder(path), open_to_others(path)
    if refusal is not None:
        return [Finding("rights", "failed", refusal.message, refusal.hint)]
    if others is not None:
        return [others]
    return [Finding("rights", "ok", f"{path} is for its owner alone")]


def _inside(path: Path) -> list[Finding]:
    with closing(connect(path, "ro")) as connection:

        def value(statement: str) -> object:
            return connection.execute(statement).fetchall()[0][0]

        if value(statements.APPLICATION_ID) != APPLICATION_ID:
            return [
                Finding("database", "failed", f"{path} is a database of another program", "name the right file with --db PATH")
            ]
        said = str(value(statements.QUICK_CHECK))
        had, mode = value(statements.USER_VERSION), value(statements.JOURNAL_MODE)
    found = [
        Finding("database", "ok", f"{path} is whole, {path.stat().st_size >> 10:,} KiB")
        if said == "ok"
        else Finding("database", "failed", f"{path} is damaged: {said}", f"sqlite3 {path} .recover, or go back to a backup")
    ]
    if had == len(MIGRATIONS):
        found.append(Finding("schema", "ok", f"version {had}"))
    else:
        found.append(
            Finding("schema", "failed", f"version {had}; this flow knows {len(MIGRATIONS)}", f"flow db migrate --db {path}")
        )
    wal = beside(path, "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if mode != "wal":
        found.append(Finding("wal", "warning", f"the file is in {mode} mode; the next command that writes changes that"))
    elif size > _LARGE_WAL:
        found.append(Finding("wal", "warning", f"{size >> 20:,} MiB: a program keeps reading the file", f"fuser -v {path}"))
    else:
        found.append(Finding("wal", "ok", f"{size >> 10:,} KiB"))
    return found


def _failed(check: str, error: FlowError) -> Finding:
    return Finding(check, "failed", error.message, error.hint)
