"""Signals during a run, and what may go on with it afterwards."""

import signal

import pytest

from support.acting import Scene, until
from support.acting import scene as make_scene


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


def test_ctrl_c_suspends_and_only_resume_goes_on(scene):
    process, run = scene.run_to("a began", "hold_then_gate")
    scene.stop(process, signal.SIGINT)
    scene.let("a")
    assert scene.ended(process)[0] == 130
    assert (scene.row(run).status, scene.row(run).owner) == ("suspended", None)
    assert scene.flow("recover").out == ""
    assert scene.flow("worker", "--once").out == ""
    assert "flow recover" not in scene.flow("run", "plain").err
    assert scene.flow("resume", run).code == 8
    assert scene.hits("a began") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals_interrupt_and_recover_goes_on(scene, number, code):
    process, run = scene.run_to("a began", "hold_then_gate")
    scene.stop(process, number)
    scene.let("a")
    assert scene.ended(process)[0] == code
    assert scene.kinds(run)[-1] == "run.interrupted"
    assert "1 other run is interrupted or due" in scene.flow("run", "plain").err
    assert scene.flow("recover").out == f"{run}\thold_then_gate\tinterrupted\twaiting\t8\n"
    assert scene.hits("a began") == 1


@pytest.mark.parametrize("workflow", ["beside", "naps"])
def test_what_is_interrupted_beside_a_wait_is_taken_up(scene, workflow):
    if workflow == "naps":
        process = scene.start("run", "naps", "--set", "duration=40s")
        until(lambda: (scene.root / ".flow" / "flow.db").exists() and scene.rows(), "the run")
        run = scene.rows()[0].id
        until(lambda: "sleep.started" in scene.kinds(run), "the sleep")
    else:
        process, run = scene.run_to("slow began", "beside")
        until(lambda: "gate.opened" in scene.kinds(run), "the gate")
    scene.stop(process, signal.SIGTERM)
    scene.let("slow")
    assert scene.ended(process)[0] == 143
    assert scene.flow("status", run, "--json").document["phase"] == "interrupted"
    after = "sleeping" if workflow == "naps" else "waiting"
    assert scene.flow("recover").out == f"{run}\t{workflow}\tinterrupted\t{after}\t8\n"
    assert scene.flow("recover").out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_leaves_at_once(scene, number):
    process, run = scene.run_to("a began", "holds")
    scene.stop(process, number)
    process.send_signal(number)
    assert scene.ended(process)[0] == 128 + number
    assert scene.flow("status", run, "--json").document["phase"] == "interrupted"
    scene.let("a")
    assert scene.flow("recover").out == f"{run}\tholds\tinterrupted\tcompleted\t0\n"
    assert scene.hits("first") == 1


def test_an_answer_to_a_stopped_run_is_only_recorded(scene):
    process, run = scene.run_to("slow began", "beside")
    until(lambda: "gate.opened" in scene.kinds(run), "the gate")
    scene.stop(process, signal.SIGINT)
    scene.let("slow")
    assert scene.ended(process)[0] == 130
    result = scene.flow("approve", run, "ok")
    assert (result.code, scene.hits("approved")) == (8, 0)
    assert f"  next     flow resume {run}\n" in result.err
    assert scene.row(run).status == "suspended"
    assert scene.flow("resume", run).out == '["slow","approved"]\n'


def test_a_signal_while_an_undo_runs_lets_it_end_and_goes_on_later(scene):
    process, run = scene.run_to("undo-a began", "undoes")
    scene.stop(process, signal.SIGTERM)
    scene.let("undo-a")
    assert scene.ended(process)[0] in (1, 143)
    scene.flow("recover")
    assert (scene.row(run).status, scene.hits("undo-a")) == ("failed", 1)


def test_a_signal_while_following_leaves_the_run_to_its_process(scene):
    process, run = scene.run_to("slow began", "beside")
    until(lambda: "gate.opened" in scene.kinds(run), "the gate")
    following = scene.start("approve", run)
    assert any("following it" in line for line in following.stderr)
    until(lambda: scene.hits("approved"), "the answer")
    scene.stop(following, signal.SIGINT)
    assert scene.ended(following)[0] == 130
    scene.let("slow")
    assert scene.ended(process)[0] == 0
