"""`flow recover`, `flow worker`, `flow run --detach`, and what `flow run` says about other runs."""

import json
import re
import signal

import pytest

from support.acting import Scene, refused, until
from support.acting import scene as make_scene


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


def lines(process_or_text):
    return [json.loads(line) for line in process_or_text.splitlines()]


def died(scene):
    """A run whose process killed itself in its second step."""
    assert scene.flow("run", "dies").code == -9
    scene.fix()
    return scene.rows()[0].id


def detached(scene, *arguments):
    result = scene.flow("run", *arguments, "--detach")
    assert result.code == 0
    return result.out.strip()


# recover


def test_recover_takes_up_what_is_interrupted(scene):
    run = died(scene)
    result = scene.flow("recover")
    assert (result.code, result.out) == (0, f"{run}\tdies\tinterrupted\tcompleted\t0\n")
    assert (scene.hits("first"), scene.hits("die")) == (1, 2)
    assert (scene.flow("recover").code, scene.flow("recover").out) == (0, "")


def test_recover_has_a_document(scene):
    run = died(scene)
    one = {"id": run, "workflow": "dies", "before": "interrupted", "after": "completed", "exit": 0, "error": None}
    assert scene.flow("recover", "--json").document == {"schema": "flow.recover/1", "runs": [one]}
    assert scene.flow("recover", "--json").document == {"schema": "flow.recover/1", "runs": []}


def test_a_dry_run_only_lists(scene):
    run = died(scene)
    before = scene.events(run)
    assert scene.flow("recover", "--dry-run").out == f"{run}\tdies\tinterrupted\t-\t-\n"
    assert scene.flow("recover", "--dry-run", "--json").document["runs"][0]["after"] is None
    assert scene.events(run) == before


def test_recover_wakes_what_is_due_and_leaves_the_rest(scene):
    due = scene.run("naps", "--set", "duration=500ms", "--no-wait")
    later = scene.run("naps", "--set", "duration=3d")
    waiting = scene.run("gated")
    until(lambda: scene.flow("status", due, "--json").document["next"] == f"flow resume {due}", "the sleep is due")
    result = scene.flow("recover")
    assert (result.code, result.out) == (0, f"{due}\tnaps\tsleeping\tcompleted\t0\n")
    assert (scene.row(later).owner, scene.row(waiting).status) == (None, "suspended")


def test_recover_closes_a_gate_that_has_expired(scene):
    run = scene.run("gated", "--set", "expiry=500ms")
    until(lambda: "expired" in scene.flow("runs").out, "the deadline")
    assert scene.flow("recover").out == f"{run}\tgated\twaiting\tcompleted\t0\n"
    assert scene.flow("output", run).out == '"expired"\n'


def test_recover_is_1_if_a_run_fails(scene):
    detached(scene, "fixable")
    assert scene.flow("recover").code == 1


def test_recover_is_bounded(scene):
    runs = [detached(scene, "plain") for _ in range(3)]
    assert [line.split("\t")[0] for line in scene.flow("recover", "--limit", "2").out.splitlines()] == runs[:2]
    assert scene.flow("recover", "--older", "1h").out == ""
    assert scene.flow("recover", "--older", "0s").out.startswith(runs[2])


def test_recover_refuses_a_duration_without_unit_and_no_runs_at_all(scene):
    for arguments in (("--older", "5"), ("--limit", "0"), ("--limit", "x")):
        refused(scene.flow("recover", *arguments, "--json"), 2, "usage")


def test_recover_in_a_fresh_project_makes_nothing(scene):
    result = scene.flow("recover")
    assert (result.code, result.out, (scene.root / ".flow").exists()) == (0, "", False)


def test_only_workflows_of_this_folder_are_taken(scene):
    run = died(scene)
    (scene.root / "elsewhere").mkdir()
    assert scene.flow("recover", "--dir", "elsewhere").out == ""
    assert scene.row(run).status == "running"


def test_a_run_that_cannot_go_on_is_told_and_no_other_suffers(scene):
    run = died(scene)
    other = detached(scene, "plain")
    before = scene.events(run)
    file = scene.root / "workflows" / "acting.py"
    file.write_text(
        file.read_text().replace(
            '"first", hit, "first")\n    return await flow.do("die"', '"zero", hit, "zero")\n    return await flow.do("die"'
        )
    )
    result = scene.flow("recover")
    assert (result.code, sorted(line.split("\t")[0] for line in result.out.splitlines())) == (76, sorted([run, other]))
    assert f"run {run} was left as it is: " in result.err
    assert scene.events(run) == before
    assert scene.row(other).status == "completed"


