"""What a person has said to a run is seen wherever the run is looked at, also before any process has read it."""

import pytest

from support.acting import Scene, scene, until

WORKFLOWS = """
import asyncio, os
from pathlib import Path
from pydantic import BaseModel
from flowstone import Flow, step, workflow

class Ticket(BaseModel):
    ticket: str

def one() -> int:
    return 1

def hold() -> int:
    import time
    Path("holds").touch()
    while not Path("let").exists():
        time.sleep(0.01)
    return 1

@step(repeatable=False)
def pay() -> int:
    Path("paying").touch()
    os.kill(os.getpid(), 9)
    return 1

@workflow
async def gated(flow: Flow) -> str:
    await flow.do("a", one)
    return (await flow.approval("go", schema=Ticket, expiry="2d", message="sign here")).status

@workflow
async def beside(flow: Flow) -> list:
    async def asked(name: str) -> str:
        return (await flow.approval(name)).status
    return await asyncio.gather(asked("legal"), asked("finance"), flow.do("work", hold))

@workflow
async def pays(flow: Flow) -> int:
    return await flow.do("pay", pay)
"""


@pytest.fixture
def runs(project) -> Scene:
    made = scene(project)
    (made.root / "workflows" / "acting.py").write_text(WORKFLOWS)
    return made


def rename(runs: Scene, old: str, new: str) -> None:
    file = runs.root / "workflows" / "acting.py"
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize(("verb", "word"), [("approve", "approved"), ("reject", "rejected")])
def test_an_answer_that_nobody_has_read_is_told_by_every_reading_verb(runs, verb, word):
    run = runs.run("gated")
    answered = runs.flow(verb, run, "go", *(["--set", "ticket=A"] if verb == "approve" else []), "--no-resume", FLOW_USER="bo")
    said = f"{word} by bo, not taken up yet"
    assert answered.code == 0
    assert said in answered.err
    assert "--set" not in answered.err.rpartition("next")[2]  # nothing more is asked for
    shown = runs.project.terminal("status", run, columns=100).out
    assert shown.count(said) == 2, shown  # at the gate, and at its step
    assert f"flow resume {run[:6]}" in shown
    assert "sign here" not in shown
    assert "left" not in shown
    assert said in runs.flow("status", run).out
    assert said in runs.flow("runs").out
    listed = runs.flow("runs", "--json").document
    assert listed["runs"][0]["note"] == f"approve: go, {said}"
    document = runs.flow("status", run, "--json").document
    assert (document["phase"], document["next"]) == ("waiting", f"flow resume {run}")
    assert said in runs.project.terminal("state", run, columns=100).out
    assert said in runs.flow("status", "@waiting").err  # what @waiting stands for
    resumed = runs.flow("resume", run)
    assert (resumed.code, resumed.out) == (0, f'"{word}"\n')


def test_an_answer_that_was_kept_early_is_told_and_the_run_still_waits_for_a_worker(runs):
    run = runs.flow("run", "gated", "--detach").out.strip()
    assert runs.flow("doctor").out.count("index\tok") == 1
    kept = runs.flow("approve", run, "go", "--early", "--set", "ticket=A")
    assert kept.code == 0
    status = runs.flow("status", run, "--json").document
    assert (status["phase"], [wait["kind"] for wait in status["waiting"]]) == ("waiting", ["queue"])
    shown = runs.project.terminal("status", run, columns=100).out
    assert "approved by ana, kept for when the run gets there" in shown
    assert "is gone" not in shown
    assert runs.flow("runs", "--waiting-for", "queue", "--count").out == "1\n"
    assert runs.flow("doctor").out.count("index\tok") == 1
    assert runs.flow("worker", "--once").code == 0
    assert runs.flow("output", run).out == '"approved"\n'


