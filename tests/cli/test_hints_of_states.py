"""A verb that the run's state does not allow, or that names no single run, says what to type instead, and that can be typed."""

import shlex

import pytest

from support.acting import Scene, refused
from support.acting import scene as make_scene


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_retry_of_a_run_that_is_executed_is_75_as_a_resume_is(scene, dry):
    process, run = scene.run_to("a began", "holds")
    told = [refused(scene.flow(*verb, "--json"), 75, "try_again") for verb in (("retry", run, *dry), ("resume", run))]
    assert [one["hint"] for one in told] == [f"flow status {run}"] * 2
    scene.let("a")
    assert scene.ended(process)[0] == 0
    assert scene.row(run).status == "completed"


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("workflow", "hint"),
    [
        ("gated", "flow approve {} ok"),
        ("pays", "flow resolve {} pay --result FILE --reason TEXT"),
        ("plain", "flow fork {} --from STEP"),
    ],
)
def test_a_retry_of_a_run_that_has_not_failed_names_the_verb_for_it(scene, workflow, hint, dry):
    scene.flow("run", workflow)
    run = scene.rows()[0].id
    scene.flow("resume", run)
    assert refused(scene.flow("retry", run, *dry, "--json"), 2, "usage")["hint"] == hint.format(run)


def test_codes_of_states_are_told_where_codes_are_explained(project):
    assert "state" in project.flow("help", "2").out
    assert "state does not allow" in project.flow("help", "exit-codes").out


def test_of_several_runs_the_hint_keeps_verb_and_options(project):
    for _ in range(2):
        project.flow("run", "fails")
    for line in ("timeline @failed --at 5", "state @failed --at 3", "logs --failed @failed", "output @failed"):
        shown = project.flow(*line.split())
        hint = shown.err.splitlines()[-1].partition("try: ")[2]
        assert shlex.split(hint) == ["flow", *line.replace("@failed", "@failed~0").split()]
        assert "stands for" not in project.flow(*shlex.split(hint)[1:]).err


def test_an_option_without_its_value_names_the_help_of_its_verb(project):
    for line in ("show hello --graph", "run hello --set", "timeline @last --at"):
        shown = project.flow(*line.split())
        assert shown.code == 2
        assert shown.err.endswith(f"try: flow {line.split()[0]} --help\n")
