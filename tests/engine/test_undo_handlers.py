"""Handlers of failures: they end before the error reaches the body, once, also after a crash, and change nothing about it."""

import asyncio
from typing import Any

import pytest

from flowstone import Failed, Flow, StepFailed, step, workflow
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.effects import BROKEN, EFFECTS, die_at, forget, tell, work
from support.engines import Make, output_of, to_the_end


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    forget()


def test_the_handler_ends_before_the_error_reaches_the_body(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("bad", work, "bad", on_error=tell)
        except StepFailed as failure:
            await flow.do("instead", work, "instead")
            return str(failure)
        return ""

    BROKEN.add("bad")
    engine = make(body)
    assert output_of(engine, engine.run("body")) == 'step "bad" failed: ValueError: bad does not work'
    assert EFFECTS == ["bad", "told bad bad ValueError", "instead"]


def test_a_handler_runs_once_for_a_step_that_is_retried(make: Make) -> None:
    def down(name: str) -> None:
        EFFECTS.append(name)
        raise OSError("down")

    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("bad", down, "bad", retries=2, retry_delay="1s", on_error=tell)

    engine = make(body)
    row = engine.run("body")
    assert EFFECTS == ["bad"]
    assert to_the_end(engine, row.id).status is Status.FAILED
    assert EFFECTS == ["bad"] * 3 + ["told bad bad OSError"]


def test_a_handler_that_fails_changes_nothing_about_the_error(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("bad", work, "bad", on_error=tell)

    BROKEN.update({"bad", "tell"})
    engine = make(body)
    row = engine.run("body")
    error = engine.ledger(row.id).error
    assert error is not None
    assert (error["message"], error["step"]) == ("bad does not work", "bad")


@pytest.mark.parametrize("event", ["step.failed bad~1", "step.started bad:on_error~1", "step.succeeded bad:on_error~1"])
def test_after_a_death_around_the_handler_it_has_run_and_the_step_has_not_run_again(make: Make, event: str) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("bad", work, "bad", on_error=tell)
        except StepFailed as failure:
            return failure.message
        return ""

    BROKEN.add("bad")
    engine = make(body)
    run_id = engine.engine.start("body").row.id
    die_at(engine, run_id, event)
    other = make(body, clock=engine.clock)
    assert output_of(other, other.resume(run_id)) == "bad does not work"
    assert EFFECTS[0] == "bad"
    assert EFFECTS.count("bad") == 1
    assert EFFECTS.count("told bad bad ValueError") == 1


def test_a_handler_that_runs_while_a_sibling_fails_the_run_is_let_end(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await asyncio.gather(flow.do("one", work, "one", 1, on_error=slowly), flow.do("two", work, "two", 3))

    BROKEN.update({"one", "two"})
    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    assert EFFECTS[-1] == "slowly told one"
    assert all(not operation.open for operation in engine.ledger(row.id).operations.values())


async def slowly(failed: Failed[Any, Any]) -> None:
    for _ in range(200):
        await asyncio.sleep(0)
    EFFECTS.append(f"slowly told {failed.args[0]}")


@step(name="call the desk")
def call(_: Any) -> None:
    EFFECTS.append("called")
    if "desk" in BROKEN:
        raise OSError("nobody there")


@step(name="call the boss")
def call_the_boss(_: Any) -> None:
    EFFECTS.append("called the boss")


@workflow(name="calls")
async def calls(flow: Flow) -> str:
    return await copes(flow.do("bad", work, "bad", on_error=call))


@workflow(name="calls")
async def calls_no_more(flow: Flow) -> str:
    return await copes(flow.do("bad", work, "bad"))


@workflow(name="calls")
async def calls_the_boss(flow: Flow) -> str:
    return await copes(flow.do("bad", work, "bad", on_error=call_the_boss))


async def copes(work: Any) -> str:
    try:
        await work
    except StepFailed as failure:
        return failure.message
    return ""


def before_its_handler_has_worked(make: Make) -> tuple[Throwaway, str]:
    BROKEN.update({"bad", "desk"})
    engine = make(calls, call)
    row = engine.run("calls")
    assert EFFECTS == ["bad", "called"]
    BROKEN.discard("desk")
    engine.clock.move("1h")  # type: ignore[attr-defined]
    return engine, row.id


@pytest.mark.parametrize("edited", [calls, calls_no_more, calls_the_boss])
def test_a_handler_that_is_still_to_run_is_the_recorded_one_whatever_the_code_says_now(make: Make, edited: Any) -> None:
    engine, run_id = before_its_handler_has_worked(make)
    other = make(edited, call, call_the_boss, clock=engine.clock, version="2")
    assert output_of(other, other.drive(run_id)) == "bad does not work"
    assert EFFECTS == ["bad", "called", "called"]


@pytest.mark.parametrize("edited", [calls_no_more, calls_the_boss])
def test_a_handler_that_is_gone_suspends_the_run_until_it_is_there(make: Make, edited: Any) -> None:
    engine, run_id = before_its_handler_has_worked(make)
    without = make(edited, call_the_boss, clock=engine.clock, version="2")
    assert without.drive(run_id).status is Status.SUSPENDED
    suspension = without.ledger(run_id).suspension or {}
    assert (suspension["code"], suspension["functions"]) == ("FUNCTION_NOT_FOUND", ["call the desk"])
    again = make(edited, call, clock=engine.clock, version="2")
    assert output_of(again, again.resume(run_id)) == "bad does not work"
    assert EFFECTS == ["bad", "called", "called"]


def test_a_run_whose_handler_is_gone_can_be_cancelled(make: Make) -> None:
    engine, run_id = before_its_handler_has_worked(make)
    without = make(calls_no_more, clock=engine.clock, version="2")
    without.drive(run_id)
    without.engine.cancel(run_id, "enough")
    assert without.drive(run_id, verb="cancel").status is Status.CANCELLED
    assert all(not operation.open for operation in without.ledger(run_id).operations.values())