def test_a_word_on_an_unknown_outcome_that_nobody_has_read_is_told(runs):
    process = runs.start("run", "pays")
    process.communicate()
    run = runs.rows()[0].id
    assert runs.flow("resume", run).code == 8
    rename(runs, '"pay", pay', '"pay now", pay')
    refused = runs.flow("resolve", run, "pay", "--failed", "--reason", "seen in the bank")
    assert refused.code == 76
    assert 'it is recorded that "pay" is resolved as failed by ana' in refused.err
    assert "nothing was written" not in refused.err
    rename(runs, '"pay now", pay', '"pay", pay')
    assert "resolved as failed by ana, not taken up yet" in runs.project.terminal("status", run, columns=100).out
    assert runs.flow("resume", run).code == 1


def test_an_answer_that_was_refused_later_says_by_whom_it_was_and_why(runs):
    run = runs.run("gated")
    runs.flow("approve", run, "--set", "ticket=A", "--no-resume", FLOW_USER="bo")
    rename(runs, "ticket: str", "amount: int")
    resumed = runs.flow("resume", run)
    assert resumed.code == 8
    for shown in (resumed.err, runs.project.terminal("status", run, columns=200).out, runs.flow("status", run).out):
        assert "the answer of bo, round 1: " in shown
        assert "amount" in shown
    document = runs.flow("status", run, "--json").document
    error = document["steps"][-1]["error"]
    assert (error["code"], error["step"]) == ("REFUSED", "approve:go")
    assert error["message"].startswith("the answer of bo, round 1: ")
    assert document["next"] == f"flow approve {run} go --set amount=VALUE"
    assert runs.flow("approve", run, "--set", "amount=3").code == 0


def test_code_that_does_not_fit_leaves_an_answer_recorded_and_says_so(runs):
    run = runs.run("gated")
    rename(runs, '"a", one', '"a2", one')
    refused = runs.flow("approve", run, "--set", "ticket=A")
    assert refused.code == 76
    assert "gate.answered" in runs.kinds(run)
    assert "nothing was written" not in refused.err
    assert 'nothing was run, but it is recorded that "go" is approved by ana; once the code fits, flow resume' in refused.err
    again = runs.flow("resume", run)
    assert (again.code, "nothing was written" in again.err, "is approved by ana" in again.err) == (76, False, True)
    (runs.root / "workflows" / "acting.py").write_text("import nowhere_at_all\n" + WORKFLOWS)
    broken = runs.flow("resume", run)
    assert broken.code == 69
    assert "is approved by ana" in broken.err
    (runs.root / "workflows" / "acting.py").write_text(WORKFLOWS)
    assert runs.flow("resume", run).out == '"approved"\n'


def test_a_refusal_that_wrote_nothing_says_that(runs):
    run = runs.run("gated")
    rename(runs, '"a", one', '"a2", one')
    events = len(runs.events(run))
    refused = runs.flow("resume", run)
    assert (refused.code, "nothing was run and nothing was written" in refused.err) == (76, True)
    assert len(runs.events(run)) == events


def test_a_run_that_works_on_while_a_person_is_asked_is_found_as_one_that_waits(runs):
    process = runs.start("run", "beside")
    until(lambda: (runs.root / "holds").exists(), "the step holds")
    run = runs.rows()[0].id
    assert runs.flow("wait", run, "--for", "waiting", "--timeout", "20s").code == 8
    document = runs.flow("status", "@waiting", "--json").document
    assert (document["phase"], document["next"]) == ("running", f"flow approve {run} legal")
    shown = runs.project.terminal("status", run, columns=100).out
    assert "approve: legal" in shown
    assert "approve: finance" in shown
    assert f"flow approve {run[:6]} legal" in shown
    for phase in ("waiting", "running"):
        (listed,) = runs.flow("runs", "-s", phase, "--json").document["runs"]
        assert (listed["phase"], listed["note"]) == ("running", "approve: legal, 1 more, 0 of 1 steps")
    for reason in ("legal", "finance"):
        assert runs.flow("approve", run, reason, "--no-resume").code == 0
    until(lambda: runs.kinds(run).count("gate.closed") == 2, "both answers are read")
    assert runs.flow("status", "@waiting").code == 66
    assert runs.flow("status", run, "--json").document["next"] is None
    (runs.root / "let").touch()
    assert runs.ended(process)[0] == 0
