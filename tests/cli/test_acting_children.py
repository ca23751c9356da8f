"""Acting on a run that is another run's child."""

import pytest

from support.acting import Scene, until
from support.acting import scene as make_scene


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


@pytest.fixture
def runs(scene) -> tuple[str, str]:
    """A parent and its child, which waits at a gate."""
    parent = scene.run("parent")
    return parent, scene.rows()[0].id


def test_an_answer_goes_on_with_the_child_and_then_with_its_parent(scene, runs):
    parent, child = runs
    result = scene.flow("approve", child)
    assert (result.code, result.out) == (0, '"approved"\n')
    assert f"completed  gated {child}" in result.err
    assert f"completed  parent {parent}" in result.err
    assert scene.flow("output", parent).out == '"after approved"\n'


def test_the_document_is_the_childs(scene, runs):
    parent, child = runs
    document = scene.flow("approve", child, "--json").document
    assert (document["id"], document["parent"], document["phase"]) == (child, parent, "completed")


def test_a_child_that_was_only_answered_leaves_both_to_resume(scene, runs):
    parent, child = runs
    assert scene.flow("approve", child, "--no-resume").code == 0
    assert scene.flow("resume", child).code == 0
    assert scene.row(parent).status == "completed"


def test_a_parent_that_lives_is_left_to_its_process(scene):
    (scene.root / "workflows" / "both.py").write_text(
        "import asyncio\nfrom flowstone import Flow, workflow\nfrom .acting import gated, hold\n\n"
        "@workflow\nasync def both(flow: Flow) -> list:\n"
        '    return await asyncio.gather(flow.do("kid", gated), flow.do("hold", hold, "a"))\n'
    )
    process, child = scene.run_to("a began", "both")
    child = until(lambda: next((row.id for row in scene.rows() if row.workflow == "gated"), None), "the child")
    until(lambda: scene.row(child).status == "suspended", "its gate")
    result = scene.flow("approve", child)
    assert (result.code, result.out) == (0, '"approved"\n')
    scene.let("a")
    assert scene.ended(process)[:2] == (0, '["approved","a"]\n')
    assert scene.hits("a began") == 1


def test_a_parent_that_was_killed_goes_on_too(scene, runs):
    parent, child = runs
    process = scene.start("approve", child)
    scene.kill(process)
    assert scene.flow("approve", child).code == 0
    until(lambda: scene.flow("recover").code == 0 and scene.row(parent).status == "completed", "the parent's end")
    assert (scene.hits("behind"), scene.hits("after approved")) == (1, 1)


def test_a_child_killed_in_its_step_is_recovered_with_its_parent(scene):
    (scene.root / "workflows" / "over.py").write_text(
        "from flowstone import Flow, workflow\nfrom .acting import dies\n\n"
        '@workflow\nasync def over(flow: Flow) -> str:\n    return await flow.do("kid", dies)\n'
    )
    assert scene.flow("run", "over").code == -9
    scene.fix()
    child, parent = (row.id for row in scene.rows())
    assert scene.flow("recover").code == 0
    assert (scene.row(parent).status, scene.row(child).status) == ("completed", "completed")
    assert (scene.hits("first"), scene.hits("die")) == (1, 2)
