"""Whether the process behind an owner id lives."""

import fcntl
import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowstone.identity import new_owner_id
from flowstone.ports import Life, OwnerFacts
from flowstone.storage.sqlite.owners import OwnerFiles
from flowstone.storage.sqlite.paths import beside
from flowstone.storage.sqlite.process import this_process

from .conftest import Start

LIVES = """
import os, sys
from flowstone.storage.sqlite.owners import OwnerFiles
owners = OwnerFiles(sys.argv[1])
print(owners.enlist(), flush=True)
"""
WAITS = LIVES + "sys.stdin.readline()\n"


@pytest.fixture
def owners(path: Path) -> Iterator[OwnerFiles]:
    owners = OwnerFiles(path)
    yield owners
    owners.retire()


def started(start: Start, path: Path, program: str = WAITS) -> "tuple[subprocess.Popen[str], str]":
    process = start(program, path)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def files(path: Path) -> set[str]:
    return {entry.name for entry in beside(path, "-owners").iterdir()}


def test_a_process_is_one_owner_and_knows_that_it_lives(owners: OwnerFiles) -> None:
    me = owners.enlist()
    assert owners.enlist() == me
    assert owners.life(me) is Life.ALIVE


def test_a_running_process_is_alive_to_others(owners: OwnerFiles, path: Path, start: Start) -> None:
    _, owner = started(start, path)
    assert owners.life(owner) is Life.ALIVE
    assert OwnerFiles(path).life(owner) is Life.ALIVE


def test_a_killed_process_is_dead(owners: OwnerFiles, path: Path, start: Start) -> None:
    process, owner = started(start, path)
    process.kill()
    process.wait()
    assert owners.life(owner) is Life.DEAD
    assert owners.life(owner) is Life.DEAD


def test_two_who_ask_at_once_do_not_take_each_other_for_the_owner(owners: OwnerFiles, path: Path, start: Start) -> None:
    process, owner = started(start, path)
    process.kill()
    process.wait()
    with (beside(path, "-owners") / owner).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert owners.life(owner) is Life.DEAD


def test_a_killed_process_is_dead_before_its_parent_notices(owners: OwnerFiles, path: Path, start: Start) -> None:
    process, owner = started(start, path)
    beside(path, "-owners").joinpath(owner).unlink()
    assert owners.life(owner) is Life.ALIVE
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table of processes
    assert owners.life(owner) is Life.DEAD


def test_a_stopped_process_is_alive(owners: OwnerFiles, path: Path, start: Start) -> None:
    process, owner = started(start, path)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert owners.life(owner) is Life.ALIVE


def test_a_process_whose_file_is_missing_is_judged_by_its_id(owners: OwnerFiles, path: Path, start: Start) -> None:
    process, owner = started(start, path)
    beside(path, "-owners").joinpath(owner).unlink()
    assert owners.life(owner) is Life.ALIVE
    random, machine, boot, namespace, pid, born = owner.split(".")
    for change, life in {
        (random, "0" * 12, boot, namespace, pid, born): Life.UNKNOWN,  # another host
        (random, "-", boot, namespace, pid, born): Life.UNKNOWN,
        (random, machine, "0" * 12, namespace, pid, born): Life.DEAD,  # before this machine was started
        (random, machine, "-", namespace, pid, born): Life.UNKNOWN,
        (random, machine, boot, "1", pid, born): Life.UNKNOWN,  # another container
        (random, machine, boot, namespace, pid, str(int(born) + 1)): Life.DEAD,  # its pid was given to another process
        (random, machine, boot, namespace, pid, "-"): Life.UNKNOWN,
        (random, machine, boot, namespace, "999999999", born): Life.DEAD,
    }.items():
        assert owners.life(".".join(change)) is life, change
    process.kill()
    process.wait()
    assert owners.life(owner) is Life.DEAD


@pytest.mark.parametrize("owner", ["", "me", "../../etc/passwd", "a" * 32, f"{'a' * 32}.x.y.z.1.2", "x/..", "\0"])
def test_text_that_is_no_owner_id_is_unknown_and_never_a_path(owners: OwnerFiles, owner: str) -> None:
    assert owners.life(owner) is Life.UNKNOWN
    assert owners.facts(owner) == OwnerFacts(None, None, None)


def test_another_host_is_never_dead(owners: OwnerFiles, path: Path) -> None:
    owners.enlist()
    process = this_process()
    owner = f"{new_owner_id()}.{'0' * 12}.{process.boot}.{process.namespace}.{process.pid}.{process.start}"
    beside(path, "-owners").joinpath(owner).write_text(json.dumps({"pid": 7, "host": "elsewhere", "user": "bob"}))
    assert owners.life(owner) is Life.UNKNOWN
    facts = owners.facts(owner)
    assert (facts.pid, facts.host, facts.user) == (int(process.pid), "elsewhere", "bob")
    assert owner in files(path)


def test_facts_come_from_the_file_or_from_the_id(owners: OwnerFiles, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOW_USER", "ann")
    me = owners.enlist()
    host = os.uname().nodename
    facts = owners.facts(me)
    assert (facts.pid, facts.host, facts.user) == (os.getpid(), host, "ann")
    beside(path, "-owners").joinpath(me).unlink()
    assert owners.facts(me) == OwnerFacts(os.getpid(), host, None)


def test_files_are_private(owners: OwnerFiles, path: Path) -> None:
    before = os.umask(0)
    try:
        me = owners.enlist()
    finally:
        os.umask(before)
    folder = beside(path, "-owners")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / me).stat().st_mode) == 0o600


def test_retiring_removes_the_file(path: Path) -> None:
    owners = OwnerFiles(path)
    me = owners.enlist()
    owners.retire()
    owners.retire()
    assert files(path) == set()
    assert owners.enlist() != me
    owners.retire()


def test_a_beat_tells_until_when_a_process_lived(owners: OwnerFiles, path: Path) -> None:
    file = beside(path, "-owners") / owners.enlist()
    os.utime(file, (5, 5))
    assert owners.facts(file.name).seen_at == 5_000_000
    owners.beat()
    seen_at = owners.facts(file.name).seen_at
    assert seen_at is not None
    assert seen_at > 5_000_000


def test_enlisting_removes_what_the_dead_left_long_ago(path: Path, start: Start) -> None:
    killed = [started(start, path) for _ in range(2)]
    _, alive = started(start, path)
    for process, _ in killed:
        process.kill()
        process.wait()
    (_, long_dead), (_, just_dead) = killed
    folder = beside(path, "-owners")
    left = [folder / long_dead, folder / f"unfinished-{long_dead}", folder / alive, folder / "something else"]
    for file in left:
        file.touch()
        os.utime(file, (5, 5))
    owners = OwnerFiles(path)
    me = owners.enlist()
    assert files(path) == {just_dead, alive, me, "something else"}
    assert owners.life(long_dead) is owners.life(just_dead) is Life.DEAD
    owners.retire()


FORKS = (
    LIVES
    + """
child = os.fork()
if child == 0:
    os.close(1)
    own = owners.enlist()
    print(own, file=sys.stderr, flush=True)
    sys.stdin.readline()
    os._exit(0)
sys.stdin.readline()
"""
)


def test_a_forked_child_does_not_make_its_dead_parent_look_alive(owners: OwnerFiles, path: Path, start: Start) -> None:
    process, parent = started(start, path, FORKS)
    assert process.stderr is not None
    child = process.stderr.readline().strip()
    assert child != parent
    process.kill()
    process.wait()
    assert owners.life(parent) is Life.DEAD
    assert owners.life(child) is Life.ALIVE
