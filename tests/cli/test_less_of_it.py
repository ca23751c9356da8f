"""Options that show less, in another order, or for scripts: each does what it says, and refuses what it does not know."""

import json

import pytest

from support.acting import Scene, refused, until
from support.acting import scene as make_scene

CODE = """
from flowstone import Flow, workflow

def makes() -> dict:
    return {"items": [{"total": 9}, {"total": 10}], "id": "A-1"}

def breaks() -> None:
    raise ValueError("no")

@workflow
async def made(flow: Flow) -> dict:
    await flow.set_state("seen", {"deep": [1, 2]})
    return await flow.do("makes", makes)

@workflow
async def broken(flow: Flow) -> None:
    await flow.do("makes", makes)
    await flow.do("breaks", breaks)

@workflow
async def asked(flow: Flow) -> None:
    await flow.do("makes", makes)
    await flow.approval("go")
"""


@pytest.fixture
def less(project):
    (project.root / "workflows" / "less.py").write_text(CODE)
    return project


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


@pytest.mark.parametrize(("workflow", "code"), [("made", 0), ("broken", 1), ("asked", 8)])
def test_status_exits_as_the_run_stands_only_if_it_is_asked_to(less, workflow, code):
    less.flow("run", workflow)
    assert less.flow("status", "@last").code == 0
    for more in ((), ("--json",)):
        assert less.flow("status", "@last", "--exit-status", *more).code == code


def test_status_lists_the_steps_that_are_asked_for(less):
    for workflow, open_ones, failed in (("broken", [], ["breaks"]), ("asked", ["approve:go"], [])):
        less.flow("run", workflow)
        for which, wanted in (("open", open_ones), ("failed", failed)):
            document = less.flow("status", "@last", "--steps", which, "--json").document
            assert [step["key"] for step in document["steps"]] == wanted
            piped = less.flow("status", "@last", "--steps", which).out
            assert [line.split("\t")[1] for line in piped.splitlines() if line.startswith("step\t")] == wanted
            assert "\n✓ makes" not in less.terminal("status", "@last", "--steps", which).out
    assert refused(less.flow("status", "@last", "--steps", "opn", "--json"), 2, "usage")["hint"].endswith("--steps open --json")


def test_a_path_prints_one_value_as_json(less):
    less.flow("run", "made")
    for line, wanted in (
        ("output @last --path items[1].total", 10),
        ("output @last makes --path id", "A-1"),
        ("output @last --path $", {"items": [{"total": 9}, {"total": 10}], "id": "A-1"}),
        ("state @last --path state.seen.deep", [1, 2]),
        ("state @last --path results.makes.id", "A-1"),
        ("state @last --at 0 --path results", {}),
    ):
        result = less.flow(*line.split())
        assert (result.code, json.loads(result.out)) == (0, wanted), result
    assert less.flow("output", "@last", "--path", "id", "--raw").out == "A-1"
    for verb in ("output", "state"):
        missing = refused(less.flow(verb, "@last", "--path", "nothing.here", "--json"), 66, "not_found")
        assert missing["hint"] == f"flow {verb} @last --json"
        assert less.flow(verb, "@last", "--path", "[").code == 2


def test_runs_are_sorted_by_what_is_asked_for(less):
    for workflow in ("made", "asked", "broken"):
        less.flow("run", workflow)

    def listed(*more):
        return [run["workflow"] for run in less.flow("runs", *more, "--json").document["runs"]]

    assert listed("--sort", "workflow") == ["asked", "broken", "made"]
    assert listed("--sort=-workflow") == ["made", "broken", "asked"]
    assert listed("--sort", "created") == ["made", "asked", "broken"]
    assert listed("--sort", "workflow", "-n", "1") == ["asked"]
    assert listed("--sort=-steps", "-n", "1") == ["broken"]
    assert refused(less.flow("runs", "--sort", "creatd", "--json"), 2, "usage")["hint"] == "flow runs --sort created --json"


def test_logs_since_leaves_out_what_is_older(less):
    less.flow("run", "prints")
    assert "from print" in less.flow("logs", "@last", "--since", "1h").out
    assert less.flow("logs", "@last", "--since", "2099-01-01T00:00:00Z").out == ""
    assert less.flow("logs", "@last", "--since", "yesterday").code == 2


def test_a_worker_of_one_workflow_leaves_the_others(scene):
    mine, other = (scene.flow("run", name, "--detach").out.strip() for name in ("plain", "gated"))
    assert scene.flow("worker", "--once", "--workflow", "plain").code == 0
    until(lambda: scene.row(mine).status == "completed", "the worker's own run has ended")
    assert scene.kinds(other) == ["run.created"]
    refused(scene.flow("worker", "--once", "--workflow", "plian", "--json"), 66, "not_found")
    assert scene.flow("worker", "--once", "--workflow", "plain", "--workflow", "gated").code == 0
    assert scene.row(other).status == "suspended"


def test_an_export_says_that_it_took_the_place_of_a_file(less):
    less.flow("run", "made")
    run = less.flow("status", "@last", "--json").document["id"]
    assert less.flow("export", run, "-o", "run.json").err == f"run.json holds run {run}\n"
    assert less.flow("export", run, "-o", "run.json").err == f"run.json holds run {run}, in place of what was there\n"


def test_a_run_of_nothing_leaves_an_empty_folder_as_it_was(project):
    for file in (project.root / "workflows").iterdir():
        file.unlink()
    for more in ((), ("--detach",), ("--key", "k")):
        assert project.flow("run", "nothing", *more).code == 66
    assert [path.name for path in project.root.iterdir()] == ["workflows"]


def test_the_header_of_runs_is_whole_whatever_is_noted(less):
    (less.root / "workflows" / "long.py").write_text(
        CODE.replace('"go"', f'"{"whether " * 20}"').replace("async def ", "async def x")
    )
    less.flow("run", "xasked")
    for columns in (64, 80, 100):
        header = less.terminal("runs", columns=columns).out.splitlines()[0]
        assert header.endswith("NOTE")


def test_an_attempt_is_never_one_of_fewer(scene):
    (scene.root / "workflows" / "child.py").write_text(
        "from flowstone import Flow, workflow\nfrom .scenes import fixable\n"
        "@workflow\nasync def over(flow: Flow) -> str:\n    return await flow.do('child', fixable)\n"
    )
    name = next(path.stem for path in (scene.root / "workflows").glob("*.py") if "async def fixable" in path.read_text())
    child = scene.root / "workflows" / "child.py"
    child.write_text(child.read_text().replace("scenes", name))
    scene.flow("run", "over")
    scene.fix()
    said = scene.flow("retry", "@last:over").err
    attempts = [word.removeprefix("attempt=").split("/") for word in said.split() if word.startswith("attempt=")]
    assert ["2"] in attempts
    assert [one for one in attempts if len(one) == 2 and int(one[0]) > int(one[1])] == []
