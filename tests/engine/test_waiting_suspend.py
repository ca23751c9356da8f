"""Suspend gates: passed only by the verb `flow resume`, and only those that were open when the run was suspended."""

import asyncio

import pytest

from flowstone import Flow, workflow
from flowstone.errors import NotFound
from flowstone.journal.states import Status
from support.engines import Make, output_of


async def same(value: int) -> int:
    return value


@workflow
async def twice(flow: Flow) -> int:
    await flow.suspend("look")
    await flow.suspend("look")
    return 2


@workflow
async def beside(flow: Flow) -> int:
    await asyncio.gather(flow.suspend("left"), flow.suspend("right"))
    return 2


def test_a_suspend_suspends_the_run_and_says_why(make: Make) -> None:
    engine = make(twice)
    row = engine.run("twice")
    assert (row.status, row.owner) == (Status.SUSPENDED, None)
    assert engine.events(row.id)[-1].body() == {"code": "WAITING", "gates": ["suspend:look"], "reasons": ["look"]}


def test_driving_a_suspended_run_passes_nothing(make: Make) -> None:
    engine = make(twice)
    row = engine.run("twice")
    before = engine.kinds(row.id)
    engine.clock.move("30d")  # type: ignore[attr-defined]
    assert engine.drive(row.id).status is Status.SUSPENDED
    assert engine.kinds(row.id) == before


def test_resume_passes_the_gate_and_only_that_one(make: Make) -> None:
    engine = make(twice)
    row = engine.run("twice")
    assert engine.resume(row.id).status is Status.SUSPENDED
    assert engine.kinds(row.id)[2:] == [
        "gate.opened suspend:look~1",
        "run.suspended",
        "run.claimed",
        "run.resumed",
        "gate.closed suspend:look~1",
        "gate.opened suspend:look#1~1",
        "run.suspended",
    ]
    assert engine.resume(row.id).status is Status.COMPLETED
    assert output_of(engine, row) == 2


def test_resume_passes_all_that_were_open_or_the_one_that_is_named(make: Make) -> None:
    engine = make(beside)
    row = engine.run("beside")
    assert engine.resume(row.id).status is Status.COMPLETED
    other = engine.run("beside")
    engine.engine.resume(other.id, "right")
    assert engine.drive(other.id).status is Status.SUSPENDED
    assert [kind for kind in engine.kinds(other.id) if "closed" in kind] == ["gate.closed suspend:right~1"]
    assert engine.resume(other.id).status is Status.COMPLETED


def test_a_reason_that_is_not_open_is_not_found_and_nothing_is_written(make: Make) -> None:
    engine = make(beside)
    row = engine.run("beside")
    before = engine.kinds(row.id)
    with pytest.raises(NotFound, match="left, right"):
        engine.engine.resume(row.id, "wrong")
    assert engine.kinds(row.id) == before


def test_what_runs_beside_a_gate_ends_before_the_run_is_suspended(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[int]:
        async def two() -> int:
            await flow.do("one", same, 1)
            return await flow.do("two", same, 2)

        [_, second] = await asyncio.gather(flow.suspend("look"), two())
        return [second]

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.SUSPENDED
    assert sum(kind.startswith("step.succeeded") for kind in engine.kinds(row.id)) == 2
    engine.resume(row.id)
    assert output_of(engine, row) == [2]


def test_waiting_raises_nothing_in_the_body(make: Make) -> None:
    """Neither `except` nor `finally` sees that the pass ends while a gate is open."""
    seen: list[str] = []

    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.suspend("look")
        except Exception:
            seen.append("except")
            raise
        finally:
            seen.append("finally")
        return "passed"

    engine = make(body)
    row = engine.run("body")
    # The end of the pass closes the body's tasks, which runs `finally` but nothing in it that asks the flow.
    assert "except" not in seen
    make(body).resume(row.id)
    assert output_of(engine, row) == "passed"
    assert "except" not in seen


def test_a_finally_around_a_gate_runs_its_step_once_the_gate_is_passed_and_not_before(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.suspend("look")
        except BaseException:
            await flow.do("in except", same, 1)
            raise
        finally:
            await flow.do("in finally", same, 1)
        return "passed"

    engine = make(body)
    row = engine.run("body")
    assert not any("in finally" in kind or "in except" in kind for kind in engine.kinds(row.id))
    make(body).resume(row.id)
    assert output_of(engine, row) == "passed"
    assert [kind for kind in engine.kinds(row.id) if kind.startswith("step.started")] == ["step.started in finally~1"]
