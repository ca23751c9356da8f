"""Many runs: every list that a command asks for is read through an index, and a sweep of many waiting runs reads no journal."""

import sqlite3
import time
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from flowstone.journal.states import Status
from flowstone.ports import Filter
from flowstone.storage.sqlite import statements
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.testing.store_fixtures import SetClock

RUNS = 100_000


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A database of 100,000 runs, of which few are unfinished."""
    path = tmp_path / "flow.db"
    SqliteStore(path, SetClock(), mode="create").close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("pragma synchronous = off")
        connection.executemany(
            "insert into runs (id, workflow, status, version, user, created_at, updated_at, finished_at, epoch, mail, events) "
            "values (?, ?, ?, 'v', 'ana', ?, ?, ?, 1, 0, 3)",
            (
                (f"a{n:011}", f"w{n % 50}", "completed" if n % 1000 else "suspended", n, n, n if n % 1000 else None)
                for n in range(RUNS)
            ),
        )
        connection.execute("analyze")
    return path


def test_every_list_of_runs_is_read_through_an_index_in_its_order(many: Path) -> None:
    wishes = product((None, "w7"), (None, Status.COMPLETED, Status.SUSPENDED), (None, True, False))
    with closing(sqlite3.connect(many)) as connection:
        for workflow, status, unfinished in wishes:
            statement, values = statements.runs(Filter(workflow=workflow, status=status, unfinished=unfinished))
            values |= {"ownable": "running", "limit": 50, "offset": 0}
            plan = [row[3] for row in connection.execute(f"explain query plan {statement}", values).fetchall()]
            assert all("INDEX" in line for line in plan), (workflow, status, unfinished, plan)
            assert not any("TEMP" in line for line in plan), (workflow, status, unfinished, plan)


def test_the_newest_and_the_unfinished_of_100_000_runs_are_there_at_once(many: Path) -> None:
    store = SqliteStore(many, SetClock(), mode="read")
    begun = time.perf_counter()
    everything = [row for page in range(10) for row in store.runs(Filter(), limit=1000, offset=page * 1000)]
    reading = time.perf_counter() - begun
    begun = time.perf_counter()
    assert [row.id for row in store.runs(Filter(), limit=50)] == [row.id for row in everything[:50]]
    assert len(store.runs(Filter(unfinished=True))) == RUNS // 1000
    assert len(store.with_prefix("a0000000001", limit=5)) == 5
    assert time.perf_counter() - begun < max(reading, 0.05)  # 155 rows are not dearer than 10,000
    store.close()
