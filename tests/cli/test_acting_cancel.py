"""`flow cancel`: wherever a run is, with or without a process that executes it."""

import json
import signal

import pytest

from support.acting import Scene, refused, until, words
from support.acting import scene as make_scene

ONE_SECOND = 1_000_000


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


def took(scene, run):
    """Microseconds from the request to the end."""
    return scene.at(run, "run.cancelled") - scene.at(run, "run.cancel_requested")


@pytest.mark.parametrize("workflow", ["holds", "holds_async"])
def test_a_running_run_is_cancelled_within_a_second(scene, workflow):
    process, run = scene.run_to("a began", workflow)
    result = scene.flow("cancel", run, "--reason", "not needed")
    assert result.code == 0
    assert f"process {process.pid} executes the run: following it" in result.err
    assert words(result.err)[-2:] == ["reason not needed", "by ana"]
    code, out, err = scene.ended(process)
    assert (code, out, "reason   not needed" in err) == (3, "", True)
    assert took(scene, run) < ONE_SECOND
    assert scene.hits("undo first") == (workflow == "holds_async")


def test_a_run_is_cancelled_while_its_process_waits_for_a_sleep(scene):
    process, run = scene.run_to("first", "naps", "--set", "duration=40s")
    until(lambda: "sleep.started" in scene.kinds(run), "the sleep")
    assert scene.flow("cancel", run).code == 0
    assert scene.ended(process)[0] == 3
    assert took(scene, run) < ONE_SECOND
    assert (scene.hits("last"), scene.hits("undo first")) == (0, 1)


def test_a_parked_sleep_is_cancelled_without_a_process(scene):
    run = scene.run("naps", "--set", "duration=3d")
    assert scene.flow("cancel", run).code == 0
    assert took(scene, run) < ONE_SECOND
    assert [step["status"] for step in scene.flow("status", run, "--json").document["steps"]] == [
        "succeeded",
        "cancelled",
        "succeeded",
    ]


def test_a_gate_is_cancelled(scene):
    run = scene.run("gated")
    result = scene.flow("cancel", run, "--json", "--reason", "too late")
    assert (result.code, result.document["phase"]) == (0, "cancelled")
    assert took(scene, run) < ONE_SECOND
    refused(scene.flow("approve", run, "ok", "--json"), 75, "try_again")


def test_a_retry_wait_is_cancelled(scene):
    run = scene.run("retries")
    assert scene.flow("cancel", run).code == 0
    assert took(scene, run) < ONE_SECOND
    assert scene.hits("call") == 1


def test_a_run_whose_process_died_is_cancelled_and_nothing_is_started_again(scene):
    assert scene.flow("run", "dies").code == -9
    run = scene.rows()[0].id
    assert scene.flow("cancel", run).code == 0
    assert took(scene, run) < ONE_SECOND
    assert scene.hits("die") == 1
    assert scene.kinds(run).count("step.started") == 2


def test_a_run_that_was_stopped_by_hand_is_cancelled(scene):
    process, run = scene.run_to("a began", "hold_then_gate")
    scene.stop(process, signal.SIGINT)
    scene.let("a")
    assert scene.ended(process)[0] == 130
    assert scene.flow("cancel", run).code == 0


def test_a_run_that_undoes_ends_as_it_would_have(scene):
    process, run = scene.run_to("undo-a began", "undoes")
    cancel = scene.start("cancel", run, "--json")
    until(lambda: "run.cancel_requested" in scene.kinds(run), "the request")
    scene.let("undo-a")
    code, out, err = scene.ended(cancel)
    assert (code, out) == (75, "")
    assert json.loads(err.splitlines()[-1])["message"] == f"run {run} failed first: it was not cancelled"
    assert scene.ended(process)[0] == 1
    assert scene.hits("undo-a began") == 1


def test_a_second_cancel_follows_the_first_and_later_says_so(scene):
    process, run = scene.run_to("a began", "holds_async")
    (first, second) = scene.start("cancel", run), scene.start("cancel", run)
    assert [scene.ended(one)[0] for one in (first, second)] == [0, 0]
    assert scene.ended(process)[0] == 3
    assert scene.kinds(run).count("run.cancel_requested") == 1
    again = scene.flow("cancel", run)
    assert (again.code, f"run {run} was cancelled before" in again.err) == (0, True)


def test_an_undo_that_fails_is_4(scene):
    run = scene.run("gated_undo_fails")
    result = scene.flow("cancel", run, "--json")
    assert (result.code, result.document["phase"], result.document["error"]["code"]) == (4, "failed", "UNDO_FAILED")
    assert result.document["next"] == f"flow retry {run}"
    scene.fix()
    assert scene.flow("retry", run).code == 3


def test_no_undo_leaves_what_was_done(scene):
    run = scene.run("naps", "--set", "duration=3d")
    assert scene.flow("cancel", run, "--no-undo").code == 0
    assert scene.hits("undo first") == 0