def test_two_sweeps_at_once_execute_each_run_once(scene):
    runs = [detached(scene, "plain", "--set", f"name=n{number}") for number in range(6)]
    sweeps = [scene.start("recover") for _ in range(3)]
    assert [scene.ended(one)[0] for one in sweeps] == [0, 0, 0]
    assert [scene.hits(f"n{number}") for number in range(6)] == [1] * 6
    assert {scene.row(run).status for run in runs} == {"completed"}


def test_a_run_in_parallel_that_died_is_taken_up_though_a_gate_is_open(scene):
    process, run = scene.run_to("slow began", "beside")
    until(lambda: "gate.opened" in scene.kinds(run), "the gate")
    scene.kill(process)
    scene.let("slow")
    assert scene.flow("recover").out == f"{run}\tbeside\tinterrupted\twaiting\t8\n"
    assert scene.flow("approve", run).code == 0


def test_a_child_that_ends_takes_its_parent_on(scene):
    run = scene.run("parent")
    child = scene.rows()[0].id
    assert scene.flow("approve", child, "--no-resume").code == 0
    result = scene.flow("recover")
    assert result.out.splitlines() == [f"{child}\tgated\twaiting\tcompleted\t0", f"{run}\tparent\twaiting\tcompleted\t0"]


# worker


def test_a_worker_once_does_what_is_due_and_leaves(scene):
    runs = [died(scene), detached(scene, "plain"), detached(scene, "fixable")]
    result = scene.flow("worker", "--once")
    assert result.code == 0
    told = lines(result.out)
    assert all(set(one) == {"at", "event", "id", "workflow", "before", "after", "exit", "error"} for one in told)
    assert {one["id"]: one["exit"] for one in told if one["event"] == "put_down"} == dict.fromkeys(runs, 0)
    assert {one["id"] for one in told if one["event"] == "taken_up"} == set(runs)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_worker_after_it_has_put_its_runs_down(scene, number, code):
    run = detached(scene, "holds")
    worker = scene.start("worker", "--poll", "100ms")
    until(lambda: scene.hits("a began"), "the step")
    scene.stop(worker, number)
    scene.let("a")
    assert scene.ended(worker)[0] == code
    row = scene.row(run)
    assert (row.owner, row.status) == (None, "suspended" if number == signal.SIGINT else "running")
    assert scene.flow("status", run, "--json").document["phase"] == ("waiting" if number == signal.SIGINT else "interrupted")
    swept = scene.flow("recover").out
    assert swept == ("" if number == signal.SIGINT else f"{run}\tholds\tinterrupted\tcompleted\t0\n")
    assert scene.flow("resume", run).out == '"a"\n'
    assert (scene.hits("first"), scene.hits("a")) == (1, 1)


def test_an_idle_worker_ends_at_once(scene):
    run = detached(scene, "plain")
    worker = scene.start("worker")
    until(lambda: scene.row(run).status == "completed", "its only run")
    worker.send_signal(signal.SIGTERM)
    assert scene.ended(worker)[0] == 143


def test_a_worker_takes_runs_that_come_later_several_at_once(scene):
    worker = scene.start("worker", "--poll", "50ms")
    holding = [detached(scene, "holds", "--set", f"name={name}") for name in "ab"]
    until(lambda: scene.hits("a began") and scene.hits("b began"), "both at once")
    for name in "ab":
        scene.let(name)
    until(lambda: {scene.row(run).status for run in holding} == {"completed"}, "their ends")
    worker.send_signal(signal.SIGINT)
    code, out, _ = scene.ended(worker)
    assert (code, len(lines(out))) == (130, 4)


def test_two_workers_execute_each_run_once(scene):
    runs = [detached(scene, "plain", "--set", f"name=n{number}") for number in range(8)]
    workers = [scene.start("worker", "--once") for _ in range(2)]
    assert [scene.ended(one)[0] for one in workers] == [0, 0]
    assert [scene.hits(f"n{number}") for number in range(8)] == [1] * 8
    assert {scene.row(run).status for run in runs} == {"completed"}


def test_a_killed_worker_leaves_its_runs_to_the_next(scene):
    run = detached(scene, "holds")
    worker = scene.start("worker")
    until(lambda: scene.hits("a began"), "the step")
    scene.kill(worker)
    scene.let("a")
    assert [one["after"] for one in lines(scene.flow("worker", "--once").out)] == [None, "completed"]
    assert (scene.hits("first"), scene.hits("a")) == (1, 1)
    assert scene.row(run).status == "completed"


