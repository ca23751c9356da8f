"""What went wrong for users of other tools, tried here; each test names its report, Bnn."""

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from support.acting import Scene, refused, until
from support.acting import scene as make_scene


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


def test_b08_an_answer_never_starts_a_running_step_again(scene):
    process, run = scene.run_to("slow began", "beside")
    until(lambda: "gate.opened" in scene.kinds(run), "the gate")
    approving = scene.start("approve", run)
    until(lambda: scene.hits("approved"), "the answer, taken by the process that executes the run")
    assert (process.poll(), approving.poll()) == (None, None)
    scene.let("slow")
    assert scene.ended(process)[0] == 0
    code, out, err = scene.ended(approving)
    assert (code, out) == (0, '["slow","approved"]\n')
    assert f"process {process.pid} executes the run: following it" in err
    assert (scene.hits("slow began"), scene.hits("slow"), scene.hits("approved")) == (1, 1, 1)
    assert scene.kinds(run).count("run.claimed") == 1


def test_b09_a_second_run_is_another_one_unless_it_has_the_same_key(scene):
    assert scene.run("plain") != scene.run("plain")
    first = scene.flow("run", "plain", "--key", "k1", "--set", "name=a")
    again = scene.flow("run", "plain", "--key", "k1", "--set", "name=a", "--json")
    assert (first.code, again.code, scene.hits("a")) == (0, 0, 1)
    assert again.document["output"] == "a"
    refused(scene.flow("run", "plain", "--key", "k1", "--set", "name=b", "--json"), 75, "try_again")
    refused(scene.flow("run", "gated", "--key", "k1", "--json"), 75, "try_again")
    assert scene.hits("b") == 0


@pytest.mark.parametrize(("workflow", "code"), [("gated", 8), ("fixable", 1)])
def test_b09_a_key_met_again_gives_the_code_of_its_run(scene, workflow, code):
    assert [scene.flow("run", workflow, "--key", "K").code for _ in range(2)] == [code, code]
    assert len(scene.rows()) == 1
    if workflow == "gated":
        scene.flow("cancel", "key:K")
        assert scene.flow("run", workflow, "--key", "K").code == 3


def test_b10_of_twenty_starts_with_one_key_one_executes(scene):
    starts = [scene.start("run", "plain", "--key", "same", "--json") for _ in range(20)]
    ended = [scene.ended(one) for one in starts]
    documents = [json.loads(out) for _, out, _ in ended]
    assert len({document["id"] for document in documents}) == 1
    assert {code for code, _, _ in ended} <= {0, 8}
    assert all(
        code == (0 if document["status"] == "completed" else 8) for (code, _, _), document in zip(ended, documents, strict=True)
    )
    assert sum("is taken by run" in err for _, _, err in ended) == 19
    assert (len(scene.rows()), scene.hits("you")) == (1, 1)


def test_b11_a_run_whose_process_died_is_interrupted_at_once(scene):
    process, run = scene.run_to("a began", "holds")
    assert scene.flow("status", run, "--json").document["phase"] == "running"
    scene.kill(process)
    document = scene.flow("status", run, "--json").document
    assert (document["status"], document["phase"], document["next"]) == ("running", "interrupted", f"flow resume {run}")
    assert f"its process (pid {process.pid}) is gone" in scene.project.terminal("status", run).out


def test_b12_recovery_only_appends(scene):
    process, run = scene.run_to("a began", "holds")
    until(lambda: "a holds" in scene.printed(run), "its output")
    scene.kill(process)
    before = scene.events(run)
    scene.let("a")
    assert scene.flow("recover").code == 0
    assert scene.events(run)[: len(before)] == before
    assert scene.printed(run).count("a holds") == 2
    steps = [(attempt["step"], attempt["status"]) for attempt in scene.flow("timeline", run, "--json").document["attempts"]]
    assert steps == [("first", "succeeded"), ("hold", "interrupted"), ("hold", "succeeded")]


def test_b13_sweeps_disturb_no_step_that_runs_after_an_answer(scene):
    first, run = scene.run_to("a began", "hold_then_gate")
    scene.kill(first)
    scene.let("a")
    assert scene.flow("recover").code == 0
    (scene.root / "let-a").unlink()
    run = scene.run("gate_then_hold")
    began = scene.hits("a began")
    approving = scene.start("approve", run)
    until(lambda: scene.hits("a began") > began, "the step behind the gate")
    for _ in range(3):
        assert scene.flow("recover").out == ""
        assert scene.flow("worker", "--once").out == ""
    assert scene.flow("status", run, "--json").document["phase"] == "running"
    scene.let("a")
    assert scene.ended(approving)[0] == 0
    assert scene.hits("a began") == began + 1


