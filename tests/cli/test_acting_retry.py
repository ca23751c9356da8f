"""`flow retry`, and runs of which an undo failed."""

import pytest

from support.acting import Scene, refused, words
from support.acting import scene as make_scene


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


def test_a_retry_keeps_what_was_done(scene):
    run = scene.run("fixable")
    scene.fix()
    result = scene.flow("retry", run)
    assert (result.code, result.out) == (0, '"third"\n')
    assert [scene.hits(tag) for tag in ("first", "second", "third")] == [1, 2, 1]


def test_a_retry_may_begin_at_another_step(scene):
    run = scene.run("fixable")
    scene.fix()
    assert scene.flow("retry", run, "--from", "first").code == 0
    assert [scene.hits(tag) for tag in ("first", "second", "third")] == [2, 2, 1]


def test_a_retry_that_fails_again_is_1(scene):
    run = scene.run("fixable")
    result = scene.flow("retry", run, "--json")
    assert (result.code, result.document["phase"], result.document["next"]) == (1, "failed", f"flow retry {run}")


def test_a_dry_run_says_what_is_kept_and_touches_nothing(scene):
    run = scene.run("fixable")
    before = scene.events(run), scene.row(run)
    result = scene.flow("retry", run, "--dry-run", "--json")
    assert (result.code, result.document) == (
        0,
        {"schema": "flow.retry/1", "run": run, "from": "second", "kept": ["first"], "again": ["second"]},
    )
    assert scene.flow("retry", run, "--dry-run", "--from", "first").out == "again\tfirst\nagain\tsecond\n"
    assert words(scene.project.terminal("retry", run, "--dry-run").out) == ["kept first", "again second"]
    assert (scene.events(run), scene.row(run)) == before


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_only_a_run_that_failed_or_was_cancelled_is_retried(scene, dry):
    for workflow, hint in (("plain", "flow fork {} --from STEP"), ("gated", "flow approve {} ok")):
        run = scene.run(workflow)
        document = refused(scene.flow("retry", run, *dry, "--json"), 2, "usage")
        assert document["hint"] == hint.format(run)


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_step_that_the_run_has_not_reached_is_66(scene, dry):
    run = scene.run("fixable")
    refused(scene.flow("retry", run, "--from", "third", *dry, "--json"), 66, "not_found")
    assert scene.row(run).status == "failed"


def test_code_that_disagrees_with_the_journal_is_76_and_leaves_the_run(scene):
    run = scene.run("fixable")
    before = scene.events(run)
    file = scene.root / "workflows" / "acting.py"
    file.write_text(
        file.read_text().replace(
            '"first", hit, "first")\n    await flow.do("second"', '"zero", hit, "zero")\n    await flow.do("second"'
        )
    )
    refused(scene.flow("retry", run, "--json"), 76, "refused")
    assert scene.events(run) == before


def test_a_cancelled_run_goes_on_where_it_was(scene):
    run = scene.run("gated")
    assert scene.flow("cancel", run).code == 0
    assert scene.flow("retry", run).code == 8
    result = scene.flow("approve", run)
    assert (result.code, result.out) == (0, '"approved"\n')


def test_an_undo_that_failed_is_4_and_says_so(scene):
    result = scene.flow("run", "undo_fails")
    assert result.code == 4
    run = scene.rows()[0].id
    assert words(result.err)[-4:] == [
        f"✗ failed undo_fails {run} failed, and undo failed, at b",
        "error ValueError: not fixed yet",
        "undo undo a: ValueError: not fixed yet",
        f"next flow retry {run}",
    ]
    document = scene.flow("status", run, "--json").document
    assert document["error"]["code"] == "UNDO_FAILED"
    assert scene.flow("output", run).code == scene.flow("wait", run).code == 4


def test_a_retry_goes_on_with_the_undo_that_failed_and_then_names_fork(scene):
    run = scene.run("undo_fails")
    assert scene.flow("retry", run).code == 4
    scene.fix()
    result = scene.flow("retry", run)
    assert (result.code, f"next     flow fork {run} --from b\n" in result.err) == (1, True)
    assert (scene.hits("a"), scene.hits("b"), scene.hits("undo a")) == (1, 1, 3)
    assert refused(scene.flow("retry", run, "--json"), 2, "usage")["hint"] == f"flow fork {run} --from STEP"


COPES = """
from flowstone import Flow, workflow

def odd(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number

@workflow
async def copes(flow: Flow) -> int:
    found = await flow.map("item", odd, [1, 2, 3], failures="collect")
    if found.failed:
        raise RuntimeError(f"{len(found.failed)} failed")
    return len(found.ok)
"""


def test_failures_that_the_body_coped_with_are_kept_by_a_retry_which_says_so(scene):
    (scene.root / "workflows" / "copes.py").write_text(COPES)
    run = scene.run("copes")
    result = scene.flow("retry", run)
    assert result.code == 1
    said = "no step's failure ended the run: item[0] and 1 more, which had failed, is kept so; --from STEP begins at a step"
    assert result.err.count(said) == 1
    (scene.root / "workflows" / "copes.py").write_text(COPES.replace("if number % 2", "if number > 9"))
    result = scene.flow("retry", run, "--from", "item[0]")
    assert (result.code, result.out, "ended the run" in result.err) == (0, "3\n", False)
