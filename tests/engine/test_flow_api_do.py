"""What `flow.do` takes: functions of every sort, registered names, closures; and what it refuses."""

import asyncio
import functools
import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flowstone import Flow, current_step, step, workflow
from flowstone.errors import FlowMisuse, NotFound
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output


async def double(number: int) -> int:
    """Async."""
    return number * 2


def halve(number: int) -> float:
    """Blocking."""
    return number / 2


def thread_name() -> str:
    return threading.current_thread().name


@step
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


@step(name="shout at", retries=0, description="Loud.")
def shout(name: str) -> str:
    return name.upper()


class Order(BaseModel):
    id: str
    total: int = 0


@dataclass
class Stock:
    left: int


class Shop:
    def __init__(self, stock: int) -> None:
        self.stock = stock

    def sell(self, count: int) -> int:
        return self.stock - count


def started(engine: Throwaway, run_id: str) -> list[dict[str, Any]]:
    return [event.body() for event in engine.events(run_id) if event.kind == "step.started"]


def test_an_async_function_is_run_with_its_arguments(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        return await flow.do("double", double, 21)

    assert output(make(body), body) == 42


def test_a_blocking_function_runs_in_a_thread_of_its_own(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        return [await flow.do("halve", halve, 3), await flow.do("where", thread_name)]

    assert output(make(body), body) == [1.5, "step"]


def test_a_closure_needs_no_arguments(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[int]:
        number = 20
        return [await flow.do("sync", lambda: number + 1), await flow.do("async", lambda: double(number))]

    assert output(make(body), body) == [21, 40]


def test_an_async_closure_is_awaited(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        async def work() -> int:
            return await double(4)

        return await flow.do("work", work)

    assert output(make(body), body) == 8


def test_a_partial_is_run_and_recorded_under_its_function(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        return [
            await flow.do("double", functools.partial(double, 5)),
            await flow.do("halve", functools.partial(functools.partial(halve), 5)),
        ]

    engine = make(body)
    row = engine.run("body")
    assert engine.ledger(row.id).output == [10, 2.5]
    assert [one["function"].rpartition(".")[2] for one in started(engine, row.id)] == ["double", "halve"]


def test_builtins_classes_and_bound_methods_are_run(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        return [
            await flow.do("sum", sum, [1, 2, 3]),
            await flow.do("sqrt", math.sqrt, 16),
            await flow.do("class", Shop(5).sell, 2),
            await flow.do("int", int, "7"),
        ]

    assert output(make(body), body) == [6, 4.0, 3, 7]


def test_a_marked_step_is_recorded_under_its_registered_name(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        return [await flow.do("hi", greet, "ann"), await flow.do("loud", shout, "bob")]

    engine = make(body)
    row = engine.run("body")
    assert engine.ledger(row.id).output == ["hello ann", "BOB"]
    assert [(one["name"], one["function"], one["description"]) for one in started(engine, row.id)] == [
        ("hi", "greet", "Greet somebody."),
        ("loud", "shout at", "Loud."),
    ]


def test_a_registered_name_stands_for_its_function(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        return str(await flow.do("loud", "shout at", "bob"))

    assert output(make(body, shout), body) == "BOB"


def test_a_marked_step_is_still_an_ordinary_function() -> None:
    assert shout("x") == "X"
    assert asyncio.run(greet("x")) == "hello x"


def test_a_name_that_nobody_registered_suspends_the_run_until_it_is_there(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        return str(await flow.do("loud", "shout at", "bob"))

    first = make(body)
    row = first.run("body")
    assert row.status is Status.SUSPENDED
    assert first.events(row.id)[-1].body() == {
        "code": "FUNCTION_NOT_FOUND",
        "gates": [],
        "reasons": ["shout at"],
        "functions": ["shout at"],
    }
    assert first.resume(row.id).status is Status.SUSPENDED
    again = make(body, shout)
    assert again.resume(row.id).status is Status.COMPLETED
    assert again.ledger(row.id).output == "BOB"


def test_one_argument_is_the_recorded_input_and_several_are_a_list(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("none", thread_name)
        await flow.do("one", double, 1)
        await flow.do("two", max, 1, 2)

    engine = make(body)
    row = engine.run("body")
    assert [one["input"] for one in started(engine, row.id)] == [None, 1, [1, 2]]


def test_models_and_dataclasses_reach_the_step_and_come_back_as_such(make: Make) -> None:
    def add(order: Order, stock: Stock) -> Order:
        assert isinstance(stock, Stock)
        return Order(id=order.id, total=order.total + stock.left)

    @workflow
    async def body(flow: Flow, order: Order) -> Order:
        made = await flow.do("add", add, order, Stock(2))
        assert isinstance(made, Order)
        return made

    assert output(make(body), body, {"id": "a", "total": 3}) == {"id": "a", "total": 5}


def test_the_step_gets_a_copy_so_that_changing_it_changes_nothing_in_the_body(make: Make) -> None:
    def spoil(items: list[int]) -> int:
        items.append(4)
        return len(items)

    @workflow
    async def body(flow: Flow) -> list[Any]:
        items = [1]
        return [await flow.do("spoil", spoil, items), items]

    assert output(make(body), body) == [2, [1]]


def test_options_of_the_call_win_over_those_of_the_step(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("as marked", shout, "a")
        await flow.do("as called", shout, "a", retries=2, retry_delay="3s", timeout="1m", description="Here.")

    engine = make(body)
    row = engine.run("body")
    marked, called = started(engine, row.id)
    assert marked["policy"] | {"retry_delay": None} == {
        "retries": 0,
        "max_attempts": 1,
        "retry_delay": None,
        "timeout": None,
        "repeatable": True,
    }
    assert (called["policy"]["max_attempts"], called["policy"]["retry_delay"]) == (3, 3_000_000)
    assert (called["policy"]["timeout"], called["description"]) == (60_000_000, "Here.")


@pytest.mark.parametrize("function", [42, None, [double]])
def test_what_cannot_be_called_is_refused(make: Make, function: Any) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("x", function)
        except FlowMisuse as error:
            return str(error)
        return ""

    assert "give a function" in output(make(body), body)


def test_a_bare_number_as_a_duration_is_refused_naming_both_readings(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("x", double, 1, timeout=5)  # type: ignore[call-overload]

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    assert "5s" in str(engine.ledger(row.id).error) or "5 s" in str(engine.ledger(row.id).error)


def test_the_first_argument_must_be_a_name(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do(double, 1)  # type: ignore[call-overload]

    engine = make(body)
    row = engine.run("body")
    assert "the name is a function" in (engine.ledger(row.id).error or {})["message"]


def test_inside_a_step_current_step_tells_where_it_runs(make: Make) -> None:
    def look() -> list[Any]:
        now = current_step()
        now.note(cost=3)
        return [now.run_id, now.key, now.attempt, now.epoch, now.predecessor is None, now.invocation_id]

    @workflow
    async def body(flow: Flow) -> list[Any]:
        return [await flow.do("a", look), await flow.do("b", look)]

    engine = make(body)
    row = engine.run("body")
    first, second = engine.ledger(row.id).output
    assert first[:5] == [row.id, "a", 1, 1, True]
    assert second[:5] == [row.id, "b", 1, 1, False]
    assert first[5] != second[5]
    succeeded = [event.body() for event in engine.events(row.id) if event.kind == "step.succeeded"]
    assert succeeded[0]["notes"] == {"cost": 3}


def test_outside_of_a_step_there_is_no_current_step() -> None:
    with pytest.raises(FlowMisuse, match="outside of a step"):
        current_step()


def test_every_attempt_of_a_step_has_the_same_invocation_id(make: Make, tmp_path: Path) -> None:
    ids = tmp_path / "ids"

    def flaky() -> None:
        with ids.open("a") as file:
            file.write(current_step().invocation_id + "\n")
        if len(ids.read_text().split()) < 3:
            raise OSError("not yet")

    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("flaky", flaky, retries=3, retry_delay="0s")

    make(body).run("body")
    seen = ids.read_text().split()
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_an_unknown_workflow_is_not_found(make: Make) -> None:
    with pytest.raises(NotFound):
        make().engine.start("nothing")
