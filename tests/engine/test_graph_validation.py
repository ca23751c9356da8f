"""A graph that cannot work is refused before a run exists: every violation at once, each with its place."""

from pathlib import Path
from typing import Any

import pytest

from flowstone import graph, item, ref, template, trigger
from flowstone.errors import BadData, LoadFailed, NotFound, UsageError
from support.engines import Make

HERE = "engine/test_graph_validation.py"


def work() -> None: ...


def needs(text: str, other: int = 0) -> str:
    return text


def faults(nodes: Any, **options: Any) -> list[str]:
    """What is wrong, without the places."""
    with pytest.raises(LoadFailed) as refused:
        graph("wrong", nodes=nodes, **options)
    assert all(line.startswith(HERE) for line in refused.value.details), refused.value.details
    return [line.partition(": ")[2] for line in refused.value.details]


def test_all_violations_are_told_in_one_report_each_at_its_line() -> None:
    with pytest.raises(LoadFailed) as refused:
        graph(
            "wrong",
            nodes={
                "a": {"run": needs, "input": {"text": ref("x")}, "next": "bb"},
                "b": {"run": work, "next": {"yes": "a", "no": "c"}, "retries": -1},
            },
        )
    lines = [line.partition(":")[2].partition(":") for line in refused.value.details]
    first = int(lines[0][0])
    assert refused.value.message == 'the graph "wrong" has 4 faults'
    assert [(int(number) - first, text.strip()) for number, _, text in lines] == [
        (0, "nodes.b.retries: retries=-1: give a whole number from 0; attempts are retries + 1"),
        (-1, 'nodes.a.next: there is no node "bb"; did you mean "b"?'),
        (-1, 'nodes.a.input: there is no node "x"'),
        (0, 'nodes.b.next.no: there is no node "c"'),
    ]


@pytest.mark.parametrize(
    ("nodes", "options", "fault"),
    [
        ({}, {}, "nodes: the graph has no nodes"),
        ({"a": {"run": work, "nxt": "a"}}, {}, "nodes.a.nxt: a node has no such field; did you mean next?"),
        ({"a": {}}, {}, "nodes.a: a node has one of run, approval, suspend, sleep"),
        (
            {"a": {"run": work, "sleep": "1s"}},
            {},
            "nodes.a: a node has one of run, approval, suspend, sleep; this one has run and sleep",
        ),
        ({"a": {"sleep": "1s", "retries": 3}}, {}, "nodes.a.retries: only a node with run has it, and this is a node with sleep"),
        ({"a": {"sleep": 5}}, {}, 'nodes.a.sleep: 5 could be seconds or milliseconds: write "5s" or "5ms"'),
        ({"a": 5}, {}, "nodes.a.run: a int is no step: give a function, a workflow, or the name of one"),
        ({"a\n": work}, {}, "nodes.a\n: graph: the name 'a\\n' holds a control character"),
        ({"a": {"run": work, "next": ["b", "b"]}, "b": work}, {}, 'nodes.a.next: "b" is there twice'),
        ({"a": {"run": work, "next": 5}}, {}, "nodes.a.next: give the id of a node, or a list of ids"),
        ({"a": {"run": work, "next": {}}}, {}, "nodes.a.next: a map of branches has at least one"),
        (
            {"a": {"run": work, "branch": "x"}},
            {},
            "nodes.a.branch: it names where the branch stands in the result, but next is no map of branches",
        ),
        ({"a": {"run": work, "on_error": "x"}}, {}, 'nodes.a.on_error: there is no node "x"'),
        ({"a": {"run": work, "join": "some"}}, {}, "nodes.a.join: give all or any"),
        (
            {"a": {"run": needs, "next": "b"}, "b": needs},
            {},
            f"nodes.b.input: {__name__}.needs needs text, and nothing is given",
        ),
        (
            {"a": {"run": needs, "input": {"text": item()}}},
            {},
            "nodes.a.input: item() is the element of a for_each, and there is none here",
        ),
        ({"a": {"run": needs, "for_each": "x"}}, {}, 'nodes.a.for_each: there is no node "x"'),
        (
            {"a": {"run": needs, "for_each": 5}},
            {},
            "nodes.a.for_each: give the node whose result is the list, or a reference to the list",
        ),
        ({"a": {"run": work, "mode": "sequential"}}, {}, "nodes.a.mode: only a node with for_each has it"),
        ({"a": {"run": needs, "for_each": trigger(), "mode": "serial"}}, {}, "nodes.a.mode: give parallel or sequential"),
        ({"a": {"run": needs, "for_each": trigger(), "limit": 0}}, {}, "nodes.a.limit: give a whole number from 1"),
        (
            {"a": {"run": needs, "for_each": trigger(), "next": {"x": []}}},
            {},
            "nodes.a.next: a fan-out chooses no branch: say by branch= where in the list of results it stands",
        ),
        (
            {"a": {"approval": {"expires": "1d"}}},
            {},
            "nodes.a.approval.expires: an approval has message, expiry, approvers, scope, schema",
        ),
        (
            {"a": {"approval": True, "next": {"approved": []}}},
            {},
            'nodes.a.next: nothing is said for "rejected": give the nodes that come then, or []',
        ),
        (
            {"a": {"approval": True, "next": {"approved": [], "rejected": [], "no": []}}},
            {},
            "nodes.a.next.no: an approval ends as approved, rejected, expired",
        ),
        ({"a": work}, {"output": ref("b")}, 'output: there is no node "b"'),
        ({"a": work}, {"start": "b"}, 'start: there is no node "b"'),
        (
            {"a": {"run": work, "on_error": "h"}, "h": work},
            {"start": ["a", "h"]},
            'start: "h" is the error handler of "a": a run cannot begin there',
        ),
        ({"a": work, "b": work}, {"start": "a"}, "nodes.b: no way leads here from where a run begins"),
        (
            {"a": {"run": work, "next": "b"}, "b": {"run": work, "next": "a"}},
            {},
            "nodes: no node is an entry, each comes after another: a → b → a; name one by start=",
        ),
        (
            {"s": {"run": work, "next": "a"}, "a": {"run": work, "next": "b"}, "b": {"run": work, "next": "a"}},
            {},
            "nodes.a.next: a run never leaves this cycle: a → b → a",
        ),
        (
            {"s": {"run": work, "next": "a"}, "a": {"run": work, "next": "a"}},
            {},
            "nodes.a.next: a run never leaves this cycle: a → a",
        ),
        (
            {"a": {"run": needs, "input": ref("b"), "next": "b"}, "b": work},
            {"start": "a"},
            "nodes.a.next: a run never leaves this cycle: a → b → a",
        ),
    ],
)
def test_a_violation_is_told_with_its_field(nodes: Any, options: dict[str, Any], fault: str) -> None:
    assert faults(nodes, **options)[0] == fault


