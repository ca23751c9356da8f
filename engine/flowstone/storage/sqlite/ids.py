"""Ids of runs, read past the store: the TAB key has no time for its imports and checks."""

import sqlite3
from contextlib import closing
from pathlib import Path

from flowstone.storage.sqlite.statements import IDS_WITH_PREFIX


def ids_with_prefix(path: Path, prefix: str, *, limit: int) -> list[str]:
    """Ids that start with `prefix`, newest first. Raises sqlite3.Error for a file that cannot be read; never makes one."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return [row[0] for row in connection.execute(IDS_WITH_PREFIX, {"prefix": prefix, "limit": limit}).fetchall()]