def test_b18_a_sleep_is_measured_by_the_wall_clock(scene):
    process = scene.start("run", "naps", "--set", "duration=3s")
    until(lambda: (scene.root / ".flow" / "flow.db").exists() and scene.rows(), "the run")
    run = scene.rows()[0].id
    until(lambda: "sleep.started" in scene.kinds(run), "the sleep")
    wake_at = next(event.body()["wake_at"] for event in scene.events(run) if event.kind == "sleep.started")
    process.send_signal(signal.SIGSTOP)
    until(lambda: time.time_ns() // 1000 > wake_at + 500_000, "the wake instant is past")
    assert "last" not in [event.step for event in scene.events(run)]
    process.send_signal(signal.SIGCONT)
    continued = time.time_ns() // 1000
    assert scene.ended(process)[0] == 0
    woken = next(event.at for event in scene.events(run) if event.step == "sleep:nap" and event.kind == "step.succeeded")
    assert woken - continued < 1_000_000


def test_b23_an_answer_that_races_the_expiry_has_one_outcome_and_the_code_agrees(scene):
    lead = [0.8]  # seconds from the start of a command to its answer, found out as the rounds go

    def round_(_number: int) -> str:
        document = scene.flow("run", "gated", "--set", "expiry=2s", "--json").document
        run, deadline = document["id"], datetime.fromisoformat(document["waiting"][0]["deadline"]).timestamp()
        threading.Event().wait(max(0.0, deadline - lead[0] - time.time()))
        racing = [scene.start("approve", run, "ok", "--json"), scene.start("recover")]
        (code, out, err), (swept, _, _) = (scene.ended(one) for one in racing)
        assert swept == 0
        if "gate.closed" not in scene.kinds(run):  # both were too early
            assert (code, scene.flow("recover").code) == (75, 0), err
        outcomes = [event.body()["outcome"] for event in scene.events(run) if event.kind == "gate.closed"]
        assert len(outcomes) == 1
        assert code == {"approved": 0, "expired": 75}[outcomes[0]], (outcomes, err)
        assert scene.events(run)[-1].body() == {"output": outcomes[0]}
        assert bool(out) == (code == 0)
        lead[0] += 0.1 if outcomes == ["expired"] else -0.1
        return outcomes[0]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(round_, range(50)))
    assert 0 < found.count("approved") < 50, "they did not race"
    assert scene.hits("behind") == found.count("approved")


def test_b28_the_same_answer_again_is_no_harm_and_the_opposite_is_refused(scene):
    run = scene.run("gated")
    assert scene.flow("approve", run, "ok").code == 0
    before = scene.events(run)
    again = scene.flow("approve", run, "ok", FLOW_USER="bob")
    assert again.code == 0
    assert "ok was approved before, by the same answer of ana at 2" in again.err
    other = refused(scene.flow("reject", run, "ok", "--json"), 75, "try_again")
    assert "approved at" in other["message"]
    assert "by ana" in other["message"]
    assert (scene.events(run), scene.hits("behind")) == (before, 1)


def test_b28_the_same_answer_again_goes_on_with_a_run_that_was_left_parked(scene):
    run = scene.run("gated")
    assert scene.flow("approve", run, "--no-resume").code == 0
    assert (scene.row(run).status, scene.hits("behind")) == ("suspended", 0)
    again = scene.flow("approve", run, "ok")
    assert (again.code, again.out, scene.hits("behind")) == (0, '"approved"\n', 1)


def test_b28_of_answers_at_once_one_wins_and_the_others_learn_who(scene):
    run = scene.run("gated")
    answers = [scene.start(verb, run, "ok", "--json") for verb in ("approve", "reject") * 4]
    ended = [scene.ended(one) for one in answers]
    outcomes = [event.body()["outcome"] for event in scene.events(run) if event.kind == "gate.closed"]
    assert len(outcomes) == 1
    losers = ended[1::2] if outcomes == ["approved"] else ended[::2]
    winners = ended[::2] if outcomes == ["approved"] else ended[1::2]
    assert {code for code, _, _ in losers} == {75}
    assert {code for code, _, _ in winners} == {0}
    assert all("by ana" in err for _, _, err in losers)


def test_b30_an_answer_before_the_question_is_refused_or_kept_and_never_lost(scene):
    process, run = scene.run_to("a began", "hold_then_gate")
    early = refused(scene.flow("approve", run, "deploy", "--json"), 66, "not_found")
    assert 'has no gate "deploy"; none is open' in early["message"]
    kept = scene.flow("approve", run, "deploy", "--early")
    assert (kept.code, "recorded for when the run gets there" in kept.err) == (0, True)
    scene.let("a")
    assert scene.ended(process)[:2] == (0, '"behind"\n')
    assert scene.hits("behind") == 1


def test_b31_an_expiry_is_a_no_and_nothing_behind_the_gate_runs(scene):
    run = scene.run("gated", "--set", "expiry=200ms")
    until(lambda: "expired" in scene.flow("runs").out, "the deadline")
    result = scene.flow("resume", run)
    assert (result.code, result.out, scene.hits("behind")) == (0, '"expired"\n', 0)


def test_b32_an_expired_gate_is_shown_as_such_and_takes_no_answer(scene):
    run = scene.run("gated", "--set", "expiry=200ms")
    until(lambda: "expired" in scene.flow("runs").out, "the deadline")
    before = scene.events(run)
    assert "expired " in scene.project.terminal("status", run).out
    refused(scene.flow("approve", run, "ok", "--json"), 75, "try_again")
    refused(scene.flow("reject", run, "ok", "--json"), 75, "try_again")
    assert (scene.events(run), scene.hits("behind")) == (before, 0)
    assert scene.flow("status", run, "--json").document["next"] == f"flow resume {run}"


def test_b33_a_gate_that_was_answered_does_not_ask_again(scene):
    run = scene.run("gate_then_hold")
    approving = scene.start("approve", run)
    until(lambda: scene.hits("a began"), "the step behind the gate")
    os.kill(approving.pid, signal.SIGKILL)
    approving.communicate()
    scene.let("a")
    assert scene.flow("recover").out == f"{run}\tgate_then_hold\tinterrupted\tcompleted\t0\n"
    assert scene.kinds(run).count("gate.opened") == scene.kinds(run).count("gate.closed") == 1
