"""Graphs at the command line: drawn, checked, started at an entry, told with what they skipped."""

import json
from typing import Any

import pytest

from flowstone import graph, trigger
from flowstone_cli.render.graph import dot, mermaid

GRAPH = """
from flowstone import graph, ref, step, trigger

@step
def pick(way: str) -> str:
    return way

def work(text="done"):
    return text

way = graph("way", description="Goes one way.", nodes={
    "pick": {"run": pick, "input": {"way": trigger("way")}, "next": {"left": ["l", "gate"], "right": "r"}, "on_error": "oops"},
    "other": {"run": work, "input": {"text": "x"}, "next": "r"},
    "l": {"run": work, "for_each": trigger("items"), "next": "end"},
    "gate": {"approval": {"expiry": "2h"}, "next": {"approved": "end", "rejected": [], "expired": []}},
    "r": {"run": work, "next": "end"},
    "oops": {"run": work, "next": "end"},
    "end": work,
})
"""
BROKEN = '[nodes.a]\nrun = "pick"\nnext = ["b", "c"]\n\n[nodes.b]\nrun = "nobody"\nnext = "a"\n'


@pytest.fixture
def graphs(project: Any) -> Any:
    (project.root / "workflows" / "way.py").write_text(GRAPH)
    return project


def test_a_graph_is_drawn_as_a_tree(graphs: Any) -> None:
    shown = graphs.terminal("show", "way", NO_COLOR="1").out
    drawn = shown.partition("Goes one way.\n\n")[2].partition("\n\n")[0]
    assert drawn.split("\n") == [
        "  pick               pick",
        "    left: l          work, for each of the input.items",
        "    then end         work",
        "    left: gate       approval, expires after 2h",
        "      approved: end  see there",
        "    right: r         work",
        "    then end         see there",
        "    on error: oops   work",
        "    then end         see there",
        "  other              work",
        "  then r             see there",
    ]


def test_a_chart_has_entry_shapes_edges_with_their_branches_and_dotted_errors(graphs: Any) -> None:
    chart = graphs.flow("show", "way", "--graph", "mermaid").out
    assert chart.split("\n")[:5] == ["flowchart TD", '    n0(["pick"])', '    n1(["other"])', '    n2[/"l"/]', '    n3{{"gate"}}']
    for line in ('n0 -->|"left"| n2', 'n0 -->|"right"| n4', 'n0 -.->|"on error"| n5', "n4 --> n6"):
        assert f"    {line}\n" in chart
    chart = graphs.flow("show", "way", "--graph", "dot").out
    for line in (
        '"pick" -> "l" [label="left"];',
        '"pick" -> "oops" [label="on error", style=dotted];',
        '"l" [shape=parallelogram];',
    ):
        assert f"    {line}\n" in chart


def test_a_name_stays_text_in_every_chart() -> None:
    evil = '"]; click A "javascript:alert(1)'
    made = graph('say "hi" \\', nodes={evil: {"run": "x", "input": trigger()}, 'back\\slash"': {"run": "y", "input": 1}})
    assert "click A" in mermaid(made.model)
    assert '"]' not in mermaid(made.model).replace('"])', "")
    assert dot(made.model).startswith('digraph "say \\"hi\\" \\\\" {\n')
    assert '    "back\\\\slash\\"" [' in dot(made.model)


def test_a_graph_that_is_wrong_is_refused_with_every_line_before_a_run_exists(graphs: Any) -> None:
    (graphs.root / "workflows" / "wrong.graph.toml").write_text(BROKEN)
    for words in (["check", "wrong"], ["run", "wrong"], ["show", "wrong"]):
        done = graphs.flow(*words)
        assert (done.code, done.out) == (69, "")
        assert 'wrong.graph.toml:1: nodes.a.next: there is no node "c"' in done.err
    assert not (graphs.root / ".flow" / "flow.db").exists() or graphs.flow("runs", "--json").document["runs"] == []


def test_a_graph_is_checked_also_for_functions_that_are_not_there(graphs: Any) -> None:
    (graphs.root / "workflows" / "gone.graph.toml").write_text(BROKEN.replace('["b", "c"]', '"b"').replace('next = "a"', ""))
    done = graphs.flow("check", "gone")
    assert done.code == 69
    assert 'gone.graph.toml:5: nodes.b.run: no step or workflow "nobody"' in done.err
    assert graphs.flow("check", "way").code == 0


