"""Disks and files that are not as they should be, met by whole commands: said in a sentence, and what was recorded stays."""

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crash import judge
from crash.warm import Warm
from flowstone.errors import StorageFailed
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.testing.store_fixtures import CREATED, SetClock, new_run

WORKFLOWS = """
import os, threading
from pathlib import Path
from flowstone import Flow, workflow

def note(tag: str) -> str:
    with open(os.path.expanduser("~/effects"), "a") as file:
        file.write(tag + "\\n")
    return tag

def large(tag: str) -> str:
    return note(tag) * 300_000

def hold(tag: str) -> str:
    note(tag)
    while not Path.home().joinpath("go").exists():
        threading.Event().wait(0.01)
    return tag

@workflow
async def small(flow: Flow) -> str:
    return await flow.do("a", note, "a")

@workflow
async def grows(flow: Flow) -> int:
    return sum([len(await flow.do(f"s{number}", large, "x")) for number in range(12)])

@workflow
async def holds(flow: Flow) -> str:
    await flow.do("a", note, "a")
    await flow.do("held", hold, "held")
    return await flow.do("b", note, "b")
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    warm = Warm(tmp_path_factory.mktemp("outputs"))
    yield warm
    warm.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "work.py").write_text(WORKFLOWS)
    return root


def effects(root: Path) -> list[str]:
    file = root / "effects"
    return file.read_text().split() if file.exists() else []


def until(warm: Warm, root: Path, tag: str) -> None:
    """Wait until a step has had its effect."""
    deadline = 3000
    while tag not in effects(root):
        deadline -= 1
        assert deadline, "nothing happened"
        signal.sigtimedwait([], 0.01)


# the disk is full (rows 58 to 62)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk; RLIMIT_FSIZE stands for it in tests/store/test_sqlite_failures.py")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_on_a_full_disk_a_run_stops_with_its_results_kept_and_goes_on_when_there_is_room(
    warm: Warm, root: Path, small_disk: Path
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_500_000))
    db = str(small_disk / "flow.db")
    full = warm.flow(root, "--db", db, "run", "grows")
    assert (full.code, full.out) == (74, "")
    assert "the disk is full" in full.err
    assert "the result that could not be recorded" in full.err
    had = len(effects(root))
    assert 0 < had < 12
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        kept = connection.execute("select count(*) from journal where kind = 'step.succeeded'").fetchall()[0][0]
    assert had - 1 <= kept <= had
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert warm.flow(root, "--db", db, "recover").code == 0
    shown = warm.flow(root, "--db", db, "output", "@last")
    assert (shown.code, shown.out) == (0, "3600000\n")
    assert len(effects(root)) == 12 + (had - kept)


def test_on_a_disk_that_is_full_from_the_start_no_run_is_made(warm: Warm, root: Path, small_disk: Path) -> None:
    filled = small_disk / "ballast"
    with filled.open("wb") as file:
        try:
            while True:
                file.write(bytes(65536))
                file.flush()
        except OSError:
            pass
    ended = warm.flow(root, "--db", str(small_disk / "flow.db"), "run", "small")
    assert (ended.code, ended.out, effects(root)) == (74, "", [])
    assert {path.name for path in small_disk.iterdir()} <= {"ballast", "flow.db-lock"}
    filled.unlink()
    assert warm.flow(root, "--db", str(small_disk / "flow.db"), "run", "small").code == 0


# another one writes (row 57)


def test_a_command_that_waits_for_another_writer_says_so_and_goes_on(warm: Warm, root: Path) -> None:
    warm.flow(root, "run", "small")
    with judge.database(root).with_name("flow.db-lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = warm.start(root, "run", "small")
        deadline = time.monotonic() + 9
        while "is locked by process" not in command.told():
            assert time.monotonic() < deadline
            signal.sigtimedwait([], 0.02)
        assert "waiting for it since 2 s" in command.told()
    assert command.wait()[:2] == (0, '"a"\n')


# the file is gone, or another one (row 67)


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["for people", "as JSON"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_is_removed_or_replaced_stops_the_run_before_its_next_write(
    warm: Warm, root: Path, how: str, json: tuple[str, ...]
) -> None:
    warm.flow(root, "run", "small")
    (root / "effects").unlink()
    command = warm.start(root, "run", "holds", *json)
    until(warm, root, "held")
    database = judge.database(root)
    copy = root / "copy.db"
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.execute("vacuum into ?", (str(copy),)).fetchall()
    database.unlink()
    if how == "replaced":
        shutil.move(copy, database)
    before = database.read_bytes() if how == "replaced" else b""
    (root / "go").touch()
    ended = command.wait()
    assert ended.code == 74, ended.err
    assert "removed or replaced" in ended.err
    assert 'the result that could not be recorded:\n  "held"\n' in ended.err
    assert effects(root) == ["a", "held"]
    assert how == "removed" or database.read_bytes() == before


# another database's -wal (row 68)


def made(path: Path, run: str) -> SqliteStore:
    store = SqliteStore(path, SetClock(), mode="create")
    store.create(new_run(run), [CREATED])
    return store


@pytest.mark.parametrize("mode", ["write", "read"])
@pytest.mark.parametrize("whose", ["flow's", "another program's"])
def test_the_wal_of_another_database_is_refused_and_the_file_left_as_it_is(tmp_path: Path, whose: str, mode: str) -> None:
    ours, theirs = tmp_path / "ours" / "flow.db", tmp_path / "theirs" / "flow.db"
    made(ours, "a00000000000").close()
    if whose == "flow's":
        other = made(theirs, "b00000000000")
    else:
        theirs.parent.mkdir()
        other = sqlite3.connect(theirs)  # type: ignore[assignment]
        other.execute("pragma journal_mode = wal")  # type: ignore[attr-defined]
        other.execute("create table t (x)")  # type: ignore[attr-defined]
    wal = ours.with_name("flow.db-wal")
    shutil.copy(theirs.with_name("flow.db-wal"), wal)
    other.close()
    before = ours.read_bytes()
    for _ in range(2):
        with pytest.raises(StorageFailed, match="belongs to another database"):
            SqliteStore(ours, SetClock(), mode=mode)  # type: ignore[arg-type]
    assert ours.read_bytes() == before
    wal.rename(wal.with_name("aside"))
    wal.with_name("flow.db-shm").unlink(missing_ok=True)
    store = SqliteStore(ours, SetClock(), mode=mode)  # type: ignore[arg-type]
    assert store.run("a00000000000").events == 1
    store.close()


def test_a_wal_that_a_killed_process_left_is_its_own(tmp_path: Path) -> None:
    path, left = tmp_path / "flow.db", tmp_path / "left" / "flow.db"
    store = made(path, "a00000000000")
    left.parent.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{left}{ending}")
    store.close()
    again = SqliteStore(left, SetClock())
    assert again.run("a00000000000").events == 1
    again.close()


# what lies in the file is damaged (rows 65, 66)


def test_a_damaged_body_stops_its_run_and_no_other(warm: Warm, root: Path) -> None:
    for _ in range(2):
        warm.flow(root, "run", "small")
    (first, events), (second, _) = judge.read(root)
    body = next(event for event in events if event.kind == "step.succeeded").text.encode()
    database = judge.database(root)
    content = database.read_bytes()
    crc = zlib.crc32(body)
    assert content.count(body) >= 2
    at = content.index(body)
    with database.open("r+b") as file:  # one bit, as a disk would
        file.seek(at + body.index(b'"a"') + 1)
        file.write(b"c")
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("pragma quick_check").fetchall() == [("ok",)]
        [(damaged,)] = connection.execute(
            "select run_id from journal where crc = ? and body != ?", (crc, body.decode())
        ).fetchall()
    [whole] = {first.id, second.id} - {damaged}
    refused = warm.flow(root, "status", damaged)
    assert (refused.code, refused.out) == (74, "")
    assert "checksum" in refused.err
    assert warm.flow(root, "status", whole).code == 0
    assert warm.flow(root, "runs").code == 0


@pytest.mark.parametrize("command", [("run", "small"), ("runs",), ("recover",), ("status", "@last")])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"hello, this is a text file\n" * 400, "is not a database"), (b"SQLite format 3\0" + b"\xff" * 5000, "flow.db")],
)
def test_a_file_that_is_no_database_is_named_and_never_written_to(
    warm: Warm, root: Path, command: tuple[str, ...], content: bytes, sentence: str
) -> None:
    path = root / "flow.db"
    path.write_bytes(content)
    ended = warm.flow(root, "--db", str(path), *command)
    assert (ended.code, ended.out) == (74, "")
    assert sentence in ended.err
    assert path.read_bytes() == content
    assert effects(root) == []


# where it lies (rows 63, 64, 69)


@pytest.mark.parametrize("name", ["a b", "☃", "a?mode=memory", "a#b", "100%", "it's;", "new\nline", "tab\there"])
def test_a_project_may_lie_anywhere(warm: Warm, tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "work.py").write_text(WORKFLOWS)
    assert warm.flow(root, "run", "small")[:2] == (0, '"a"\n')
    assert warm.flow(root, "--db", str(root / name), "run", "small").code == 0
    assert (root / name).stat().st_size > 0
    shown = warm.flow(root, "runs")
    assert shown.code == 0
    assert shown.out.count("\n") == 1


def test_each_thing_that_is_no_usable_path_has_its_own_sentence(warm: Warm, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "file").write_text("x")
    said = {}
    for path in ("folder", "file/flow.db", "x" * 300):
        ended = warm.flow(root, "--db", path, "run", "small")
        assert (ended.code, ended.out) == (74, ""), (path, ended)
        said[path] = ended.err
    assert len(set(said.values())) == len(said)
    empty = warm.flow(root, "--db", "", "run", "small")
    assert (empty.code, empty.out) == (78, "")
    assert effects(root) == []
