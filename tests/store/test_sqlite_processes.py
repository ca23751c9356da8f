"""Many processes, threads and signals on one database file."""

import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowstone.errors import StorageFailed, TryAgain
from flowstone.journal.events import Draft, Event, Kind
from flowstone.ports import Change, Filter, RunRow
from flowstone.storage.sqlite.paths import beside
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.storage.sqlite.write_lock import WriteLock
from flowstone.testing.store_fixtures import CREATED, STARTED, SetClock, new_run

from .conftest import Start


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, SetClock(), mode="create", timeout=0.2)
    yield store
    store.close()


PREAMBLE = """
import os, sys
from flowstone.clock import SystemClock
from flowstone.errors import *
from flowstone.journal.events import Draft, Kind
from flowstone.ports import Change, Filter
from flowstone.storage.sqlite.paths import beside
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.storage.sqlite.write_lock import WriteLock
from pathlib import Path
path = Path(sys.argv[1])
"""

POSTS_AND_CLAIMS = (
    PREAMBLE
    + """
store = SqliteStore(path, SystemClock())
print("ready", flush=True)
sys.stdin.readline()
for i in range(40):
    store.post("a00000000000", None, lambda row, events: [Draft(Kind.STEP_REPORTED, sys.argv[2], i)])
for run in store.runs(Filter(workflow="shop")):
    try:
        claimed = store.claim(run, sys.argv[2], [Draft(Kind.RUN_CLAIMED)])
    except TryAgain:
        continue
    print(run.id, claimed.epoch)
    try:
        store.append(run.id, claimed.epoch, [Draft(Kind.STATE_SET, sys.argv[2])], Change(durable=False))
    except LostOwnership:
        pass
"""
)

CREATES_BY_KEY = (
    PREAMBLE
    + """
from flowstone.testing.store_fixtures import CREATED, new_run
store = SqliteStore(path, SystemClock())
print("ready", flush=True)
sys.stdin.readline()
print(store.create(new_run(sys.argv[2], key="same"), [CREATED]).id)
"""
)


