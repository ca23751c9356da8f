"""Making database files, by many at once, and migrating older ones."""

import stat
from pathlib import Path

import pytest

from flowstone.errors import FlowError, StorageFailed
from flowstone.ports import Filter
from flowstone.storage.sqlite import schema, statements
from flowstone.storage.sqlite.opening import Mode, open_database
from flowstone.storage.sqlite.paths import beside
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.storage.sqlite.write_lock import WriteLock
from flowstone.testing.store_fixtures import CREATED, SetClock, new_run

from .conftest import Start


def opened(path: Path | str, mode: Mode = "create") -> SqliteStore:
    return SqliteStore(path, SetClock(), mode=mode)


def made(path: Path) -> Path:
    store = opened(path)
    store.create(new_run(), [CREATED])
    store.close()
    return path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


CREATES = """
import sys
from flowstone.clock import SystemClock
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.testing.store_fixtures import CREATED, new_run
print("ready", flush=True)
sys.stdin.readline()
for attempt in range(int(sys.argv[2])):
    store = SqliteStore(f"{sys.argv[1]}/{attempt}/flow.db", SystemClock(), mode="create")
    store.create(new_run(sys.argv[3]), [CREATED])
    store.close()
"""


def test_two_processes_that_make_the_file_at_once_share_it(tmp_path: Path, start: Start) -> None:
    rounds = 20
    processes = [start(CREATES, tmp_path, rounds, run_id) for run_id in ("a00000000000", "b00000000000")]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    for attempt in range(rounds):
        store = opened(tmp_path / str(attempt) / "flow.db", "write")
        assert store.count(Filter()) == 2
        store.close()


def test_a_half_made_file_is_made_anew(path: Path) -> None:
    beside(path, "-unfinished").write_text("a process died here")
    beside(path, "-unfinished-wal").write_text("and left this")
    made(path)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["flow.db", "flow.db-lock"]


def second(database: object) -> None:
    database.execute("create table more (x text) strict")  # type: ignore[attr-defined]


def broken(database: object) -> None:
    second(database)
    raise FlowError("stopped half-way")


def test_an_older_file_is_migrated_after_a_copy_of_it(path: Path) -> None:
    made(path)
    lock = WriteLock(beside(path, "-lock"), 1)
    connection = open_database(path, "write", lock, (*schema.MIGRATIONS, second))
    assert connection.execute(statements.USER_VERSION).fetchall() == [(2,)]
    assert connection.execute("select count(*) from more").fetchall() == [(0,)]
    connection.close()
    copy = beside(path, ".bak-v1")
    assert mode_of(copy) == 0o600
    kept = opened(copy, "read")
    assert kept.run("a00000000000").events == 1
    kept.close()
    with pytest.raises(StorageFailed, match="has schema version 2, this flow knows 1"):
        opened(path, "write")
    lock.close()


def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    made(path)
    lock = WriteLock(beside(path, "-lock"), 1)
    with pytest.raises(FlowError, match="half-way"):
        open_database(path, "write", lock, (*schema.MIGRATIONS, broken))
    lock.close()
    store = opened(path, "write")
    assert store.count(Filter()) == 1
    store.close()


def test_reading_an_older_file_names_the_migration(path: Path) -> None:
    made(path)
    with pytest.raises(StorageFailed, match="older version") as refusal:
        open_database(path, "read", WriteLock(beside(path, "-lock"), 1), (*schema.MIGRATIONS, second))
    assert "flow db migrate" in str(refusal.value.hint)