def test_a_run_begins_at_a_declared_entry_only(graphs: Any) -> None:
    refused = graphs.flow("run", "way", "--start", "l")
    assert (refused.code, refused.out) == (2, "")
    assert '"l" is no entry of way; a run begins at "pick", "other"' in refused.err
    done = graphs.flow("run", "way", "--start", "other")
    assert json.loads(done.out) == {"end": "done"}


def test_status_tells_what_was_skipped_and_why(graphs: Any) -> None:
    graphs.flow("run", "way", "--set", "way=right", "--set", "items=[]")
    piped = graphs.flow("status", "@last").out
    assert 'node\tl\tskipped\tpick chose "right"\n' in piped
    assert "node\toops\tskipped\tpick did not fail\n" in piped
    shown = graphs.terminal("status", "@last", NO_COLOR="1").out
    assert 'skipped: pick chose "right"' in shown
    plan = {entry["name"]: entry for entry in graphs.flow("status", "@last", "--json").document["plan"]}
    assert (plan["gate"]["status"], plan["gate"]["why"]) == ("skipped", 'pick chose "right"')
    assert plan["pick"]["status"] is None


def test_a_graph_is_read_without_its_code(graphs: Any) -> None:
    run_id = graphs.run_id("way", "--set", "way=left", "--set", "items=[1, 2]", "--no-wait")
    (graphs.root / "workflows" / "way.py").unlink()
    assert "node\toops\tskipped\tpick did not fail\n" in graphs.flow("status", run_id).out


RESTOCK = """
[nodes.reserve]
run = "reserve"
for_each = { "$trigger" = "parts" }
input = { "$item" = "" }
next = "ask"

[nodes.ask]
approval = true
next = { approved = [], rejected = [] }

[output]
counts = { "$ref" = "reserve" }
"""
FAULTY = """
from dataclasses import dataclass
from flowstone import Flow, graph, ref, step, workflow

@dataclass
class Sign:
    name: str

@step(name="reserve")
def reserve(part: str) -> int:
    return 1

def give() -> dict:
    return {"x": 1}

def take(n: int) -> int:
    return n

nowhere = graph("nowhere", nodes={
    "a": {"run": give, "next": "join"},
    "b": {"run": give, "next": "join"},
    "join": {"run": take, "input": ref("a", "nope")},
})

@workflow
async def unfit(flow: Flow) -> list:
    return [Sign("a")]
"""


@pytest.fixture
def faulty(project):
    (project.root / "workflows" / "examples.py").write_text(FAULTY)
    (project.root / "workflows" / "restock.graph.toml").write_text(RESTOCK)
    return project


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), "$.parts  missing"),
        (("--set", "parts=5"), "$.parts  should be a list"),
        (("--set", "parts=[1]"), "does not fit part of reserve: $  should be text"),
    ],
)
def test_an_input_that_a_graph_cannot_use_is_65_and_makes_no_run(faulty, given, told):
    result = faulty.flow("run", "restock", *given)
    assert (result.code, told in result.err) == (65, True), result.err
    assert faulty.flow("runs", "--count").out == "0\n"
    assert faulty.flow("run", "restock", "--set", 'parts=["a"]').code == 8


def test_a_node_at_which_a_graph_could_not_go_on_is_named_and_listed_with_its_place(faulty):
    run = faulty.run_id("nowhere")
    shown = faulty.terminal("status", run, columns=120).out
    assert "at join, workflows/examples.py:22" in shown
    assert 'failed: node "join" reads a.nope' in shown
    assert "node\tjoin\tfailed\tnode" in faulty.flow("status", run).out
    plan = faulty.flow("status", run, "--json").document["plan"]
    assert [(entry["name"], entry["status"]) for entry in plan] == [("a", None), ("b", None), ("join", "failed")]


def test_an_error_of_a_bodys_result_names_where_the_body_stands(faulty):
    result = faulty.flow("run", "unfit")
    assert result.code == 1
    assert "workflows/examples.py:25" in next(line for line in result.err.splitlines() if line.startswith("✗"))
