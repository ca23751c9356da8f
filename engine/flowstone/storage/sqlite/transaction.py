"""The one way into a transaction: BEGIN IMMEDIATE, then COMMIT, or ROLLBACK whatever went wrong."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from flowstone.storage.sqlite import statements


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A write transaction. The caller holds the write lock; sqlite3.Error passes through."""
    try:
        connection.execute(statements.BEGIN)
        yield
        connection.execute(statements.COMMIT)
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: sqlite3.Connection) -> None:
    """Undo what a failed transaction has done, if it is still open: a full disk has rolled back already."""
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute(statements.ROLLBACK)
