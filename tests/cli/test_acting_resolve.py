"""`flow resolve`: what became of a step that must not be repeated."""

import pytest

from support.acting import Scene, refused
from support.acting import scene as make_scene


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


@pytest.fixture
def run(scene) -> str:
    """A run whose step killed its process, found by `flow resume`."""
    assert scene.flow("run", "pays").code == -9
    run = scene.rows()[0].id
    result = scene.flow("resume", run, "--json")
    assert (result.code, result.document["waiting"][0]["kind"]) == (8, "resolve")
    assert result.document["next"] == f"flow resolve {run} pay --result FILE --reason TEXT"
    return run


def test_a_result_is_taken_for_the_steps(scene, run):
    (scene.root / "result.json").write_text("41")
    result = scene.flow("resolve", run, "pay", "--result", "result.json", "--reason", "seen at the bank")
    assert (result.code, result.out, scene.hits("pay")) == (0, "41\n", 1)
    assert scene.audit(run)[0].action == "resolve"


def test_a_result_comes_from_stdin_too(scene, run):
    assert scene.flow("resolve", run, "pay", "--result", "-", "--reason", "seen", stdin="5").out == "5\n"


def test_failed_fails_the_step(scene, run):
    result = scene.flow("resolve", run, "pay", "--failed", "--reason", "never arrived", "--json")
    assert (result.code, result.document["error"]["message"]) == (1, "resolved as failed by ana: never arrived")
    assert scene.hits("pay") == 1


def test_retry_attempts_it_again(scene, run):
    scene.fix()
    result = scene.flow("resolve", run, "pay", "--retry", "--reason", "never arrived")
    assert (result.code, result.out, scene.hits("pay")) == (0, "7\n", 2)


@pytest.mark.parametrize(
    "said",
    [
        (),
        ("--failed", "--retry"),
        ("--result", "result.json", "--failed"),
        ("--failed", "--reason", " "),
        ("--failed",),
    ],
)
def test_not_exactly_one_word_or_no_reason_is_2(scene, run, said):
    before = scene.events(run)
    reason = () if said in (("--failed",), ("--failed", "--reason", " ")) else ("--reason", "x")
    refused(scene.flow("resolve", run, "pay", *said, *reason, "--json"), 2, "usage")
    assert scene.events(run) == before


def test_what_is_not_unknown_is_not_resolved(scene, run):
    refused(scene.flow("resolve", run, "nope", "--failed", "--reason", "x", "--json"), 66, "not_found")
    refused(scene.flow("resolve", run, "pay", "--result", "none.json", "--reason", "x", "--json"), 66, "not_found")
    (scene.root / "bad.json").write_text("{")
    refused(scene.flow("resolve", run, "pay", "--result", "bad.json", "--reason", "x", "--json"), 65, "bad_data")
    scene.fix()
    assert scene.flow("resolve", run, "pay", "--retry", "--reason", "x").code == 0
    refused(scene.flow("resolve", run, "pay", "--failed", "--reason", "x", "--json"), 75, "try_again")


def test_only_a_person_resolves(scene, run):
    assert scene.flow("recover").out == ""
    assert scene.flow("resume", run).code == 8
    assert scene.hits("pay") == 1


def test_a_result_that_does_not_fit_the_steps_annotation_is_65_and_nothing_is_written(scene, run):
    before = scene.events(run)
    result = scene.flow("resolve", run, "pay", "--result", "-", "--reason", "seen", "--json", stdin='"seven"')
    document = refused(result, 65, "bad_data")
    assert 'step "pay"' in document["message"]
    assert document["hint"] == f"flow resolve {run} pay --result FILE --reason TEXT"
    assert "should be a whole number" in scene.flow("resolve", run, "pay", "--result", "-", "--reason", "seen", stdin="{}").err
    assert (scene.events(run), scene.hits("pay")) == (before, 1)
