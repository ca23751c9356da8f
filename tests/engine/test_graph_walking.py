"""How a graph is walked: keys and predecessors, branches, cycles, joins, references, failures and their handlers."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from pydantic import BaseModel

from flowstone import Flow, NonRetryable, current_step, graph, item, ref, step, template, trigger, workflow
from flowstone.errors import BadData, LoadFailed
from flowstone.journal.states import Status
from flowstone.ports import Filter
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of, to_the_end

CALLS: Counter[str] = Counter()
"""What was called since the test began."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


def work() -> str:
    key = current_step().key
    CALLS[key] += 1
    return key


def say(text: Any) -> Any:
    CALLS[current_step().key] += 1
    return text


def again(times: int) -> int:
    """Goes round until it has been visited that often."""
    number = int(current_step().key.partition("#")[2] or 0)
    current_step().branch("again" if number < times else "done")
    return number


def broken() -> None:
    CALLS[current_step().key] += 1
    raise NonRetryable("cannot")


def run(make: Make, made: Any, data: Any = None, *others: Any) -> Any:
    engine = make(made, *others)
    return output_of(engine, to_the_end(engine, engine.engine.start(made.name, data).row.id))


def failed(make: Make, made: Any, data: Any = None) -> dict[str, Any]:
    engine = make(made)
    row = to_the_end(engine, engine.engine.start(made.name, data).row.id)
    assert row.status is Status.FAILED
    error = engine.ledger(row.id).error
    assert error is not None
    return error


def test_a_node_alone_is_a_step_and_its_result_is_the_output(make: Make) -> None:
    assert run(make, graph("one", nodes={"only": work})) == {"only": "only"}


def test_a_cycle_visits_under_new_ordinals_and_the_way_follows_from_the_predecessors(make: Make) -> None:
    made = graph(
        "round",
        nodes={
            "start": {"run": work, "next": "a"},
            "a": {"run": again, "input": {"times": 1}, "next": {"again": "b", "done": "c"}},
            "b": {"run": work, "next": "a"},
            "c": work,
        },
    )
    engine = make(made)
    row = engine.run("round")
    operations = engine.ledger(row.id).operations
    assert {key: one.opened["predecessor"] for key, one in operations.items()} == {
        "start": None,
        "a": "start",
        "b": "a",
        "a#1": "b",
        "c": "a#1",
    }
    assert output_of(engine, row) == {"c": "c"}


def test_a_node_may_lead_back_to_itself(make: Make) -> None:
    made = graph(
        "self", nodes={"a": {"run": again, "input": {"times": 3}, "next": {"again": "a", "done": []}}}, start="a", output=ref("a")
    )
    assert run(make, made) == 3


def test_a_reference_reads_the_latest_visit(make: Make) -> None:
    made = graph(
        "latest",
        nodes={
            "a": {"run": again, "input": {"times": 2}, "next": {"again": "a", "done": "b"}},
            "b": {"run": say, "input": ref("a")},
        },
        start="a",
    )
    assert run(make, made) == {"b": 2}


def test_a_loop_that_does_not_end_fails_the_run_and_names_the_node(make: Make) -> None:
    made = graph(
        "endless",
        nodes={"a": {"run": again, "input": {"times": 99}, "next": {"again": "a", "done": []}, "max_visits": 4}},
        start="a",
    )
    error = failed(make, made)
    assert 'node "a" was visited 4 times' in error["message"]


def test_the_branch_is_what_the_step_says_last(make: Make) -> None:
    def choose() -> str:
        current_step().branch("left")
        current_step().branch("right")
        return "left"

    made = graph("says", nodes={"a": {"run": choose, "next": {"left": "l", "right": "r"}}, "l": work, "r": work})
    engine = make(made)
    row = engine.run("says")
    assert output_of(engine, row) == {"r": "r"}
    succeeded = next(event for event in engine.events(row.id) if event.kind == "step.succeeded")
    assert succeeded.body()["branch"] == "right"


@pytest.mark.parametrize(
    ("result", "branch", "taken"), [("left", None, "l"), (True, None, "t"), ({"way": {"to": "left"}}, "way.to", "l")]
)
def test_the_branch_is_the_result_or_stands_in_it(make: Make, result: Any, branch: str | None, taken: str) -> None:
    fields = {} if branch is None else {"branch": branch}
    made = graph(
        "by", nodes={"a": {"run": say, "input": trigger("x"), "next": {"left": "l", "true": "t"}, **fields}, "l": work, "t": work}
    )
    assert run(make, made, {"x": result}) == {taken: taken}


