"""Handlers of failures: they end before the error reaches the body, once, also after a crash, and change nothing about it."""

import asyncio
from typing import Any

import pytest

from flowstone import Failed, Flow, StepFailed, workflow
from flowstone.journal.states import Status
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