def test_a_node_that_is_written_twice_is_told() -> None:
    with pytest.raises(LoadFailed) as refused:
        graph(
            "twice",
            nodes={
                "a": work,
                "b": {"run": work},
                "a": {"run": work, "next": "b"},  # noqa: F601  # that is the case
            },
        )
    assert "nodes.a: the node is there twice, in lines " in refused.value.details[0]


@pytest.mark.parametrize(
    "nodes",
    [
        {
            "x": {"run": work, "next": "y"},
            "y": {"run": work, "next": {"again": "x", "up": "z"}},
            "z": {"run": work, "next": {"outer": "x", "done": []}},
        },
        {"x": {"run": work, "on_error": "fix"}, "fix": {"run": work, "next": "x"}},
        {"x": {"run": work, "next": {"again": "x", "done": "x2"}}, "x2": {"run": work, "next": {"again": "x", "done": []}}},
    ],
)
def test_cycles_that_can_be_left_are_no_fault(nodes: Any) -> None:
    graph("right", nodes=nodes, start="x")


def test_of_two_loops_inside_each_other_the_one_without_exit_is_told() -> None:
    told = faults(
        {
            "x": {"run": work, "next": "y"},
            "y": {"run": work, "next": {"again": "x", "up": "z"}},
            "z": {"run": work, "next": "x"},
        },
        start="x",
    )
    assert told == ["nodes.x.next: a run never leaves this cycle: x → y → x"]


def test_a_large_graph_is_checked_in_no_time() -> None:
    nodes: dict[str, Any] = {f"n{number}": {"run": work, "next": f"n{number + 1}"} for number in range(3000)}
    graph("large", nodes={**nodes, "n3000": work})


def test_a_start_is_an_entry_or_refused_without_a_run(make: Make) -> None:
    made = graph("begin", nodes={"a": {"run": work, "next": "c"}, "b": {"run": work, "on_error": "h"}, "c": work, "h": work})
    engine = make(made)
    for node in ("c", "h", "x"):
        with pytest.raises(UsageError, match='begins at "a", "b"'):
            engine.engine.start("begin", start=node)
    with pytest.raises(NotFound):
        engine.store.run("nothing")
    row = engine.drive(engine.engine.start("begin", start="b").row.id)
    assert list(engine.ledger(row.id).operations) == ["b"]
    assert engine.ledger(row.id).output == {"b": None}


def test_only_a_graph_has_a_start(make: Make) -> None:
    from flowstone import Flow, workflow

    @workflow
    async def body(flow: Flow) -> None: ...

    with pytest.raises(UsageError, match="is no graph"):
        make(body).engine.start("body", start="a")


@pytest.mark.parametrize(
    ("text", "refs", "filled"),
    [
        ("no value", (), "no value"),
        ("$0", (ref("a"),), "A"),
        ("$0 and $1", (ref("a"), trigger("n")), "A and 5"),
        ("$0$1$0", (ref("a"), trigger("n")), "A5A"),
        ("$$0 costs $0", (trigger("price.eur"),), "$0 costs 1.5"),
        ("[$0]", (ref("nothing"),), "[]"),
        ("$0", (trigger("price"),), '{"eur": 1.5}'),
    ],
)
def test_a_template_is_filled_with_values(text: str, refs: Any, filled: str) -> None:
    from flowstone.graph.references import part, resolve

    known = {"a": "A", "nothing": None}
    data = {"n": 5, "price": {"eur": 1.5}}
    lookup = lambda one: part(known.get(one.node) if one.origin == "node" else data, one.path)  # noqa: E731
    assert resolve(template(text, *refs), lookup) == filled


def test_a_template_with_a_place_or_a_reference_too_many_is_refused() -> None:
    with pytest.raises(BadData, match=r"\$1 has no reference"):
        template("$0 $1", ref("a"))
    with pytest.raises(BadData, match=r"reference 1 .* is not in the text"):
        template("$0", ref("a"), ref("b"))


def test_the_version_counts_topology_inputs_policies_and_functions_and_no_notes(tmp_path: Path) -> None:
    def version(**fields: Any) -> str:
        nodes: Any = {"a": {"run": work, "next": "b", **fields}, "b": work, "c": work}
        made = graph("same", nodes=nodes).definition.version
        assert made is not None
        return made.hash

    plain = version()
    assert version(notes="why") == plain
    assert version(retries=None) == plain
    others = [
        version(retries=2),
        version(next="c"),
        version(input={}),
        version(run=len),
        version(join="any"),
        version(on_error="c"),
    ]
    assert len({plain, *others}) == 7
