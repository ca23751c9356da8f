"""Calls on `flow` inside a step: refused at once, not tried again, not recorded as the step's failure."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from flowstone import Flow, workflow
from flowstone.journal.states import Status
from support.engines import Make

Ask = Callable[[Flow], Any]

ASKS: dict[str, Ask] = {
    "do": lambda flow: flow.do("inner", len, "x"),
    "sleep": lambda flow: flow.sleep("nap", "1s"),
    "suspend": lambda flow: flow.suspend("look"),
    "approval": lambda flow: flow.approval("sign"),
    "cancel": lambda flow: flow.cancel("stop"),
    "now": lambda flow: flow.now(),
    "random": lambda flow: flow.random,
    "uuid": lambda flow: flow.uuid("a"),
}


def refused(make: Make, function_of: Callable[[Flow], Callable[[], Any]]) -> tuple[list[str], dict[str, Any]]:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("outer", function_of(flow), retries=3, retry_delay="0s")

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    error = engine.ledger(row.id).error
    assert error is not None
    return engine.kinds(row.id), error


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS.keys())
def test_every_call_on_flow_inside_a_step_is_refused(make: Make, ask: Ask) -> None:
    def function_of(flow: Flow) -> Callable[[], Coroutine[Any, Any, None]]:
        async def work() -> None:
            ask(flow)

        return work

    kinds, error = refused(make, function_of)
    assert error["code"] == "MISUSE"
    assert 'inside the step "outer"' in error["message"]
    assert kinds[2:] == ["step.started outer~1", "step.cancelled outer~1", "run.failed"]


def test_a_blocking_step_is_refused_too(make: Make) -> None:
    def function_of(flow: Flow) -> Callable[[], None]:
        def work() -> None:
            ASKS["do"](flow)

        return work

    kinds, error = refused(make, function_of)
    assert error["code"] == "MISUSE"
    assert kinds[2:] == ["step.started outer~1", "step.cancelled outer~1", "run.failed"]


def test_a_closure_is_refused_too(make: Make) -> None:
    kinds, error = refused(make, lambda flow: lambda: flow.do("inner", len, "x"))
    assert error["code"] == "MISUSE"
    assert not any(kind.startswith("step.failed") for kind in kinds)


def test_a_task_that_the_step_makes_is_refused_too(make: Make) -> None:
    def function_of(flow: Flow) -> Callable[[], Coroutine[Any, Any, None]]:
        async def inner() -> None:
            await flow.do("inner", len, "x")

        async def work() -> None:
            await asyncio.gather(inner())

        return work

    assert refused(make, function_of)[1]["code"] == "MISUSE"


def test_a_step_that_swallows_the_refusal_is_refused_all_the_same(make: Make) -> None:
    def function_of(flow: Flow) -> Callable[[], Coroutine[Any, Any, int]]:
        async def work() -> int:
            try:
                await flow.do("inner", len, "x")
            except BaseException:
                return 1
            return 2

        return work

    kinds, error = refused(make, function_of)
    assert error["code"] == "MISUSE"
    assert not any(kind.startswith("step.succeeded") for kind in kinds)


def test_a_blocking_step_that_swallows_the_refusal_and_goes_on_does_not_hold_the_run(make: Make) -> None:
    released = threading.Event()

    def function_of(flow: Flow) -> Callable[[], None]:
        def work() -> None:
            try:
                flow.now()
            except BaseException:
                released.wait(30)

        return work

    try:
        assert refused(make, function_of)[1]["code"] == "MISUSE"
    finally:
        released.set()


def test_the_message_names_the_call(make: Make) -> None:
    message = refused(make, lambda flow: lambda: flow.do("inner", len, "x"))[1]["message"]
    assert message.startswith("flow.do was called inside the step")