def test_a_run_that_has_ended_otherwise_is_75(scene):
    for workflow in ("plain", "undo_fails"):
        run = scene.run(workflow)
        before = scene.events(run)
        refused(scene.flow("cancel", run, "--json"), 75, "try_again")
        assert scene.events(run) == before
        assert [entry.action for entry in scene.audit(run)] == ["run"]


def test_what_is_not_there_is_66(scene):
    scene.run("plain")
    refused(scene.flow("cancel", "zzz", "--json"), 66, "not_found")


def test_several_need_yes_off_a_terminal_and_nothing_is_touched_without(scene):
    runs = [scene.run("gated"), scene.run("gated")]
    assert refused(scene.flow("cancel", *runs, "--json"), 2, "usage")["message"].endswith("say --yes")
    assert not any("run.cancel_requested" in scene.kinds(run) for run in runs)
    result = scene.flow("cancel", *runs, runs[0], "--yes", "--json")
    assert (result.code, [one["phase"] for one in result.document["runs"]]) == (0, ["cancelled", "cancelled"])


def test_of_several_each_is_told_and_the_worst_counts(scene):
    open_run, ended = scene.run("gated"), scene.run("plain")
    result = scene.flow("cancel", open_run, ended, "--yes")
    assert result.code == 75
    assert f"error: run {ended} has completed first: it was not cancelled\n" in result.err
    assert scene.row(open_run).status == "cancelled"


def test_the_audit_names_who_cancelled_once(scene):
    run = scene.run("gated")
    scene.flow("cancel", run, FLOW_USER="bob")
    entry = scene.audit(run)[0]
    assert (entry.action, json.loads(entry.by)["user"]) == ("cancel", "bob")
    assert [one.action for one in scene.audit(run)] == ["cancel", "run"]


def test_a_cancel_reaches_the_child_and_the_child_reaches_its_parent(scene):
    run = scene.run("parent")
    child = scene.rows()[0].id
    assert scene.flow("cancel", run).code == 0
    assert (scene.row(run).status, scene.row(child).status) == ("cancelled", "cancelled")
    run = scene.run("parent")
    child = scene.rows()[0].id
    assert scene.flow("cancel", child).code == 0
    assert (scene.row(run).status, scene.row(child).status) == ("failed", "cancelled")


UNDOES = """
from flowstone import Flow, workflow

def act() -> None: ...

def put_back(done) -> None:
    open("put-back", "w").close()

@workflow
async def acts(flow: Flow) -> None:
    await flow.do("act", act, undo=put_back)
    await flow.approval("ok")
"""
EDITS = {
    "its code is gone": "",
    "its code differs": UNDOES.replace('"act"', '"acting"'),
    "its input differs": UNDOES.replace("flow: Flow", "flow: Flow, day: int"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_run_whose_code_fits_no_more_is_cancelled_and_one_line_says_what_is_not_cleaned_up(scene, edit):
    file = scene.root / "workflows" / "undoes.py"
    file.write_text(UNDOES)
    run = scene.run("acts")
    file.write_text(EDITS[edit])
    result = scene.flow("cancel", run, "--no-undo")
    assert (result.code, scene.row(run).status) == (0, "cancelled")
    assert result.err.count("is cancelled without its body, whose cleanup did not run: ") == 1
    again = scene.flow("cancel", run)
    assert (again.code, "without its body" in again.err) == (0, False)


def test_what_can_still_be_undone_is_undone(scene):
    file = scene.root / "workflows" / "undoes.py"
    file.write_text(UNDOES)
    run = scene.run("acts")
    file.write_text(EDITS["its code differs"])
    assert scene.flow("cancel", run).code == 0
    assert (scene.root / "put-back").exists()


def test_an_undo_that_is_gone_is_waited_for_or_left(scene):
    file = scene.root / "workflows" / "undoes.py"
    file.write_text(UNDOES)
    run = scene.run("acts")
    file.write_text(UNDOES.replace("def put_back", "def put_away").replace(", undo=put_back", ""))
    document = refused(scene.flow("cancel", run, "--json"), 75, "try_again")
    assert f"run {run} is not cancelled yet: its undo waits for put_back, which cannot be found" in document["message"]
    assert document["hint"] == f"flow cancel {run} --no-undo"
    status = scene.flow("status", run, "--json").document
    assert [(wait["kind"], wait["reason"]) for wait in status["waiting"]][:1] == [("function", "put_back")]
    file.write_text(UNDOES)
    assert scene.flow("resume", run).code == 3
    assert (scene.root / "put-back").exists()
    run = scene.run("acts")
    file.write_text("")
    assert scene.flow("cancel", run).code == 75
    assert scene.flow("cancel", run, "--no-undo").code == 0


def test_a_file_that_cannot_be_imported_is_mended_or_removed_first(scene):
    file = scene.root / "workflows" / "undoes.py"
    file.write_text(UNDOES)
    run = scene.run("acts")
    file.write_text(UNDOES + "import nonexistent")
    refused(scene.flow("cancel", run, "--json"), 69, "cannot_load")
    file.unlink()
    assert scene.flow("cancel", run, "--no-undo").code == 0
