"""Migrating an old file: killed, failing or done by two at once, it is the old or the new one, with a copy of the old one."""

import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from crash.harness import CALLS, refusal
from crash.warm import REPOSITORY
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.testing.store_fixtures import CREATED, SetClock, new_run

MIGRATES = """
import sys
from pathlib import Path
from flowstone.errors import FlowError
from flowstone.storage.sqlite import schema
from flowstone.storage.sqlite.opening import open_database
from flowstone.storage.sqlite.paths import beside
from flowstone.storage.sqlite.write_lock import WriteLock

def second(database):
    database.execute("create table more (x text) strict")
    database.execute("alter table runs add column colour text")

path = Path(sys.argv[1])
import sqlite_utils
print("ready", flush=True)
sys.stdin.readline()
try:
    open_database(path, "write", WriteLock(beside(path, "-lock"), 30), (*schema.MIGRATIONS, second)).close()
except FlowError as error:
    print(error.kind)
"""
EVERY = {"KILL": 5, "EIO": 10, "ENOSPC": 10}


def old(path: Path) -> Path:
    store = SqliteStore(path, SetClock(), mode="create")
    store.create(new_run(), [CREATED])
    store.close()
    return path


def start(path: Path, *prefix: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*prefix, sys.executable, "-B", "-c", MIGRATES, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(REPOSITORY / "engine")},
    )


def whole(path: Path) -> int:
    """How many migrations the file has had: its tables are those, all and only."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        [(version,)] = connection.execute("pragma user_version").fetchall()
        tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'").fetchall()}
        columns = {row[1] for row in connection.execute("pragma table_info(runs)").fetchall()}
        assert ("more" in tables, "colour" in columns) == (version == 2, version == 2)
        assert connection.execute("select id from runs").fetchall() == [("a00000000000",)]
    return int(version)


@pytest.mark.parametrize("kind", EVERY)
def test_a_fault_at_a_write_of_a_migration_leaves_the_old_file_or_the_new_one(tmp_path: Path, kind: str) -> None:
    if why := refusal():
        pytest.skip(why)
    template, log = old(tmp_path / "template.db"), tmp_path / "log"
    counted = tmp_path / "counted.db"
    shutil.copy(template, counted)
    start(counted, "strace", "-f", "-o", str(log), "-e", f"trace={CALLS}").communicate("\n", timeout=120)
    assert whole(counted) == 2
    after = log.read_text().split('"ready\\n"')[1]  # what Python itself writes before is not meant
    calls = Counter(line.split("(")[0].split()[-1] for line in after.splitlines() if "(" in line and not line.endswith("+++"))
    earlier = Counter(
        line.split("(")[0].split()[-1] for line in log.read_text().split('"ready\\n"')[0].splitlines() if "(" in line
    )
    points = [(call, earlier[call] + n + 1) for call, count in sorted(calls.items()) if call != "openat" for n in range(count)]
    assert len(points) > 30
    for number, (call, n) in enumerate(points[:: EVERY[kind]]):
        path = tmp_path / f"{number}.db"
        shutil.copy(template, path)
        what = "signal=KILL" if kind == "KILL" else f"error={kind}"
        fault = ("-e", f"trace={call}", "-e", f"inject={call}:{what}:when={n}")
        process = start(path, "strace", "-f", "-o", "/dev/null", *fault)
        out, err = process.communicate("\n", timeout=120)
        assert kind == "KILL" or (process.returncode == 0 and out.split()[1:] in (["storage"], [])), (call, n, out, err)
        assert kind == "KILL" or "storage" in out or whole(path) == 2, (call, n)
        whole(path)
        start(path).communicate("\n", timeout=120)
        assert whole(path) == 2, (call, n)
        assert whole(path.with_name(f"{path.name}.bak-v1")) == 1, (call, n)


def test_of_many_who_migrate_at_once_one_does_and_all_go_on(tmp_path: Path) -> None:
    path = old(tmp_path / "flow.db")
    processes = [start(path) for _ in range(6)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (0, ""), err
    assert whole(path) == 2
    assert whole(path.with_name("flow.db.bak-v1")) == 1
