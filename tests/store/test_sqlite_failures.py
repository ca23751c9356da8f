"""Disks that fail, and what a durable append costs."""

import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from flowstone.errors import Damaged, StorageFailed
from flowstone.ports import Change
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.testing.store_fixtures import CREATED, STARTED, SUCCEEDED, SetClock, new_run

from .conftest import Answer

APPENDS = """
import sys
from flowstone.clock import SystemClock
from flowstone.errors import StorageFailed
from flowstone.journal.events import Draft, Kind
from flowstone.ports import Change
from flowstone.storage.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1], SystemClock())
acknowledged = 0
try:
    for _ in range(200):
        store.append("a00000000000", 1, [Draft(Kind.STATE_SET, text='{"x":"' + "x" * 5000 + '"}')], Change())
        acknowledged += 1
except StorageFailed as error:
    print(error.message)
    for ask in (lambda: store.append("a00000000000", 1, [], Change()), lambda: store.run("a00000000000")):
        try:
            ask()
        except StorageFailed as again:
            print(again.message == error.message)
print(acknowledged)
sys.stdout.flush()
store.close()
"""


@pytest.fixture
def made(path: Path) -> Path:
    store = SqliteStore(path, SetClock(), mode="create")
    store.create(new_run(), [CREATED])
    store.close()
    return path


def strace(*arguments: str) -> tuple[str, ...]:
    program = shutil.which("strace")
    if program is None or subprocess.run([program, "-o", "/dev/null", "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not there, or may not trace")
    return (program, "-f", *arguments)


def test_a_durable_append_syncs_once_and_a_start_mark_never(made: Path, tmp_path: Path, answer: Answer) -> None:
    program = """
import sys
from flowstone.clock import SystemClock
from flowstone.ports import Change
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.journal.events import Draft, Kind
store = SqliteStore(sys.argv[1], SystemClock())
for durable in (True, False, True, False, True):
    print("durable" if durable else "mark", flush=True)
    store.append("a00000000000", 1, [Draft(Kind.STATE_SET)], Change(durable=durable))
    print("end", flush=True)
"""
    trace = tmp_path / "trace"
    answer(program, made, prefix=strace("-o", str(trace), "-e", "trace=write,fdatasync,fsync"))
    counts: list[tuple[str, int]] = []
    for line in trace.read_text().splitlines():
        if 'write(1, "durable' in line:
            counts.append(("durable", 0))
        elif 'write(1, "mark' in line:
            counts.append(("mark", 0))
        elif 'write(1, "end' in line:
            counts.append(("outside", 0))
        elif "sync(" in line and counts:
            counts[-1] = (counts[-1][0], counts[-1][1] + 1)
    inside = [count for count in counts[2:] if count[0] != "outside"]  # the first also makes the -wal, and syncs its folder
    assert inside == [("mark", 0), ("durable", 1), ("mark", 0), ("durable", 1)]


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        ("pwrite64", "ENOSPC", "the disk is full"),
        ("pwrite64", "EIO", r"failed \(SQLITE_IOERR_WRITE\)"),
        ("fdatasync", "EIO", r"failed \(SQLITE_IOERR_FSYNC\)"),
    ],
)
def test_a_failing_disk_ends_the_store_and_keeps_what_was_acknowledged(
    made: Path, answer: Answer, call: str, error: str, sentence: str
) -> None:
    fault = ("-P", f"{made}-wal", "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when=9+")
    out = answer(APPENDS, made, prefix=strace("-o", "/dev/null", *fault)).splitlines()
    assert sentence.replace("\\", "") in out[0]
    assert out[1:3] == ["True", "True"]
    store = SqliteStore(made, SetClock())
    events = store.events("a00000000000")
    assert len(events) in (1 + int(out[3]), 2 + int(out[3]))  # one more if its sync failed: written, not acknowledged
    assert store.append("a00000000000", 1, [STARTED], Change()) is not None
    store.close()


LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))\n"
"""No file may grow beyond so many bytes."""


def test_a_file_that_may_not_grow_ends_the_store(made: Path, answer: Answer) -> None:
    out = answer(LIMITED.format(300_000) + APPENDS, made).splitlines()
    assert out[0].endswith("failed (SQLITE_IOERR_WRITE)")
    store = SqliteStore(made, SetClock())
    assert len(store.events("a00000000000")) == 1 + int(out[3])
    store.close()


def test_a_full_disk_while_the_file_is_made_leaves_no_half_of_it(path: Path, answer: Answer) -> None:
    program = """
import sys
from flowstone.clock import SystemClock
from flowstone.errors import StorageFailed
from flowstone.storage.sqlite.store import SqliteStore
try:
    SqliteStore(sys.argv[1], SystemClock(), mode="create")
except StorageFailed as error:
    print(error.message)
"""
    assert "failed (SQLITE_IOERR" in answer(LIMITED.format(40_000) + program, path)
    assert [entry.name for entry in path.parent.iterdir()] == ["flow.db-lock"]


def test_a_body_that_was_changed_outside_is_noticed(made: Path) -> None:
    store = SqliteStore(made, SetClock())
    store.append("a00000000000", 1, [STARTED, SUCCEEDED], Change())
    connection = sqlite3.connect(made)
    connection.execute("update journal set body = replace(body, '1', '2') where n = 2")
    connection.commit()
    connection.close()
    with pytest.raises(Damaged, match="event 2 of run a00000000000 is damaged"):
        store.events("a00000000000")
    assert len(store.events("a00000000000", after=2)) == 0
    assert store.run("a00000000000").events == 3
    store.close()


def test_a_status_that_nobody_knows_is_a_sentence(made: Path) -> None:
    connection = sqlite3.connect(made)
    connection.execute("update runs set status = 'weird'")
    connection.commit()
    connection.close()
    store = SqliteStore(made, SetClock())
    with pytest.raises(Damaged, match="'weird' is no status"):
        store.run("a00000000000")
    store.close()


def test_a_note_or_output_that_is_nonsense_is_named_and_the_other_notes_are_listed(made: Path) -> None:
    connection = sqlite3.connect(made)
    note = "insert into audit (run_id, n, at, action, by) values ('a00000000000', 0, ?, 'run', ?)"
    connection.executemany(note, [(5, "{"), (2**62, "{}"), (5, '{"user":"ana"}')])
    piece = "insert into log (run_id, step, attempt, at, stream, text) values ('a00000000000', 's', 1, ?, 'out', 'x')"
    connection.execute(piece, (2**62,))
    connection.commit()
    connection.close()
    store = SqliteStore(made, SetClock())
    assert [entry.by for entry in store.audit(None)] == ['{"user":"ana"}']
    assert "in the audit of run a00000000000 is damaged" in store.left_out["a00000000000"].message
    with pytest.raises(Damaged, match="of run a00000000000 is damaged: its instant is none"):
        store.logs("a00000000000")
    store.close()


def test_a_closed_store_says_so(made: Path) -> None:
    store = SqliteStore(made, SetClock())
    store.close()
    with pytest.raises(StorageFailed, match="was closed"):
        store.run("a00000000000")
    with pytest.raises(StorageFailed, match="was closed"):
        store.create(new_run("b00000000000"), [CREATED])
