"""What a run shows of itself is what has happened: who ended it, what nobody saw end, how long it is known to have worked."""

import pytest

from flowstone.journal.scale import scale_of
from support.acting import Scene, scene, until, words

WORKFLOWS = """
import asyncio, os, time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from flowstone import Flow, step, workflow

@dataclass
class Sign:
    name: str

def one() -> int:
    return 1

def hold(*_) -> int:
    Path("holds").touch()
    time.sleep(60)
    return 1

def broken(*_) -> None:
    raise ValueError("the bank said no")

def note(failed) -> None:
    return None

@step(repeatable=False)
def drop() -> int:
    os.kill(os.getpid(), 9)
    return 1

@workflow
async def drops(flow: Flow) -> int:
    return await flow.do("drop", drop)

@workflow
async def long(flow: Flow) -> int:
    return await flow.do("long", hold)

@workflow
async def undoes(flow: Flow) -> None:
    await flow.do("one", one, undo=hold)
    await flow.do("pay", broken)

@workflow
async def handles(flow: Flow) -> None:
    try:
        await flow.do("pay", broken, on_error=note)
    except ValueError:
        await flow.do("instead", one)

@workflow
async def asks(flow: Flow) -> str:
    if not (await flow.approval("ok")).approved:
        flow.cancel("not signed off")
    return "ok"

@workflow
async def listed(flow: Flow) -> list:
    return [Sign("a")]

@workflow
async def named(flow: Flow) -> dict[str, Any]:
    return {"by": Sign("a")}

def signs():
    return [Sign("a")]

@workflow
async def stepped(flow: Flow) -> int:
    return await flow.do("signs", signs)
"""


@pytest.fixture
def runs(project) -> Scene:
    made = scene(project)
    (made.root / "workflows" / "acting.py").write_text(WORKFLOWS)
    return made


@pytest.mark.parametrize(("said", "status"), [(["--result", "r.json"], "succeeded"), (["--failed"], "failed")])
def test_a_step_that_was_resolved_by_hand_shows_who_and_why_and_its_attempt_stays_interrupted(runs, said, status):
    (runs.root / "r.json").write_text("1")
    runs.flow("run", "drops")
    run = runs.rows()[0].id
    assert runs.flow("resume", run).code == 8
    runs.flow("resolve", run, "drop", *said, "--reason", "checked in psql", FLOW_USER="bo")
    told = f"resolved as {status} by bo: checked in psql"
    document = runs.flow("status", run, "--json").document
    assert [(step["key"], step["status"]) for step in document["steps"]] == [("drop", status)]
    (attempt,) = runs.flow("timeline", run, "--json").document["attempts"]
    assert (attempt["status"], attempt["attempt"]) == ("interrupted", 1)
    assert told in runs.project.terminal("status", run, columns=120).out
    for columns in (50, 80, 120):
        assert told in runs.project.terminal("timeline", run, columns=columns).out
    assert "!" in runs.project.terminal("timeline", run, columns=80).out
    assert f"interrupted, resolved\tdrop\t1\t-\t{told}" in runs.flow("timeline", run).out
    assert "drop" in runs.flow("timeline", run, "--only", "failed").out


@pytest.mark.parametrize("name", ["long", "undoes"])
def test_a_run_whose_process_died_has_worked_as_long_as_the_process_was_seen(runs, name):
    process = runs.start("run", name)
    until(lambda: (runs.root / "holds").exists(), "it holds")
    run = runs.rows()[0].id
    begun = runs.events(run)[-1].at
    owners = next(folder for folder in (runs.root / ".flow").iterdir() if folder.name.endswith("-owners"))

    def seen() -> int:
        return max(file.stat().st_mtime_ns // 1000 for file in owners.iterdir())

    until(lambda: seen() > begun + 1_000_000, "the process shows that it lives")
    runs.kill(process)
    document = runs.flow("status", run, "--json").document
    assert document["phase"] == "interrupted"
    assert document["steps"][-1]["duration_ms"] >= 1000
    shown = runs.project.terminal("status", run, columns=100).out
    took = next(line for line in words(shown) if line.startswith("took"))
    assert not took.startswith("took 0.0")
    assert "working 0" not in took
    assert runs.flow("runs", "--json").document["runs"][0]["duration_ms"] >= 1000
    if name == "undoes":
        assert "error ValueError: the bank said no" in words(shown)
        drawn = words(runs.project.terminal("timeline", run, NO_COLOR="1").out)
        assert [line[0] for line in drawn if "undo one" in line] == ["!"]


def test_steps_are_listed_in_the_order_begun_in_which_the_timeline_has_them(runs):
    run = runs.run("handles")
    begun = ["pay", "pay:on_error", "instead"]
    assert [step["key"] for step in runs.flow("status", run, "--json").document["steps"]] == begun
    assert [attempt["step"] for attempt in runs.flow("timeline", run, "--json").document["attempts"]] == begun


def test_a_run_that_its_workflow_has_cancelled_was_cancelled_by_nobody_else(runs):
    run = runs.run("asks")
    assert runs.flow("reject", run, FLOW_USER="bo").code == 3
    assert runs.events(run)[-1].body() == {"reason": "not signed off", "by": None}
    assert runs.flow("runs", "--json").document["runs"][0]["note"] == "cancelled by the workflow: not signed off"
    assert "by the workflow itself" in words(runs.project.terminal("status", run).out)


def test_a_run_that_a_person_has_cancelled_says_who(runs):
    run = runs.run("asks")
    assert runs.flow("cancel", run, "--reason", "no more", FLOW_USER="bo").code == 0
    assert runs.flow("runs", "--json").document["runs"][0]["note"] == "cancelled by bo: no more"
    assert "by bo" in words(runs.project.terminal("status", run).out)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("listed", "$[0] is a Sign; annotate the function's return type with list[Sign]"),
        ("named", "$.by is a Sign; annotate the function's return type with dict[str, Sign], or a model that has Sign"),
        ("stepped", "$[0] is a Sign; annotate the function's return type with list[Sign]"),
    ],
)
def test_a_value_that_cannot_be_recorded_is_refused_with_the_cure_and_the_run_keeps_it(runs, name, told):
    run = runs.run(name)
    error = runs.flow("status", run, "--json").document["error"]
    assert error["code"] == "VALUE_REFUSED"
    assert told in error["message"]
    assert told in " ".join(words(runs.project.terminal("status", run, columns=200).out))


def test_an_axis_on_which_only_waits_stand_leaves_no_time_out():
    scale = scale_of([], 0, 2_000_000, 60)
    assert (scale.cuts, scale.shown, scale.column(1_000_000)) == ((), 2_000_000, 29)
