"""Gates, sleeps and suspends as nodes of a graph; skipped nodes are told, and why."""

from typing import Any

from pydantic import BaseModel

from flowstone import graph, ref, template, trigger
from flowstone.graph.document import model_in
from flowstone.graph.fates import Fate, fates
from flowstone.journal.states import Status
from flowstone.ports import RunRow
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of


class SignOff(BaseModel):
    limit: int


def say(text: Any = "said") -> Any:
    return text


def fail() -> None:
    raise ValueError("cannot")


def unvisited(engine: Throwaway, row: RunRow) -> list[Fate]:
    source = engine.store.source(row.version)
    assert source is not None
    model = model_in(source.text)
    assert model is not None
    return fates(model, engine.ledger(row.id))


def test_an_approval_chooses_by_its_outcome_and_gives_its_data(make: Make) -> None:
    made = graph(
        "asks",
        nodes={
            "ask": {
                "approval": {"message": template("more than $0?", trigger("n")), "schema": SignOff, "expiry": "2h"},
                "next": {"approved": "yes", "rejected": "no", "expired": "late"},
            },
            "yes": {"run": say, "input": {"text": [ref("ask", "data.limit"), ref("ask", "approved"), ref("ask", "comment")]}},
            "no": {"run": say, "input": {"text": ref("ask", "status")}},
            "late": {"run": say, "input": {"text": ref("ask", "status")}},
        },
    )
    engine = make(made)
    for answer, expected in ((True, {"yes": [5, True, "fine"]}), (False, {"no": "rejected"}), (None, {"late": "expired"})):
        row = engine.run("asks", {"n": 3})
        (gate,) = engine.ledger(row.id).open_gates()
        assert (gate.key, gate.opened["message"]) == ("approve:ask", "more than 3?")
        if answer is None:
            engine.clock.move("3h")  # type: ignore[attr-defined]
        else:
            engine.engine.answer(row.id, "ask", yes=answer, data={"limit": 5} if answer else None, comment="fine")
        assert output_of(engine, engine.drive(row.id)) == expected


def test_a_gate_that_no_way_leads_to_is_not_waited_for(make: Make) -> None:
    """Field bug B25."""
    made = graph(
        "b25",
        nodes={
            "a": {"run": say, "input": "no", "next": {"yes": "gate", "no": "end"}},
            "gate": {"approval": True, "next": {"approved": "end", "rejected": []}},
            "end": say,
        },
    )
    engine = make(made)
    row = engine.run("b25")
    assert row.status is Status.COMPLETED
    assert unvisited(engine, row) == [Fate("gate", "skipped", 'a chose "no"', "branch")]


def test_gates_of_parallel_ways_are_open_at_once_and_each_needs_its_answer(make: Make) -> None:
    """Field bug B26."""
    made = graph(
        "b26",
        nodes={
            "a": {"run": say, "next": ["one", "two"]},
            "one": {"approval": True},
            "two": {"approval": True},
        },
        output=[ref("one", "by"), ref("two", "status")],
    )
    engine = make(made)
    row = engine.run("b26")
    assert [gate.name for gate in engine.ledger(row.id).open_gates()] == ["one", "two"]
    engine.engine.answer(row.id, "two", yes=True)
    row = engine.drive(row.id)
    assert row.status is Status.SUSPENDED
    assert [gate.name for gate in engine.ledger(row.id).open_gates()] == ["one"]
    engine.engine.answer(row.id, "one", yes=True, by="ana")
    assert output_of(engine, engine.drive(row.id)) == ["ana", "approved"]


def test_a_suspend_is_passed_by_resume_and_a_sleep_by_time(make: Make) -> None:
    made = graph("waits", nodes={"hold": {"suspend": True, "next": "nap"}, "nap": {"sleep": "2h", "next": "end"}, "end": say})
    engine = make(made)
    row = engine.run("waits")
    assert row.status is Status.SUSPENDED
    row = engine.resume(row.id)
    assert (row.status, list(engine.ledger(row.id).operations)) == (Status.RUNNING, ["suspend:hold", "sleep:nap"])
    engine.clock.move("2h")  # type: ignore[attr-defined]
    assert output_of(engine, engine.drive(row.id)) == {"end": "said"}


def test_skipped_by_a_choice_is_told_apart_from_not_reached_after_a_failure(make: Make) -> None:
    """Field bug B44."""
    made = graph(
        "b44",
        nodes={
            "choose": {"run": say, "input": "left", "next": {"left": "l", "right": "r"}},
            "l": {"run": say, "input": {"text": 1}, "next": "join", "on_error": "handle"},
            "r": {"run": say, "next": "join"},
            "handle": {"run": say, "next": "join"},
            "join": {"run": fail, "next": "after"},
            "after": {"run": say, "next": "end"},
            "end": say,
        },
    )
    engine = make(made)
    row = engine.run("b44")
    assert row.status is Status.FAILED
    assert unvisited(engine, row) == [
        Fate("r", "skipped", 'choose chose "left"', "branch"),
        Fate("handle", "skipped", "l did not fail", "no failure"),
        Fate("after", "skipped", "join failed", "run ended"),
        Fate("end", "skipped", "after was skipped", "skipped"),
    ]


def test_while_a_run_goes_on_what_may_still_come_is_planned(make: Make) -> None:
    made = graph(
        "going",
        nodes={
            "choose": {"run": say, "input": "left", "next": {"left": "hold", "right": "r"}},
            "hold": {"suspend": True, "next": "end"},
            "r": {"run": say, "next": "end"},
            "end": say,
        },
    )
    engine = make(made)
    row = engine.run("going")
    assert [(fate.node, fate.status) for fate in unvisited(engine, row)] == [("r", "skipped"), ("end", "planned")]


def test_nodes_of_other_entries_are_skipped_by_a_start(make: Make) -> None:
    made = graph("starts", nodes={"a": {"run": say, "next": "c"}, "b": {"run": say, "next": "c"}, "c": say})
    engine = make(made)
    row = engine.drive(engine.engine.start("starts", start="b").row.id)
    assert output_of(engine, row) == {"c": "said"}
    assert unvisited(engine, row) == [Fate("a", "skipped", "the run began at b", "start")]