def all_at_once(start: Start, program: str, path: Path, names: list[str]) -> "list[subprocess.Popen[str]]":
    """Start a process per name, and let them go when all are ready."""
    processes = [start(program, path, name) for name in names]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def output(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def test_eight_processes_lose_nothing_and_claim_no_run_twice_under_one_epoch(path: Path, start: Start) -> None:
    store = SqliteStore(path, SetClock(), mode="create")
    store.create(new_run(workflow="ship"), [CREATED])
    unowned = [f"b{i:011}" for i in range(30)]
    for run_id in unowned:
        store.create(new_run(run_id, owner=None), [CREATED])
    names = [f"p{i}" for i in range(8)]
    processes = all_at_once(start, POSTS_AND_CLAIMS, path, names)
    reader = SqliteStore(path, SetClock(), mode="read")
    while any(process.poll() is None for process in processes):
        assert len(reader.runs(Filter())) == 31
    claims = Counter(line for process in processes for line in output(process).splitlines())
    events = store.events("a00000000000")
    assert [event.n for event in events] == list(range(321))
    assert Counter(event.step for event in events[1:]) == dict.fromkeys(names, 40)
    assert store.run("a00000000000").mail == 320
    expected = {f"{run_id} {epoch}": 1 for run_id in unowned for epoch in range(1, store.run(run_id).epoch + 1)}
    assert claims == expected
    assert len(expected) >= len(unowned)
    reader.close()
    store.close()


def test_of_many_who_create_by_one_key_one_creates_and_all_get_its_run(path: Path, start: Start) -> None:
    store = SqliteStore(path, SetClock(), mode="create")
    processes = all_at_once(start, CREATES_BY_KEY, path, [f"a{i:011}" for i in range(20)])
    got = {output(process).strip() for process in processes}
    assert got == {row.id for row in store.runs(Filter())}
    assert len(got) == 1
    store.close()


HOLDS = (
    PREAMBLE
    + """
with WriteLock(beside(path, "-lock"), 1).held():
    print("held", flush=True)
    sys.stdin.readline()
"""
)


def holding(start: Start, path: Path) -> "subprocess.Popen[str]":
    process = start(HOLDS, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_who_waits_too_long_is_told_who_holds_the_lock(store: SqliteStore, path: Path, start: Start) -> None:
    process = holding(start, path)
    with pytest.raises(TryAgain, match=f"locked by process {process.pid}") as refusal:
        store.create(new_run(), [CREATED])
    assert str(process.pid) in str(refusal.value.hint)
    assert store.count(Filter()) == 0
    process.communicate("go on\n")
    store.create(new_run(), [CREATED])
    store.close()


def test_who_waits_for_a_while_is_told_for_whom(path: Path, start: Start) -> None:
    told: list[str] = []
    patient = SqliteStore(path, SetClock(), mode="create", timeout=60, notice=told.append)
    process = holding(start, path)
    writing = threading.Thread(target=lambda: patient.create(new_run(), [CREATED]))
    writing.start()
    until = time.monotonic() + 30
    while not told and time.monotonic() < until:
        writing.join(0.05)
    process.communicate("go on\n")
    writing.join(30)
    assert told == [f"the database is locked by process {process.pid}: waiting for it since 2 s"]
    assert patient.count(Filter()) == 1
    patient.close()


def test_a_killed_holder_lets_go(path: Path, start: Start) -> None:
    patient = SqliteStore(path, SetClock(), mode="create", timeout=60)
    process = holding(start, path)
    writing = threading.Thread(target=lambda: patient.create(new_run(), [CREATED]))
    writing.start()
    process.kill()
    writing.join(30)
    assert patient.count(Filter()) == 1
    patient.close()


def test_other_threads_read_while_one_waits_to_write(path: Path, start: Start) -> None:
    patient = SqliteStore(path, SetClock(), mode="create", timeout=60)
    process = holding(start, path)
    writing = threading.Thread(target=lambda: patient.create(new_run(), [CREATED]))
    writing.start()
    assert patient.count(Filter()) == 0
    process.communicate("go on\n")
    writing.join(30)
    assert patient.count(Filter()) == 1
    patient.close()


WAITS = (
    PREAMBLE
    + """
store = SqliteStore(path, SystemClock(), timeout=600)
try:
    print("waiting", flush=True)
    store.post("a00000000000", None, lambda row, events: [Draft(Kind.STEP_REPORTED)])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""
)


def test_ctrl_c_ends_the_waiting_for_the_lock(store: SqliteStore, path: Path, start: Start) -> None:
    store.create(new_run(), [CREATED])
    holding(start, path)
    process = start(WAITS, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert out == "interrupted\n"


def test_a_program_that_does_not_know_our_lock_cannot_write_between_our_reading_and_writing(
    store: SqliteStore, path: Path
) -> None:
    store.create(new_run(), [CREATED])
    foreign = sqlite3.connect(path, timeout=0)

    def decide(_row: RunRow, _events: list[Event]) -> list[Draft]:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            foreign.execute("update runs set mail = 7")
        return [Draft(Kind.STEP_REPORTED)]

    assert store.post("a00000000000", None, decide)[0].mail == 1
    foreign.close()


def test_one_store_is_shared_by_threads(store: SqliteStore) -> None:
    store.create(new_run(), [CREATED])
    failures: list[BaseException] = []

    def write(step: str) -> None:
        try:
            for _ in range(50):
                store.append("a00000000000", 1, [Draft(Kind.STATE_SET, step)], Change(durable=False))
                store.runs(Filter())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [event.n for event in store.events("a00000000000")] == list(range(201))
    store.close()


def test_a_lock_file_that_was_removed_is_made_anew(store: SqliteStore, path: Path) -> None:
    store.create(new_run(), [CREATED])
    beside(path, "-lock").unlink()
    store.create(new_run("b00000000000"), [CREATED])
    with WriteLock(beside(path, "-lock"), 1).held(), pytest.raises(TryAgain):
        store.create(new_run("c00000000000"), [CREATED])
    store.close()


def test_after_the_file_was_removed_the_store_is_dead(store: SqliteStore, path: Path) -> None:
    store.create(new_run(), [CREATED])
    path.unlink()
    with pytest.raises(StorageFailed, match="was removed or replaced"):
        store.append("a00000000000", 1, [STARTED], Change())
    with pytest.raises(StorageFailed, match="was removed or replaced"):
        store.run("a00000000000")
    store.close()
    assert not path.exists()


REPLACED = (
    PREAMBLE
    + """
store = SqliteStore(path, SystemClock())
os.rename(f"{path}.new", path)
new = SqliteStore(path, SystemClock())
new.post("a00000000000", None, lambda row, events: [Draft(Kind.STEP_REPORTED)])
try:
    store.post("a00000000000", None, lambda row, events: [Draft(Kind.STEP_REPORTED)])
except StorageFailed as error:
    print(error.message)
store.close()
del store
print(os.path.getsize(f"{path}-wal") > 0, flush=True)
os.kill(os.getpid(), 9)
"""
)


def test_a_store_whose_file_was_replaced_leaves_the_new_file_alone(store: SqliteStore, path: Path, start: Start) -> None:
    store.create(new_run(), [CREATED])
    store.close()
    shutil.copy(path, beside(path, ".new"))
    out, _ = start(REPLACED, path).communicate(timeout=30)
    assert "was removed or replaced" in out.splitlines()[0]
    assert out.splitlines()[1] == "True"
    again = SqliteStore(path, SetClock())
    assert again.run("a00000000000").mail == 1
    again.close()


ACKNOWLEDGES = (
    PREAMBLE
    + """
store = SqliteStore(path, SystemClock())
while True:
    store.append("a00000000000", 1, [Draft(Kind.STEP_STARTED)], Change(durable=False))
    appended = store.append("a00000000000", 1, [Draft(Kind.STATE_SET)], Change())
    print(appended[0].n, flush=True)
"""
)


def test_what_was_acknowledged_survives_kill_9(store: SqliteStore, path: Path, start: Start) -> None:
    store.create(new_run(), [CREATED])
    for round_ in range(8):
        process = start(ACKNOWLEDGES, path)
        assert process.stdout is not None
        for _ in range(3 + round_):
            process.stdout.readline()
        process.kill()
        out, _ = process.communicate()
        last = [int(line) for line in out.splitlines(keepends=True) if line.endswith("\n")]
        events = store.events("a00000000000")
        assert [event.n for event in events] == list(range(len(events)))
        assert store.run("a00000000000").events == len(events)
        assert not last or events[-1].n >= last[-1]
    store.close()


def test_waiting_for_the_lock_ends_after_the_timeout(path: Path, start: Start) -> None:
    holding(start, path)
    before = time.monotonic()
    with pytest.raises(TryAgain), WriteLock(beside(path, "-lock"), 0.3).held():
        pass
    assert 0.3 <= time.monotonic() - before < 10
