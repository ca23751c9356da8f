"""One open database: its connection, shared by threads one at a time; its transactions; and its death."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from flowstone.errors import FlowError, NotAllowed, StorageFailed
from flowstone.storage.sqlite import forks, statements
from flowstone.storage.sqlite.failures import ends_the_store, in_words
from flowstone.storage.sqlite.opening import Mode, open_database
from flowstone.storage.sqlite.paths import beside, identity
from flowstone.storage.sqlite.rows import Row
from flowstone.storage.sqlite.transaction import roll_back
from flowstone.storage.sqlite.write_lock import Notice, WriteLock

CLOSING_SECONDS = 1.0
"""How long closing waits for the write lock: who holds it longer has the database open, so nothing is left to tidy up."""

T = TypeVar("T")
Values = Mapping[str, Any] | Sequence[Any]

_ABANDONED: list[sqlite3.Connection] = []
"""Connections whose descriptors were closed by somebody else; kept, since Python closes what nobody keeps."""


class Database:
    """Threads may share it; a forked child may not. Dead after a failure of the disk: then everything raises StorageFailed."""

    def __init__(self, path: Path, mode: Mode, timeout: float, notice: Notice | None = None) -> None:
        self._path = path
        self._mode = mode
        self._lock = WriteLock(beside(path, "-lock"), timeout, notice)
        self._using = threading.RLock()
        self._dead: FlowError | None = None
        self._durable: bool | None = None
        self._closed = False
        try:
            self._connection = open_database(path, mode, self._lock)
        except BaseException:
            self._lock.close()
            raise
        self._file = identity(path)
        self._seen = self._data_version()
        forks.watch(self)

    @contextmanager
    def tx(self, *, durable: bool, patient: bool = True) -> Iterator[None]:
        """A write transaction, synced to the disk at its end if `durable`; other threads can read while it waits for its turn.

        Unless `patient`, raises Locked at once when another one writes.
        """
        self._refuse_the_dead()
        if self._mode == "read":
            raise NotAllowed(f"{self._path} was opened only to be read")
        turn = self._lock.take(None if patient else 0)
        try:
            with self._using:
                self._refuse_the_dead()
                self._refuse_another_file()
                connection = self._connection
                try:
                    if durable != self._durable:
                        connection.execute(statements.SYNC_RESULT if durable else statements.SYNC_MARK)
                        self._durable = durable
                    connection.execute(statements.BEGIN)
                    yield
                    connection.execute(statements.COMMIT)
                except BaseException as error:
                    roll_back(connection)
                    if isinstance(error, sqlite3.Error):
                        raise self._failed(error) from error
                    raise
        finally:
            self._lock.give_back(turn)

    def rows(self, statement: str, values: Values = ()) -> list[Row]:
        """All rows of a statement at once: an unfinished one would keep the WAL from being tidied up, or a write from landing."""
        with self._using:
            self._refuse_the_dead()
            try:
                return self._connection.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise self._failed(error) from error

    def records(self, make: Callable[[Row], T], statement: str, values: Values = ()) -> list[T]:
        """The same with a record made of each row as it comes: never all rows beside all records, which may be large."""
        with self._using:
            self._refuse_the_dead()
            try:
                with closing(self._connection.execute(statement, values)) as cursor:
                    return [make(row) for row in cursor]
            except sqlite3.Error as error:
                raise self._failed(error) from error

    def alone(self, statement: str, values: Values = ()) -> None:
        """Run a statement that may not stand in a transaction, under the write lock."""
        self._refuse_the_dead()
        with self._lock.held(), self._using:
            self._refuse_another_file()
            self.rows(statement, values)

    def for_each(self, statement: str, rows: Sequence[Row]) -> None:
        """Run a statement once per row."""
        self._connection.executemany(statement, rows)

    def changed(self) -> bool:
        """Whether another connection has committed since the last call (or since the opening)."""
        with self._using:
            before, self._seen = self._seen, self._data_version()
            return before != self._seen

    def close(self) -> None:
        """Close the file. Under the write lock, since the last one to close moves the WAL into the file."""
        if self._closed:
            return
        self._closed = True
        dead, self._dead = self._dead, StorageFailed(f"the store of {self._path} was closed")
        if isinstance(dead, _Forked):
            return
        if self._lock.lost:
            _ABANDONED.append(self._connection)  # what closing it would tidy up would go into other files
            return
        try:
            with nullcontext() if self._mode == "read" else self._lock.held(CLOSING_SECONDS), self._using:
                self._connection.close()
        except FlowError:
            with self._using:
                self._connection.close()
        self._lock.close()

    def forked(self) -> None:
        """In a child: the connection is the parent's; what a copy of it writes is lost."""
        self._dead = _Forked(
            f"the store of {self._path} was opened before this process was forked",
            hint="open it anew in the child",
        )
        self._using = threading.RLock()  # the copy may be held by a thread that is not here

    def _data_version(self) -> int:
        version: int = self.rows(statements.DATA_VERSION)[0][0]
        return version

    def _refuse_the_dead(self) -> None:
        if self._dead is not None:
            raise StorageFailed(self._dead.message, hint=self._dead.hint)

    def _refuse_another_file(self) -> None:
        if identity(self._path) != self._file:
            self._dead = StorageFailed(
                f"{self._path} was removed or replaced while it was open; nothing more is written",
                hint=f"ls -l {quote(str(self._path))}",
            )
            raise self._dead

    def _failed(self, error: sqlite3.Error) -> FlowError:
        failure = in_words(error, self._path)
        if ends_the_store(error) and self._dead is None:
            self._dead = failure
        return failure


class _Forked(StorageFailed):
    """Dead because this process is a child."""
