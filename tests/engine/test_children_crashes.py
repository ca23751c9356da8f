"""A process that dies at any event of a parent's journal: its child runs are found again, and what is done is not done twice."""

from collections import Counter
from pathlib import Path

import pytest

from support.processes import Folder

WORKFLOWS = """
import os
from flowstone import Flow, workflow

def effect(what: str) -> str:
    with open("effects", "a") as file:
        print(what, file=file)
    return what

def flaky(what: str) -> str:
    effect(what)
    if not os.path.exists(what):
        open(what, "w").close()
        raise OSError("once")
    return what

@workflow
async def grandkid(flow: Flow) -> str:
    return await flow.do("deep", effect, "deep")

@workflow
async def kid(flow: Flow, name: str) -> str:
    await flow.do("work", effect, "work")
    await flow.do("grandkid", grandkid)
    return await flow.do("flaky", flaky, name, retries=0)

@workflow
async def parent(flow: Flow) -> list:
    await flow.do("before", effect, "before")
    got = await flow.do("kid", kid, "once", retries=1, retry_delay="1ms")
    await flow.do("after", effect, "after")
    return [got]
"""

ONCE = Counter(before=1, work=1, deep=1, once=2, after=1)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write(WORKFLOWS)
    return folder


def whole(root: Path) -> int:
    """How many events the parent's journal has when nothing happens."""
    root.mkdir()
    folder = Folder(root)
    folder.write(WORKFLOWS)
    done = folder.act("run", "parent")
    assert done.out.split()[1:] == ["completed"], done.err
    assert Counter(folder.effects()) == ONCE
    return len(folder.events(folder.runs("parent")[0]))


@pytest.mark.parametrize("verb", ["resume", "drive"])
def test_after_a_death_at_any_event_the_run_ends_as_if_nothing_had_happened(tmp_path: Path, verb: str) -> None:
    events = whole(tmp_path / "whole")
    for death in range(2, events):
        (tmp_path / str(death)).mkdir()
        folder = Folder(tmp_path / str(death))
        folder.write(WORKFLOWS)
        died = folder.act("run", "parent", death)
        assert died.code == -9, (death, died)
        [run] = folder.runs("parent")
        done = folder.act(verb, run)
        assert done.out.split() == [run, "completed"], (death, done)
        kinds = [event.kind for event in folder.events(run)]
        assert (len(folder.runs("kid")), len(folder.runs("grandkid"))) == (1, 1), (death, kinds)
        done_more = Counter(folder.effects())
        done_more.subtract(ONCE)
        # At most what ran when the process died is done once more, or was not even begun.
        assert all(count in (0, 1) for count in done_more.values()), (death, done_more)
        assert sum(done_more.values()) <= 1, (death, done_more)


def test_a_run_that_dies_again_and_again_but_gets_further_comes_to_its_end(folder: Folder) -> None:
    folder.act("run", "parent", 3)
    [run] = folder.runs("parent")
    for _ in range(40):
        if folder.status(run) != "running":
            break
        folder.act("resume", run, len(folder.events(run)) + 6)
    assert folder.status(run) == "completed"
    assert (len(folder.runs("kid")), len(folder.runs("grandkid"))) == (1, 1)


def test_a_child_that_ended_while_its_parent_was_dead_gives_its_result(folder: Folder) -> None:
    folder.write(WORKFLOWS.replace('raise OSError("once")', "os.kill(os.getpid(), 9)"))
    assert folder.act("run", "parent").code == -9
    [run], [kid] = folder.runs("parent"), folder.runs("kid")
    assert folder.act("resume", kid).out.split() == [kid, "completed"]
    before = Counter(folder.effects())
    assert folder.act("resume", run).out.split() == [run, "completed"]
    assert Counter(folder.effects()) - before == Counter(after=1)
    assert [folder.status(one) for one in folder.runs()] == ["completed"] * 3
