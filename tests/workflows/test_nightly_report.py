"""workflows/nightly_report.py and workflows/folder_sizes.graph.toml, through the real command."""

import pytest

from .conftest import Project, started

RUN = ["run", "nightly_report", "--input", "workflows/nightly_report.json"]


def size(project: Project) -> int:
    files = [path for pattern in ("*.py", "*.json", "*.toml") for path in (project.folder / "workflows").glob(pattern)]
    return sum(path.stat().st_size for path in files)


def test_three_sources_are_joined_rendered_and_published_after_a_yes(project):
    waiting = project.json(*RUN, exits=8)
    assert waiting["next"] == f"flow approve {waiting['id']} 'publish it'"
    report = project.folder / ".flow" / "report" / "report.txt"
    assert waiting["waiting"][0]["message"] == f"publish {report} ({size(project)} bytes)?"
    done = project.json("approve", "@waiting", "--by", "ben")
    published = project.folder / ".flow" / "published" / "report.txt"
    assert done["output"] == {"bytes": size(project), "report": str(report), "published": str(published), "by": "ben"}
    assert published.read_text() == report.read_text()
    assert published.read_text().endswith(f"{size(project):>10,}  in all\n")


def test_a_no_leaves_the_report_unpublished_and_says_so(project):
    waiting = project.json(*RUN, exits=8)
    done = project.json("reject", waiting["id"])
    assert (done["status"], done["output"]["published"]) == ("completed", None)
    told = {node["name"]: node["why"] for node in done["plan"] if node["status"] == "skipped"}
    assert told == {"publish": 'publish it chose "rejected"'}


def test_an_empty_night_is_skipped_and_completes(project):
    (project.folder / "nothing").mkdir()
    done = project.json(*RUN, "--set", "folder=nothing")
    assert done["output"] == {"bytes": 0, "report": None, "published": None, "by": None}
    told = {node["name"]: node["why"] for node in done["plan"] if node["status"] == "skipped"}
    assert told == {
        "render": 'join chose "empty"',
        "publish it": "render was skipped",
        "publish": "publish it was skipped",
    }


def test_a_night_has_one_run(project):
    first = project.json(*RUN, "--key", "nightly:2030-01-01", exits=8)
    again = project.json(*RUN, "--key", "nightly:2030-01-01", exits=8)
    assert again["id"] == first["id"]
    assert len(project.json("runs")["runs"]) == 1


@pytest.mark.parametrize("step", ["modules", "join", "render"])
def test_killed_in_a_node_it_goes_on_without_repeating_what_was_done(project, step):
    process = project.start(*RUN)
    project.kill_when(process, started(step))
    before = [fact.step for fact in project.journal() if fact.kind == "step.succeeded"]
    if project.json("status", "@last")["status"] == "running":
        project.json("resume", "@last", exits=8)
    succeeded = [fact.step for fact in project.journal() if fact.kind == "step.succeeded"]
    assert succeeded[: len(before)] == before
    assert sorted(succeeded) == ["graphs", "inputs", "join", "modules", "render"]


def test_it_may_begin_with_one_source(project):
    waiting = project.json(*RUN, "--start", "graphs", exits=8)
    assert [step["key"] for step in waiting["steps"]] == ["graphs", "join", "render", "approve:publish it"]


def test_the_graph_in_a_file_wires_the_same_steps(project):
    assert project.flow("check", "folder_sizes").startswith("workflow\tfolder_sizes\t")
    done = project.json("run", "folder_sizes", "--input", "workflows/folder_sizes.json")
    assert done["output"] == {"report": str(project.folder / ".flow" / "sizes" / "report.txt"), "bytes": size(project)}
    assert [step["key"] for step in done["steps"]] == ["list[0]", "list[1]", "list[2]", "combine", "write"]
    nothing = project.json("run", "folder_sizes", "--input", "workflows/folder_sizes.json", "--set", "patterns=[]")
    assert nothing["output"] == {"report": None, "bytes": 0}
