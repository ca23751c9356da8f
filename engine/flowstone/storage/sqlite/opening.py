"""Opens a database file, makes it if asked to, and refuses what is not one of ours."""

import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from shlex import quote
from typing import Any, Literal
from urllib.parse import quote_from_bytes

from flowstone.errors import StorageFailed
from flowstone.storage.sqlite import statements
from flowstone.storage.sqlite.failures import in_words, system_in_words
from flowstone.storage.sqlite.paths import (
    beside,
    is_missing_or_empty,
    make_folder,
    make_private_file,
    refuse_unusable,
    sync_folder,
)
from flowstone.storage.sqlite.schema import APPLICATION_ID, MIGRATIONS, Migration, back_up, migrate
from flowstone.storage.sqlite.write_lock import WriteLock

Mode = Literal["create", "write", "read"]
"""create: make the file if it is missing; write: only an existing one; read: write nothing."""

OLDEST_SQLITE = (3, 37, 0)
"""The first with STRICT tables."""
BUSY_SECONDS = 10.0
"""How long SQLite itself waits for programs that do not know our lock."""
LONGEST_VALUE = 256 * 1024 * 1024
"""Bytes; a database from a stranger cannot make us read more at once."""


def open_database(path: Path, mode: Mode, lock: WriteLock, migrations: Sequence[Migration] = MIGRATIONS) -> sqlite3.Connection:
    """A connection with our settings to a database that has had all `migrations`.

    Raises NotFound, NotAllowed, StorageFailed or TryAgain, each saying what is wrong with the file.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StorageFailed(f"SQLite {sqlite3.sqlite_version} is too old: 3.37 is needed", hint="use a newer Python")
    try:
        if mode == "create" and is_missing_or_empty(path):
            make_folder(path.parent)
            with lock.held():
                if is_missing_or_empty(path):
                    _make(path, migrations)
        refuse_unusable(path, writing=mode != "read")
        _refuse_a_foreign_wal(path)
        return _open_to_read(path, migrations) if mode == "read" else _open_to_write(path, lock, migrations)
    except sqlite3.Error as error:
        raise in_words(error, path) from error
    except OSError as error:
        raise system_in_words(error, path) from error


def _make(path: Path, migrations: Sequence[Migration]) -> None:
    """Make a whole database under another name and put it in place: nobody ever sees half of one."""
    unfinished = beside(path, "-unfinished")
    leftovers = [unfinished, beside(unfinished, "-wal"), beside(unfinished, "-shm"), beside(unfinished, "-journal")]
    for leftover in leftovers:
        leftover.unlink(missing_ok=True)
    make_private_file(unfinished)
    try:
        connection = connect(unfinished, "rw")
        try:
            _use_wal(connection, path)
            migrate(connection, migrations)
            connection.execute(statements.CHECKPOINT).fetchall()  # closing does it too, but keeps a failure to itself
        finally:
            connection.close()
        unfinished.replace(path)
        sync_folder(path.parent)
    except BaseException:
        for leftover in leftovers:
            with suppress(OSError):
                leftover.unlink(missing_ok=True)
        raise


def _open_to_write(path: Path, lock: WriteLock, migrations: Sequence[Migration]) -> sqlite3.Connection:
    connection = connect(path, "rw")
    try:
        if _migrations_had(connection, path, len(migrations)) < len(migrations) or _journal_mode(connection) != "wal":
            with lock.held():
                _use_wal(connection, path)
                if _migrations_had(connection, path, len(migrations)) < len(migrations):
                    back_up(connection, path)
                    migrate(connection, migrations)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_to_read(path: Path, migrations: Sequence[Migration]) -> sqlite3.Connection:
    connection = connect(path, "ro")
    try:
        if _needs_a_writable_folder(connection):
            connection.close()
            connection = _open_alone(path)
        if _migrations_had(connection, path, len(migrations)) < len(migrations):
            raise StorageFailed(
                f"{path} was written by an older version of flow", hint=f"flow db migrate --db {quote(str(path))}"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_a_foreign_wal(path: Path) -> None:
    """Raise StorageFailed if the -wal beside the file is another database's: SQLite takes any for the file's own.

    Before the first connection that may write, since that one would write the other's pages into the file when it is closed.
    """
    wal = beside(path, "-wal")
    if is_missing_or_empty(wal):
        return
    try:  # twice: while another process moves pages into the file, the file alone may be read askew
        foreign = _is_foreign(path) and _is_foreign(path)
    except sqlite3.Error:
        return  # what keeps it from being read is told where it is opened
    if foreign:
        raise StorageFailed(
            f"{wal} is damaged, or belongs to another database than {path}",
            hint=f"mv {quote(str(wal))} {quote(f'{wal}.foreign')}",
        )


def _is_foreign(path: Path) -> bool:
    """Whether the file with its -wal is no later state of the file alone: another id, or another event under one number."""
    with closing(connect(path, "immutable")) as alone, closing(connect(path, "ro")) as together:
        ours = _answer(alone, statements.DB_UUID)
        if not ours:
            return False
        if _answer(together, statements.DB_UUID) != ours:
            return True
        newest = [answer[0][0] for one in (alone, together) if (answer := _answer(one, statements.NEWEST_EVENT)) and answer[0][0]]
        if len(newest) < 2:
            return False
        before, after = (_answer(one, statements.EVENT_MARK, min(newest)) for one in (alone, together))
        return bool(before and after) and before != after


def _answer(connection: sqlite3.Connection, statement: str, *values: int) -> list[tuple[Any, ...]]:
    """Rows; none if no such thing is in these pages."""
    try:
        return connection.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return []
        raise


def connect(path: Path, access: Literal["rw", "ro", "immutable"]) -> sqlite3.Connection:
    """A connection of the standard driver with our settings. Never creates a file: the URI forbids it."""
    query = {"rw": "mode=rw", "ro": "mode=ro", "immutable": "mode=ro&immutable=1"}[access]
    connection = sqlite3.connect(
        f"file://{quote_from_bytes(bytes(path))}?{query}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        for setting in (*statements.SETTINGS, *(() if access == "rw" else (statements.QUERY_ONLY,))):
            connection.execute(setting).fetchall()
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    except BaseException:
        connection.close()
        raise
    return connection


def _needs_a_writable_folder(connection: sqlite3.Connection) -> bool:
    """Whether SQLite refuses even to read: a file in WAL mode has a helper file, which it may not make here."""
    try:
        connection.execute(statements.APPLICATION_ID).fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_READONLY_DIRECTORY, sqlite3.SQLITE_CANTOPEN):
            return True
        raise
    return False


def _open_alone(path: Path) -> sqlite3.Connection:
    """Read the file alone, as one that cannot change; right only if no -wal holds newer rows."""
    if not is_missing_or_empty(beside(path, "-wal")):
        raise StorageFailed(
            f"{path} cannot be read: its newest rows are in {path.name}-wal, which SQLite reads only in a folder it may write to",
            hint=f"cp {quote(str(path))}* . && flow runs --db {quote(path.name)}",
        )
    return connect(path, "immutable")


def _migrations_had(connection: sqlite3.Connection, path: Path, known: int) -> int:
    """How many migrations the file has had. Raises StorageFailed if it is not ours, or newer than this code."""
    application = connection.execute(statements.APPLICATION_ID).fetchall()[0][0]
    version: int = connection.execute(statements.USER_VERSION).fetchall()[0][0]
    if application != APPLICATION_ID:
        raise StorageFailed(f"{path} is a database of another program", hint="name the right file with --db PATH")
    if strange := connection.execute(statements.STRANGE).fetchall():
        raise StorageFailed(
            f"{path} has something that no flow has put there: {strange[0][0]}", hint=f"sqlite3 {quote(str(path))} .schema"
        )
    if version > known:
        raise StorageFailed(
            f"{path} has schema version {version}, this flow knows {known}", hint="pip install --upgrade flowstone"
        )
    return version


def _journal_mode(connection: sqlite3.Connection) -> str:
    return str(connection.execute(statements.JOURNAL_MODE).fetchall()[0][0])


def _use_wal(connection: sqlite3.Connection, path: Path) -> None:
    answer = connection.execute(statements.USE_WAL).fetchall()[0][0]
    if answer != "wal":
        raise StorageFailed(f"{path} cannot be put into WAL mode (it stays {answer})", hint="use a local file system")