def test_an_unknown_branch_fails_the_run_and_names_the_known_ones(make: Make) -> None:
    made = graph("unknown", nodes={"a": {"run": say, "input": "up", "next": {"left": "l", "right": []}}, "l": work})
    assert failed(make, made)["message"] == 'node "a" has chosen the branch "up"; it has "left", "right"'


def test_no_branch_at_all_fails_the_run(make: Make) -> None:
    made = graph("none", nodes={"a": {"run": say, "input": [1], "next": {"left": "l"}}, "l": work})
    assert 'node "a" has chosen none of its branches ("left")' in failed(make, made)["message"]


def test_a_join_waits_for_the_taken_branches_only(make: Make) -> None:
    """Field bug B44: a diamond with one side off."""
    made = graph(
        "diamond",
        nodes={
            "begin": {"run": say, "input": ["side"], "branch": "0", "next": {"side": ["on", "choose"]}},
            "on": {"run": work, "next": "join"},
            "choose": {"run": say, "input": "no", "next": {"yes": "off", "no": []}},
            "off": {"run": work, "next": "join"},
            "join": {"run": say, "input": [ref("on"), ref("off")]},
        },
    )
    assert run(make, made) == {"join": ["on", None]}
    assert CALLS["off"] == 0


def test_where_ways_come_together_a_node_runs_once_after_all(make: Make) -> None:
    order: list[str] = []

    async def note(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        order.append(current_step().key)

    made = graph(
        "together",
        nodes={
            "slow": {"run": note, "input": 20, "next": "end"},
            "quick": {"run": note, "input": 0, "next": "end"},
            "end": {"run": note, "input": 0},
        },
    )
    run(make, made)
    assert order == ["quick", "slow", "end"]


def test_a_join_of_the_first_goes_on_with_the_first(make: Make) -> None:
    async def until_the_join_has_run() -> None:
        while not CALLS["end"]:
            await asyncio.sleep(0)

    made = graph(
        "first",
        nodes={
            "slow": {"run": until_the_join_has_run, "next": "end"},
            "quick": {"run": work, "next": "end"},
            "end": {"run": work, "join": "any"},
        },
    )
    assert run(make, made) == {"end": "end"}
    assert CALLS == {"quick": 1, "end": 1}


def test_a_node_that_reads_another_comes_after_it_without_being_told(make: Make) -> None:
    made = graph("reads", nodes={"sum": {"run": say, "input": {"text": [ref("a"), ref("b")]}}, "a": work, "b": work})
    assert run(make, made) == {"sum": ["a", "b"]}


def test_an_input_gives_the_parameters_by_name(make: Make) -> None:
    class Order(BaseModel):
        id: str
        total: int

    def whole(order: Order) -> str:
        return f"{order.id}:{order.total + 1}"

    def named(text: str, times: int = 2, end: str = "!") -> str:
        return text * times + end

    made = graph(
        "inputs",
        nodes={
            "whole": {"run": whole, "input": {"id": trigger("id"), "total": 3}},
            "named": {"run": named, "input": {"text": template("$0-", trigger("id")), "end": "."}},
            "alone": {"run": say, "input": trigger()},
        },
    )
    assert run(make, made, {"id": "x"}) == {"whole": "x:4", "named": "x-x-.", "alone": {"id": "x"}}


def test_an_entry_without_input_gets_the_runs_input_and_other_nodes_nothing(make: Make) -> None:
    def optional(text: str = "nothing") -> str:
        return text

    made = graph("default", nodes={"a": {"run": say, "next": "b"}, "b": optional}, output=[ref("a"), ref("b")])
    assert run(make, made, {"x": 1}) == [{"x": 1}, "nothing"]


def half(number: int) -> int:
    return number // 2


def two(a: int, b: int, c: int = 0) -> int:
    return a + b + c


NEEDS: Any = {
    "a": {"run": half, "input": {"number": trigger("n")}, "next": "b"},
    "b": {"run": say, "input": {"text": template("$0", trigger("day"))}},
}
EACH: Any = {"each": {"run": half, "for_each": trigger("parts")}}


@pytest.mark.parametrize(
    ("nodes", "data", "told"),
    [
        (NEEDS, {"n": "many", "day": 1}, ['the input of node "a" does not fit number of half: $  should be a whole number']),
        (NEEDS, None, ['$.n  missing; node "a" reads it']),
        (NEEDS, {"date": 1}, ['$.n  missing; node "a" reads it', '$.day  missing; node "b" reads it']),
        (EACH, None, ['$.parts  missing; node "each" goes over it']),
        (EACH, {}, ['$.parts  missing; node "each" goes over it']),
        (EACH, {"parts": 5}, ['$.parts  should be a list; node "each" goes over it']),
        (EACH, {"parts": [1, "x"]}, ['the input of item "1" of node "each" does not fit number of half: $  should be a whole']),
        ({"a": two}, {"a": 1}, ['the input of node "a" has no "b", which two needs']),
        ({"a": two}, {"a": 1, "b": 2, "d": 3}, ['the input of node "a" has "d", but two takes a, b, c']),
    ],
)
def test_an_input_with_which_a_run_could_only_fail_is_refused_before_there_is_one(
    make: Make, nodes: Any, data: Any, told: list[str]
) -> None:
    engine = make(graph("unfit", nodes=nodes))
    with pytest.raises(BadData, match="the input does not fit unfit") as refusal:
        engine.engine.start("unfit", data)
    assert [detail[: len(line)] for detail, line in zip(refusal.value.details, told, strict=True)] == told
    assert engine.store.runs(Filter()) == []


def test_what_only_a_chosen_way_needs_of_the_input_is_not_asked_of_all(make: Make) -> None:
    nodes: Any = {
        "a": {"run": lambda kind: kind, "input": {"kind": trigger("kind")}, "next": {"small": [], "large": "b"}},
        "b": {"run": say, "input": {"text": trigger("why")}},
    }
    made = graph("chooses", nodes=nodes)
    assert make(made).run("chooses", {"kind": "small"}).status is Status.COMPLETED
    error = failed(make, made, {"kind": "large"})
    assert error["message"] == 'node "b" reads the input.why: there is no "why" in it; it has kind'
    assert error["data"]["node"] == "b"
    assert error["site"] is not None
    assert error["site"].startswith("engine/test_graph_walking.py:")


@pytest.mark.parametrize(
    ("input", "told"),
    [
        ([ref("a"), 2], 'the input of node "b" is no object, and two takes a, b, c'),
        (template("$0", ref("a")), 'the input of node "b" is no object, and two takes a, b, c'),
        (5, 'the input of node "b" is no object, and two takes a, b, c'),
        ({"a": ref("a")}, 'the input of node "b" has no "b", which two needs'),
        ({"a": ref("a"), "b": 1, "d": 1}, 'the input of node "b" has "d", but two takes a, b, c'),
    ],
)
def test_an_input_whose_form_no_call_takes_is_a_fault_of_the_graph(input: Any, told: str) -> None:
    with pytest.raises(LoadFailed, match="a fault") as refusal:
        graph("misfit", nodes={"a": {"run": lambda: 1, "next": "b"}, "b": {"run": two, "input": input}})
    assert told in refusal.value.details[0]
    assert "nodes.b.input" in refusal.value.details[0]


def test_a_literal_that_does_not_fit_and_a_named_function_are_known_before_a_run_is(make: Make) -> None:
    @step(name="twice")
    def by_name(a: int, b: int) -> int:
        return a + b

    literal = graph("literal", nodes={"a": {"run": half, "input": {"number": "many"}}})
    named = graph("named", nodes={"a": {"run": "twice", "input": [1, 2]}})
    engine = make(literal, named, by_name)
    for name, told in (("literal", "does not fit number of half"), ("named", "is no object, and twice takes a, b")):
        with pytest.raises(LoadFailed, match="a fault") as refusal:
            engine.engine.start(name)
        assert told in refusal.value.details[0]
    assert engine.store.runs(Filter()) == []


def test_a_node_without_a_result_reads_as_none(make: Make) -> None:
    def nothing() -> None: ...

    made = graph("nothing", nodes={"a": {"run": nothing, "next": "b"}, "b": {"run": say, "input": {"text": [ref("a", "x.y")]}}})
    assert run(make, made) == {"b": [None]}


def test_typed_results_reach_the_next_node_as_its_own_types(make: Make) -> None:
    from datetime import date, timedelta

    def today() -> date:
        return date(2030, 1, 1)

    def tomorrow(day: date) -> date:
        return day + timedelta(days=1)

    made = graph("typed", nodes={"a": {"run": today, "next": "b"}, "b": {"run": tomorrow, "input": ref("a")}})
    assert run(make, made) == {"b": "2030-01-02"}


def test_the_output_is_made_of_references(make: Make) -> None:
    made = graph(
        "out",
        nodes={"a": {"run": say, "input": {"text": {"n": [1, 2]}}}},
        output={"second": ref("a", "n.1"), "all": template("$0", ref("a"))},
    )
    assert run(make, made) == {"second": 2, "all": '{"n": [1, 2]}'}


# failures


def test_a_failure_without_a_handler_fails_the_run_with_the_nodes_error(make: Make) -> None:
    error = failed(make, graph("fails", nodes={"a": {"run": broken, "next": "b"}, "b": work}))
    assert (error["step"], error["message"]) == ("a", "cannot")
    assert CALLS == {"a": 1}


def test_a_handler_runs_once_after_the_retries_and_the_run_goes_on(make: Make) -> None:
    def flaky() -> None:
        CALLS["flaky"] += 1
        raise OSError("gone")

    made = graph(
        "handled",
        nodes={
            "a": {"run": flaky, "retries": 2, "retry_delay": "1s", "next": "after", "on_error": "handle"},
            "after": {"run": say, "input": {"text": ref("a", "error.message")}},
            "handle": {"run": say, "next": "after"},
        },
        output=[ref("handle", "error.type"), ref("after")],
    )
    assert run(make, made) == ["OSError", "gone"]
    assert CALLS == {"flaky": 3, "handle": 1, "after": 1}


def test_a_handler_does_not_run_when_nothing_fails(make: Make) -> None:
    made = graph("well", nodes={"a": {"run": work, "on_error": "handle"}, "handle": say})
    assert run(make, made) == {"a": "a"}
    assert CALLS == {"a": 1}


@pytest.mark.parametrize(("retries", "attempts"), [(3, 4), (0, 1), (None, 6)])
def test_the_retries_of_a_node_are_its_steps(make: Make, retries: int | None, attempts: int) -> None:
    def flaky() -> None:
        CALLS["flaky"] += 1
        raise OSError("gone")

    fields: dict[str, Any] = {} if retries is None else {"retries": retries, "retry_delay": "1s"}
    made = graph("retries", nodes={"a": {"run": flaky, **fields}})
    failed(make, made)
    assert CALLS["flaky"] == attempts


def test_what_runs_beside_a_failure_is_let_end_and_nothing_new_begins(make: Make) -> None:
    async def slow() -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        CALLS["slow"] += 1

    made = graph("beside", nodes={"slow": {"run": slow, "next": "late"}, "bad": broken, "late": work, "nap": {"sleep": "2h"}})
    engine = make(made)
    row = to_the_end(engine, engine.engine.start("beside").row.id)
    assert row.status is Status.FAILED
    assert CALLS == {"bad": 1, "slow": 1}
    assert [event.step for event in engine.events(row.id) if event.kind == "step.cancelled"] == ["sleep:nap"]


@pytest.mark.parametrize("order", [("b", "c"), ("c", "b")])
def test_a_retry_runs_only_what_failed_and_what_depends_on_it(make: Make, order: tuple[str, str]) -> None:
    """Field bug B17."""
    fails = {"c"}

    async def once() -> str:
        key = current_step().key
        CALLS[key] += 1
        if key in fails:
            fails.discard(key)
            raise NonRetryable("not yet")
        for _ in range(20 if key == "b" else 0):
            await asyncio.sleep(0)
        return key

    made = graph(
        "b17",
        nodes={
            "a": {"run": once, "next": [*order]},
            "b": {"run": once, "next": "d"},
            "c": {"run": once, "next": "d"},
            "d": once,
        },
    )
    engine = make(made)
    row = engine.run("b17")
    assert row.status is Status.FAILED
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == {"d": "d"}
    assert CALLS == {"a": 1, "b": 1, "c": 2, "d": 1}


def test_a_fork_at_a_node_keeps_what_came_before_it(make: Make) -> None:
    made = graph(
        "forked",
        nodes={"a": {"run": work, "next": "b"}, "b": {"run": say, "input": {"text": trigger("x")}, "next": "c"}, "c": work},
        output=ref("b"),
    )
    engine = make(made)
    row = engine.run("forked", {"x": 1})
    fork = engine.engine.fork(row.id, "b", {"x": 2})
    assert output_of(engine, engine.drive(fork.id)) == 2
    assert CALLS == {"a": 1, "b": 2, "c": 2}


def test_a_missing_function_suspends_the_run_which_then_goes_on(make: Make) -> None:
    made = graph("missing", nodes={"a": {"run": work, "next": "b"}, "b": {"run": "later", "input": {"text": ref("a")}}})
    engine = make(made)
    row = engine.run("missing")
    suspension = engine.ledger(row.id).suspension
    assert row.status is Status.SUSPENDED
    assert suspension is not None
    assert suspension["code"] == "FUNCTION_NOT_FOUND"
    engine.close()
    other = make(made, step(name="later")(say))
    assert output_of(other, other.resume(row.id)) == {"b": "a"}


# children, state, cancelling


def test_a_workflow_is_a_child_run_and_a_graph_may_be_one(make: Make) -> None:
    @workflow
    async def child(flow: Flow, x: int) -> int:
        return await flow.do("double", lambda: x * 2)

    inner = graph("inner", nodes={"i": {"run": say, "input": trigger("v")}}, output=ref("i"))
    made = graph(
        "parent",
        nodes={
            "c": {"run": child, "input": {"x": trigger("x")}, "next": ["g", "n"]},
            "g": {"run": inner, "input": {"v": ref("c")}},
            "n": {"run": "child", "input": {"x": 5}},
        },
    )
    assert run(make, made, {"x": 4}, child, inner) == {"g": 8, "n": 10}


def test_a_node_sets_the_state_of_the_run_when_it_has_succeeded(make: Make) -> None:
    def sets() -> None:
        current_step().set_state("seen", {"n": 1})
        if current_step().attempt == 1:
            current_step().set_state("lost", True)
            raise OSError("again")

    made = graph("state", nodes={"a": {"run": sets, "next": "b"}, "b": work})
    engine = make(made)
    row = to_the_end(engine, engine.engine.start("state").row.id)
    assert engine.ledger(row.id).state == {"seen": {"n": 1}}
    assert [event.step for event in engine.events(row.id) if event.kind == "state.set"] == ["state:seen"]


def test_a_step_of_a_body_has_no_branches_and_sets_no_state(make: Make) -> None:
    def chooses() -> None:
        current_step().branch("x")

    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("a", chooses)

    engine = make(body)
    row = engine.run("body")
    error = engine.ledger(row.id).error
    assert error is not None
    assert "is no node of a graph" in error["message"]


def test_a_cancelled_graph_ends_cancelled(make: Make) -> None:
    made = graph("cancel", nodes={"a": {"sleep": "2h", "next": "b"}, "b": work})
    engine = make(made)
    row = engine.run("cancel")
    engine.engine.cancel(row.id, "enough")
    assert engine.drive(row.id).status is Status.CANCELLED
    assert CALLS == {}


def test_an_edit_of_what_is_still_to_come_migrates_a_run_and_one_of_what_was_done_does_not(make: Make) -> None:
    from flowstone.errors import Diverged

    def made(first: str, last: str) -> Any:
        return graph(
            "edited",
            nodes={"a": {"run": work, "next": "hold"}, first: {"run": work}, "hold": {"suspend": True, "next": last}, last: work},
        )

    engine = make(made("x", "y"))
    row = engine.run("edited")
    engine.close()
    with pytest.raises(Diverged):
        make(made("other", "y")).engine.check(row.id)
    engine = make(made("x", "new"))
    assert output_of(engine, engine.resume(row.id)) == {"x": "x", "new": "new"}
    assert "run.migrated" in engine.kinds(row.id)


# fan-outs


def test_a_fan_out_is_a_step_per_element_and_gives_the_results_in_order(make: Make) -> None:
    async def late(n: int, of: int) -> int:
        for _ in range((of - n) * 5):
            await asyncio.sleep(0)
        return n * n

    made = graph(
        "fan",
        nodes={
            "list": {"run": say, "input": {"text": [1, 2, 3]}, "next": "each"},
            "each": {"run": late, "for_each": "list", "input": {"n": item(), "of": trigger("of")}, "next": "sum"},
            "sum": {"run": say, "input": ref("each")},
        },
    )
    engine = make(made)
    row = engine.run("fan", {"of": 3})
    assert output_of(engine, row) == {"sum": [1, 4, 9]}
    assert list(engine.ledger(row.id).operations) == ["list", "each[0]", "each[1]", "each[2]", "sum"]


@pytest.mark.parametrize(("fields", "most"), [({"mode": "sequential"}, 1), ({"limit": 2}, 2), ({}, 5)])
def test_a_fan_out_runs_as_many_at_once_as_it_may(make: Make, fields: dict[str, Any], most: int) -> None:
    running, seen, order = [0], [0], []

    async def one(n: int) -> None:
        running[0] += 1
        seen[0] = max(seen[0], running[0])
        order.append(n)
        for _ in range(30):
            await asyncio.sleep(0)
        running[0] -= 1

    run(make, graph("limited", nodes={"each": {"run": one, "for_each": trigger(), **fields}}), [0, 1, 2, 3, 4])
    assert seen == [most]
    assert order == [0, 1, 2, 3, 4]


def test_fan_outs_follow_each_other_and_an_empty_one_is_done(make: Make) -> None:
    nodes: dict[str, Any] = {
        "a": {"run": say, "for_each": trigger("xs"), "next": "b"},
        "b": {"run": say, "for_each": "a", "next": "c"},
        "c": {"run": say, "input": ref("b")},
    }
    assert run(make, graph("chain", nodes=nodes), {"xs": [1, 2]}) == {"c": [1, 2]}
    engine = make(graph("empty", nodes=nodes))
    assert output_of(engine, engine.run("empty", {"xs": []})) == {"c": []}


def test_a_fan_out_over_no_list_fails_the_run_naming_the_source(make: Make) -> None:
    made = graph("nolist", nodes={"a": {"run": say, "input": "text", "next": "b"}, "b": {"run": say, "for_each": ref("a")}})
    assert failed(make, made)["message"] == 'node "b" goes over a, which is no list but str'


def test_items_have_the_keys_that_are_asked_for_and_no_key_twice(make: Make) -> None:
    made = graph("keys", nodes={"each": {"run": say, "for_each": trigger(), "key": "id", "input": {"text": item("id")}}})
    engine = make(made)
    row = engine.run("keys", [{"id": "x"}, {"id": "y/z"}])
    assert list(engine.ledger(row.id).operations) == ["each[x]", "each[y%2Fz]"]
    with pytest.raises(BadData) as refusal:
        engine.run("keys", [{"id": "x"}, {"id": "x"}])
    assert 'two items have the key "x"' in refusal.value.details[0]


def test_a_failing_element_neither_completes_the_run_nor_leads_on_and_a_retry_runs_only_it(make: Make) -> None:
    fails = {2}

    def one(n: int) -> int:
        CALLS[str(n)] += 1
        if n in fails:
            raise NonRetryable("no")
        return n

    made = graph(
        "part", nodes={"each": {"run": one, "for_each": trigger(), "next": "after"}, "after": {"run": say, "input": ref("each")}}
    )
    engine = make(made)
    row = engine.run("part", [1, 2, 3])
    error = engine.ledger(row.id).error
    assert error is not None
    assert error["step"] == "each[1]"
    assert CALLS["after"] == 0
    fails.clear()
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == {"after": [1, 2, 3]}
    assert CALLS == {"1": 1, "2": 2, "3": 1, "after": 1}


def test_a_handler_takes_the_failure_of_a_fan_out_once(make: Make) -> None:
    made = graph(
        "fanned",
        nodes={
            "each": {"run": broken_item, "for_each": trigger(), "on_error": "handle"},
            "handle": {"run": say, "input": {"text": ref("each", "error.step")}},
        },
    )
    assert run(make, made, [1, 2]) == {"handle": "each[0]"}
    assert CALLS["handle"] == 1


def broken_item(n: int) -> None:
    raise NonRetryable(f"{n}")


def test_a_fan_out_in_a_loop_has_keys_of_its_own_in_each_round(make: Make) -> None:
    made = graph(
        "loopfan",
        nodes={
            "each": {"run": say, "for_each": trigger(), "next": "again"},
            "again": {"run": again, "input": {"times": 1}, "next": {"again": "each", "done": []}},
        },
        start="each",
    )
    engine: Throwaway = make(made)
    row = engine.run("loopfan", [7])
    assert list(engine.ledger(row.id).operations) == ["each[0]", "again", "each#1[0]", "again#1"]