def test_a_run_that_is_refused_does_not_keep_a_worker_busy(scene):
    run = died(scene)
    file = scene.root / "workflows" / "acting.py"
    file.write_text(
        file.read_text().replace(
            '"first", hit, "first")\n    return await flow.do("die"', '"zero", hit, "zero")\n    return await flow.do("die"'
        )
    )
    others = [detached(scene, "plain") for _ in range(2)]
    told = lines(scene.flow("worker", "--once", "--concurrency", "1").out)
    ends = {one["id"]: one["exit"] for one in told if one["event"] == "put_down"}
    assert ends == {run: 76, others[0]: 0, others[1]: 0}


def test_a_worker_refuses_what_makes_no_sense(scene):
    for arguments in (("--concurrency", "0"), ("--poll", "1")):
        refused(scene.flow("worker", *arguments, "--json"), 2, "usage")


# run --detach, and other runs


def test_a_detached_run_waits_for_a_worker(scene):
    result = scene.flow("run", "plain", "--detach", "--json")
    document = result.document
    assert (result.code, document["phase"], document["steps"]) == (0, "waiting", [])
    assert document["waiting"][0]["kind"] == "queue"
    assert scene.flow("runs", "--waiting-for", "queue").out.startswith(document["id"])
    assert scene.flow("wait", document["id"], "--timeout", "1ms").code == 124
    assert scene.flow("resume", document["id"]).out == '"you"\n'


def test_a_detached_run_is_checked_and_keyed_like_any_other(scene):
    refused(scene.flow("run", "plain", "--set", "nam=x", "--detach", "--json"), 65, "bad_data")
    refused(scene.flow("run", "plain", "--detach", "--wait", "--json"), 2, "usage")
    first = scene.flow("run", "plain", "--detach", "--key", "K")
    again = scene.flow("run", "plain", "--detach", "--key", "K")
    assert (first.code, again.code, first.out) == (0, 8, again.out)


def test_run_says_that_others_are_due_in_one_line(scene):
    assert "flow recover" not in scene.flow("run", "gated").err
    run = died(scene)
    detached(scene, "plain")
    result = scene.flow("run", "plain")
    assert result.err.count("2 other runs are interrupted or due: flow recover\n") == 1
    assert "flow recover" not in scene.flow("run", "plain", "-q").err
    assert scene.hits("die") == 1, "flow run executes only its own run"
    scene.flow("resume", run)
    assert "1 other run is interrupted or due: flow recover\n" in scene.flow("run", "plain").err
    scene.flow("recover")
    assert "flow recover" not in scene.flow("run", "plain").err


def test_parking_in_a_sleep_says_when_it_is_due_and_how_to_go_on(scene):
    result = scene.flow("run", "naps", "--set", "duration=2d")
    run = scene.rows()[0].id
    assert result.code == 8
    assert "due in 2d00h (" in result.err
    assert f"  next     flow resume {run} --wait\n" in result.err
    assert f"  cron     * * * * * cd {scene.root} && flow recover\n" in result.err


def test_what_a_sweep_leaves_alone_is_told_by_every_verb_that_sweeps(scene):
    assert scene.flow("run", "dies").code == -9
    assert scene.flow("recover").code == -9  # its process dies again, and the next sweep waits for a while
    run = scene.rows()[0].id
    said = rf"1 run is interrupted, taken up again in [0-9.]+m?s: flow resume {run}\n"
    for verb in (("recover",), ("recover", "--dry-run"), ("recover", "--json"), ("worker", "--once")):
        result = scene.flow(*verb)
        assert result.code == 0
        assert re.fullmatch(said, result.err), result.err
    assert "flow recover" not in scene.flow("run", "plain").err
    assert "1 other run is interrupted: flow runs\n" in scene.flow("run", "plain").err
    scene.fix()
    assert scene.flow("resume", run).code == 0
    assert scene.flow("recover").err == "no run is interrupted or due\n"


def test_runs_of_another_folder_are_told_by_every_verb_that_sweeps(scene):
    died(scene)
    scene.run("plain", "--detach")
    folder = scene.root / "elsewhere"
    folder.mkdir()
    for verb in (("recover",), ("recover", "--dry-run"), ("worker", "--once")):
        result = scene.flow(*verb, "--dir", "elsewhere")
        assert (result.code, result.out) == (0, "")
        assert f"2 runs belong to workflows that are not in {folder} (dies, plain): flow recover --dir FOLDER\n" in result.err
        assert "no run is" not in result.err
