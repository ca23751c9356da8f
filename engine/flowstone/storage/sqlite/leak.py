"""Keeps a connection open until the process ends, where closing it would damage another file."""

import sqlite3


def never_close(connection: sqlite3.Connection) -> None:
    """Keep `connection` from ever being closed, also by the end of the interpreter.

    Closing the last connection of a database deletes `<path>-wal` by name; if another file has been put at the path, that is
    the other's. Python cannot tell SQLite not to before 3.12.
    """
    import ctypes  # hardly ever needed

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
