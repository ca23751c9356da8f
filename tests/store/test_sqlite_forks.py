"""Stores and locks in forked children."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowstone.storage.sqlite.store import SqliteStore
from flowstone.testing.store_fixtures import CREATED, SetClock, new_run

from .conftest import Answer, Start


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


def output(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


FORKS = (
    PREAMBLE
    + """
store = SqliteStore(path, SystemClock())
child = os.fork()
if child == 0:
    for ask in (lambda: store.run("a00000000000"), lambda: store.post("a00000000000", None, lambda row, events: [])):
        try:
            ask()
        except StorageFailed as error:
            print(error.message, flush=True)
    store.close()
    own = SqliteStore(path, SystemClock())
    own.post("a00000000000", None, lambda row, events: [Draft(Kind.STEP_REPORTED)])
    own.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
store.post("a00000000000", None, lambda row, events: [Draft(Kind.STEP_REPORTED)])
print(store.run("a00000000000").mail)
store.close()
"""
)


def test_a_forked_child_cannot_use_its_parents_store(store: SqliteStore, path: Path, answer: Answer) -> None:
    store.create(new_run(), [CREATED])
    lines = answer(FORKS, path).splitlines()
    assert [("before this process was forked" in line) for line in lines[:2]] == [True, True]
    assert lines[2:] == ["2"]
    store.close()


FORKS_WHILE_WRITING = (
    PREAMBLE
    + """
import threading
store = SqliteStore(path, SystemClock())
writing, forked = threading.Event(), threading.Event()
def decide(row, events):
    writing.set()
    forked.wait()
    return []
thread = threading.Thread(target=store.post, args=("a00000000000", None, decide))
thread.start()
writing.wait()
child = os.fork()
if child == 0:
    try:
        store.run("a00000000000")
    except StorageFailed:
        os._exit(7)
forked.set()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
store.close()
"""
)


def test_a_child_forked_while_a_thread_writes_is_refused_at_once(store: SqliteStore, path: Path, start: Start) -> None:
    store.create(new_run(), [CREATED])
    # Python 3.12 warns of any fork among threads, which is what is tried here.
    program = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n" + FORKS_WHILE_WRITING
    assert output(start(program, path)) == "7\n"


FORKS_AND_DIES = (
    PREAMBLE
    + """
with WriteLock(beside(path, "-lock"), 1).held():
    if os.fork() == 0:
        os.close(1)
        print("child", file=sys.stderr, flush=True)
        os.read(0, 1)
        os._exit(0)
    print("forked", flush=True)
    os.kill(os.getpid(), 9)
"""
)


def test_a_child_that_outlives_its_parent_does_not_keep_the_lock(path: Path, start: Start) -> None:
    patient = SqliteStore(path, SetClock(), mode="create", timeout=20)
    process = start(FORKS_AND_DIES, path)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "forked\n"
    assert process.stderr.readline() == "child\n"
    process.wait()
    patient.create(new_run(), [CREATED])
    patient.close()
