"""Every way in which a step can end, for every kind of step, on a first run and after a resume: journal, exit code, effects.

The processes are real, a killed one is killed by SIGKILL from within the step.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from support.processes import Ended, Folder, ended, wait_until

WORKFLOWS = '''
import asyncio, os, signal, sys, threading
from flowstone import BlockingFlow, Flow, workflow

def effect(what: str) -> None:
    with open("effects", "a") as file:
        print(what, file=file)

def begin(how: str) -> None:
    """The effect of an attempt, and its end where that is not a value. A killed one is only killed once."""
    first = not os.path.exists("effects") or "work" not in open("effects").read()
    effect("work")
    if how == "fails":
        raise ValueError("it fails")
    if how == "killed" and first:
        os.kill(os.getpid(), signal.SIGKILL)

async def in_task(how: str) -> str:
    begin(how)
    if how in ("times out", "cancelled"):
        await asyncio.Event().wait()
    return "done"

def in_thread(how: str) -> str:
    begin(how)
    if how in ("times out", "cancelled"):
        threading.Event().wait()
    return "done"

PROGRAM = """
first=1; grep -qs work effects && first=0
echo work >> effects
case "$1" in
    fails) exit 3;;
    killed) [ $first = 1 ] && kill -9 $PPID && sleep 60;;
    "times out"|cancelled) sleep 60;;
esac
echo done
"""

@workflow
async def inner(flow: Flow, how: str) -> str:
    limit = "200ms" if how == "times out" else "1h"
    return await flow.do("inside", in_task, how, retries=0, timeout=limit)

@workflow
async def body(flow: Flow, kind: str, how: str, late: bool) -> str:
    if late:
        await flow.suspend("late")
    options = {"retries": 0, "timeout": "200ms" if how == "times out" else "1h"}
    if kind == "async":
        return await flow.do("work", in_task, how, **options)
    if kind == "blocking":
        return await flow.do("work", in_thread, how, **options)
    if kind == "closure":
        return await flow.do("work", lambda: in_task(how), **options)
    if kind == "shell":
        return (await flow.shell("work", ["sh", "-c", PROGRAM, "sh", how], **options)).out.strip()
    return await flow.do("work", inner, how)
'''


class End(NamedTuple):
    """What an ending means."""

    status: str
    code: int
    journal: list[str]
    effects: int
    error: str | None = None


ENDS = {
    "ok": End("completed", 0, ["started~1", "succeeded~1"], 1),
    "fails": End("failed", 1, ["started~1", "failed~1"], 1, "ValueError"),
    "times out": End("failed", 1, ["started~1", "failed~1"], 1, "TimedOut"),
    "killed": End("completed", 0, ["started~1", "interrupted~1", "started~2", "succeeded~2"], 2),
    "cancelled": End("cancelled", 3, ["started~1", "cancelled~1"], 1),
}
KINDS = ["async", "blocking", "closure", "shell", "child"]


def meant(kind: str, how: str) -> End:
    """The meaning; a child run's own death is recorded in its own journal, and it is found again."""
    end = ENDS[how]
    if kind == "shell" and how == "fails":
        end = end._replace(error="ShellFailed")
    if kind == "child":
        journal = ["started~1", "succeeded~1"] if how == "killed" else end.journal
        end = end._replace(journal=journal)
    return end


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write(WORKFLOWS)
    return folder


def acted(folder: Folder, how: str, *words: str) -> Ended:
    """Carry the command out, with what happens to it from outside."""
    process = folder.start(*words)
    if how == "cancelled":
        wait_until(lambda: folder.effects() or process.poll() is not None)
        cancelling = folder.flow("cancel", "@last:body")
        assert cancelling.code == 0, cancelling.err
    done = ended(process)
    if how == "killed":
        assert done.code == -9
        done = folder.flow("resume", "@last:body")
    return done


@pytest.mark.parametrize("late", [False, True], ids=["first run", "resume"])
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_end_means_the_same_for_every_kind_of_step(folder: Folder, kind: str, how: str, late: bool) -> None:
    given = ["--set-str", f"kind={kind}", "--set-str", f"how={how}", "--set", f"late={str(late).lower()}"]
    if late:
        assert folder.flow("run", "body", *given).code == 8
        done = acted(folder, how, "resume", "@last")
    else:
        done = acted(folder, how, "run", "body", *given)
    end = meant(kind, how)
    [run] = folder.runs("body")
    assert done.code == end.code, done.err
    assert folder.status(run) == end.status
    assert folder.of_step(run, "work") == end.journal
    if kind == "child":
        [child] = folder.runs("inner")
        assert folder.status(child) == end.status
        assert folder.of_step(child, "inside") == ENDS[how].journal
    assert folder.effects() == ["work"] * end.effects
    ledger = folder.ledger(run)
    assert (ledger.error or {}).get("type") == end.error
    assert ledger.output == ("done" if end.status == "completed" else None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["ok", "fails", "times out"])
def test_an_end_is_the_same_when_it_is_replayed(folder: Folder, kind: str, how: str) -> None:
    folder.write(
        WORKFLOWS.replace("@workflow\nasync def body", "async def real")
        + """
from typing import Any

@workflow
async def body(flow: Flow, kind: str, how: str, late: bool) -> Any:
    try:
        seen = await real(flow, kind, how, late)
    except Exception as error:
        seen = [str(error), [one.__name__ for one in type(error).__mro__], error.attempts, error.data, error.trace]
    await flow.set_state("seen", seen)
    await flow.suspend("look")
    assert flow.state["seen"] == seen, (flow.state["seen"], seen)
    return seen
"""
    )
    given = ["--set-str", f"kind={kind}", "--set-str", f"how={how}", "--set", "late=false"]
    assert folder.flow("run", "body", *given).code == 8
    done = folder.flow("resume", "@last:body")
    assert done.code == 0, done.err
    assert folder.effects() == ["work"]
