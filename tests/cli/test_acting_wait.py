"""`flow wait` and `flow audit`."""

import json

import pytest

from support.acting import Scene, has_open, refused, until
from support.acting import scene as make_scene


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


@pytest.mark.parametrize(("workflow", "code"), [("plain", 0), ("fixable", 1), ("undo_fails", 4)])
def test_the_exit_code_is_the_runs(scene, workflow, code):
    run = scene.run(workflow)
    result = scene.flow("wait", run, "--json")
    assert (result.code, result.document["id"]) == (code, run)


def test_a_cancelled_run_is_3(scene):
    run = scene.run("gated")
    scene.flow("cancel", run)
    assert scene.flow("wait", run).code == 3


def test_it_is_silent_until_the_run_has_ended(scene):
    process, run = scene.run_to("a began", "holds")
    waiting = scene.start("wait", run)
    assert scene.flow("wait", run, "--timeout", "300ms").code == 124
    assert waiting.poll() is None
    scene.let("a")
    code, out, err = scene.ended(waiting)
    assert (code, out, err.count("\n")) == (0, "", 1)
    assert scene.ended(process)[0] == 0


def test_it_waits_for_a_run_that_waits_for_a_person_until_somebody_answers(scene):
    run = scene.run("gated")
    waiting = scene.start("wait", run)
    assert scene.flow("approve", run).code == 0
    assert scene.ended(waiting)[0] == 0


def test_for_waiting_and_for_a_step(scene):
    process, run = scene.run_to("a began", "hold_then_gate")
    for_step = scene.start("wait", run, "--for", "hold")
    for_gate = scene.start("wait", run, "--for", "waiting")
    scene.let("a")
    assert scene.ended(for_step)[0] == 8
    assert scene.ended(for_gate)[0] == 8
    assert scene.ended(process)[0] == 8
    assert scene.flow("approve", run).code == 0
    assert scene.flow("wait", run, "--for", "waiting").code == 0
    assert scene.flow("wait", run, "--for", "completed").code == 0


def test_of_several_the_worst_counts(scene):
    runs = [scene.run("plain"), scene.run("fixable"), scene.run("plain")]
    result = scene.flow("wait", *runs, "--json")
    assert (result.code, [one["id"] for one in result.document["runs"]]) == (1, runs)
    assert scene.flow("wait", runs[0], runs[2]).code == 0
    assert scene.flow("wait", runs[1], scene.run("gated"), "--timeout", "10ms").code == 124


def test_the_time_that_is_up_still_gives_the_document(scene):
    run = scene.run("gated")
    result = scene.flow("wait", run, "--timeout", "10ms", "--json")
    assert (result.code, result.document["phase"]) == (124, "waiting")


def test_refusals(scene):
    scene.run("plain")
    refused(scene.flow("wait", "zzz", "--json"), 66, "not_found")
    refused(scene.flow("wait", "--json"), 2, "usage")
    refused(scene.flow("wait", "@last", "--timeout", "5", "--json"), 2, "usage")


def test_ctrl_c_ends_the_waiting_and_not_the_run(scene):
    import signal

    process, run = scene.run_to("a began", "holds")
    waiting = scene.start("wait", run, "--timeout", "30s")
    until(lambda: has_open(waiting.pid, "flow.db"), "its start")
    waiting.send_signal(signal.SIGINT)
    assert scene.ended(waiting)[0] == 130
    scene.let("a")
    assert scene.ended(process)[0] == 0


# audit


def test_the_audit_says_who_did_what_newest_first(scene):
    run = scene.run("gated")
    scene.flow("reject", run, "ok", FLOW_USER="bob")
    other = scene.run("fixable")
    scene.flow("retry", other)
    found = [line.split("\t") for line in scene.flow("audit").out.splitlines()]
    assert [(line[1], line[3], line[4]) for line in found] == [
        (other, "retry", "ana"),
        (other, "run", "ana"),
        (run, "reject", "bob"),
        (run, "run", "ana"),
    ]
    assert [line.split("\t")[3] for line in scene.flow("audit", run).out.splitlines()] == ["reject", "run"]
    assert scene.flow("audit", "-n", "1").out.count("\n") == 1


def test_the_audit_has_a_document(scene):
    run = scene.run("gated")
    document = scene.flow("audit", run, "--json").document
    assert document["schema"] == "flow.audit/1"
    [entry] = document["audit"]
    assert list(entry) == ["at", "run", "event", "action", "user", "by"]
    assert (entry["run"], entry["action"], entry["user"], entry["by"]["user"]) == (run, "run", "ana", "ana")


def test_the_audit_of_a_fresh_project_is_empty_and_of_no_run_66(scene):
    assert (scene.flow("audit").code, scene.flow("audit").out) == (0, "")
    assert scene.flow("audit", "--json").document == {"schema": "flow.audit/1", "audit": []}
    scene.run("plain")
    refused(scene.flow("audit", "zzz", "--json"), 66, "not_found")


def test_the_audit_on_a_terminal_fits_and_obeys_no_data(scene):
    scene.flow("run", "plain", FLOW_USER="a\x1b[31mna\u202e")
    shown = scene.project.terminal("audit", NO_COLOR="1").out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "run " in shown
    by = scene.audit(scene.rows()[0].id)[0].by
    assert json.loads(by)["user"].startswith("a\x1b")
