"""Attempts of a step: how many, when the next one comes, what is never tried again, what a crash leaves of a wait."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowstone import Flow, NonRetryable, StepFailed, current_step, workflow
from flowstone.clock import MICROSECONDS
from flowstone.journal.events import Event
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of, to_the_end


class Fragile(Exception):
    pass


class Wrapped(Fragile):
    pass


def fail() -> None:
    raise OSError("down")


def attempts(engine: Throwaway, run_id: str) -> int:
    return sum(event.kind == "step.started" for event in engine.events(run_id))


def failures(engine: Throwaway, run_id: str) -> list[Event]:
    return [event for event in engine.events(run_id) if event.kind == "step.failed"]


def failing(**options: Any) -> Callable[..., Any]:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("call", fail, **options)

    return body


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_there_is_one_attempt_more_than_retries(make: Make, retries: int) -> None:
    engine = make(failing(retries=retries))
    row = engine.run("body")
    assert to_the_end(engine, row.id).status is Status.FAILED
    assert attempts(engine, row.id) == retries + 1
    assert [event.body()["final"] for event in failures(engine, row.id)] == [False] * retries + [True]


def test_without_a_word_there_are_five_retries_with_growing_waits(make: Make) -> None:
    engine = make(failing())
    row = engine.run("body")
    assert to_the_end(engine, row.id).status is Status.FAILED
    waits = [event.body()["next_attempt_at"] - event.at for event in failures(engine, row.id) if event.body()["next_attempt_at"]]
    assert waits == [100_000, 200_000, 400_000, 800_000, 1_600_000]
    assert attempts(engine, row.id) == 6


def test_a_fixed_delay_is_the_same_each_time_and_the_next_instant_is_recorded_before_it_comes(make: Make) -> None:
    engine = make(failing(retries=2, retry_delay="10m"))
    row = engine.run("body")
    [failed] = failures(engine, row.id)
    assert failed.body()["next_attempt_at"] == failed.at + 600 * MICROSECONDS
    assert row.status is Status.RUNNING
    assert f'"wake_at":{failed.at + 600 * MICROSECONDS}' in row.waiting
    engine.clock.move("10m")  # type: ignore[attr-defined]
    engine.drive(row.id)
    second = failures(engine, row.id)[1]
    assert second.body()["next_attempt_at"] == second.at + 600 * MICROSECONDS


def test_the_policy_is_recorded_with_the_step(make: Make) -> None:
    engine = make(failing(retries=1, retry_delay="2s", timeout="5s"))
    row = engine.run("body")
    policy = next(event.body()["policy"] for event in engine.events(row.id) if event.kind == "step.started")
    assert policy == {"retries": 1, "max_attempts": 2, "retry_delay": 2_000_000, "timeout": 5_000_000, "repeatable": True}


def test_a_later_success_ends_the_retries(make: Make, tmp_path: Path) -> None:
    def flaky() -> int:
        if current_step().attempt < 3:
            raise OSError("not yet")
        return current_step().attempt

    @workflow
    async def body(flow: Flow) -> int:
        return await flow.do("flaky", flaky, retry_delay="1s")

    engine = make(body)
    row = engine.run("body")
    to_the_end(engine, row.id)
    assert output_of(engine, row) == 3


def test_after_a_crash_only_the_rest_of_the_wait_is_waited(make: Make) -> None:
    body = failing(retries=1, retry_delay="1h")
    engine = make(body)
    row = engine.run("body")
    due = failures(engine, row.id)[0].body()["next_attempt_at"]
    engine.clock.move("40m")  # type: ignore[attr-defined]
    again = make(body, clock=engine.clock)
    again.drive(row.id)
    assert attempts(again, row.id) == 1
    engine.clock.move_to(due - 1)  # type: ignore[attr-defined]
    again.drive(row.id)
    assert attempts(again, row.id) == 1
    engine.clock.move_to(due)  # type: ignore[attr-defined]
    assert again.drive(row.id).status is Status.FAILED
    assert attempts(again, row.id) == 2


def test_a_process_that_waits_makes_the_attempt_when_its_instant_comes(make: Make) -> None:
    engine = make(failing(retries=1, retry_delay="30s"))
    row = engine.engine.start("body").row

    async def drive() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(row.id, park_after=60 * MICROSECONDS))
        while not failures(engine, row.id):
            await asyncio.sleep(0)
        while not driving.done():
            engine.clock.move("10s")  # type: ignore[attr-defined]
            for _ in range(50):
                await asyncio.sleep(0)
        await driving

    asyncio.run(drive())
    assert attempts(engine, row.id) == 2


NEVER = [
    NonRetryable("no"),
    TypeError(),
    NameError(),
    AttributeError(),
    ImportError(),
    AssertionError(),
    KeyError("k"),
    IndexError(),
    ValueError(),
    UnicodeDecodeError("utf-8", b"", 0, 1, ""),
    FileNotFoundError(),
    PermissionError(),
    SystemExit(3),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("error", NEVER, ids=lambda error: type(error).__name__)
def test_what_cannot_heal_is_not_tried_again(make: Make, error: BaseException) -> None:
    async def work() -> None:
        raise error

    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("work", work, retries=3, retry_delay="0s")

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    assert attempts(engine, row.id) == 1
    assert engine.ledger(row.id).error["type"] == type(error).__name__  # type: ignore[index]


@pytest.mark.parametrize("error", [OSError(), ConnectionError(), TimeoutError(), RuntimeError(), Fragile()], ids=repr)
def test_what_may_heal_is_tried_again(make: Make, error: Exception) -> None:
    def work() -> None:
        raise error

    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("work", work, retries=1, retry_delay="0s")

    engine = make(body)
    row = engine.run("body")
    to_the_end(engine, row.id)
    assert attempts(engine, row.id) == 2


def test_classes_named_in_no_retry_and_those_below_them_are_not_tried_again(make: Make) -> None:
    def work() -> None:
        raise Wrapped("x")

    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("work", work, retries=3, no_retry=(Fragile,))

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    assert attempts(engine, row.id) == 1


def test_a_result_that_cannot_be_recorded_is_not_tried_again(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("work", object, retries=3)

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    assert attempts(engine, row.id) == 1
    assert 'result of step "work" cannot be recorded' in engine.ledger(row.id).error["message"]  # type: ignore[index]


def test_an_argument_that_cannot_be_recorded_is_refused_at_the_call_and_starts_nothing(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("work", len, [object()])
        except ValueError as error:
            return str(error)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    engine = make(body)
    row = engine.run("body")
    said = output_of(engine, row)
    assert said.startswith("ValueRefused")
    assert 'argument 1 of step "work"' in said
    assert "$[0]" in said
    assert attempts(engine, row.id) == 0


def test_each_attempt_gets_the_input_as_it_was_recorded(make: Make) -> None:
    def work(items: list[int]) -> list[int]:
        items.append(0)
        if current_step().attempt < 3:
            raise OSError("again")
        return items

    @workflow
    async def body(flow: Flow) -> list[int]:
        return await flow.do("work", work, [7], retries=3, retry_delay="0s")

    engine = make(body)
    row = engine.run("body")
    to_the_end(engine, row.id)
    assert output_of(engine, row) == [7, 0]


def test_an_attempt_that_takes_too_long_has_failed_and_is_tried_again(make: Make) -> None:
    async def work() -> int:
        if current_step().attempt == 1:
            await asyncio.Event().wait()
        return current_step().attempt

    @workflow
    async def body(flow: Flow) -> int:
        return await flow.do("work", work, retries=1, retry_delay="0s", timeout="10ms")

    engine = make(body)
    row = engine.run("body")
    to_the_end(engine, row.id)
    assert output_of(engine, row) == 2
    assert failures(engine, row.id)[0].body()["error"]["type"] == "TimedOut"


def test_the_failure_tells_how_many_attempts_there_were(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        try:
            await flow.do("call", fail, retries=2, retry_delay="0s")
        except StepFailed as failure:
            return [failure.attempts, failure.type, failure.message]
        return []

    engine = make(body)
    row = engine.run("body")
    to_the_end(engine, row.id)
    assert output_of(engine, row) == [3, "OSError", "down"]


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2"])
def test_retries_that_mean_nothing_are_refused(make: Make, retries: Any) -> None:
    engine = make(failing(retries=retries))
    row = engine.run("body")
    assert row.status is Status.FAILED
    assert "give a whole number" in engine.ledger(row.id).error["message"]  # type: ignore[index]
    assert attempts(engine, row.id) == 0


def test_a_retry_that_the_body_no_longer_waits_for_is_not_waited_for(make: Make) -> None:
    async def slow(_: int) -> None:
        for _ in range(200):
            await asyncio.sleep(0)
        raise OSError("again")

    async def quick() -> int:
        return 1

    @workflow
    async def body(flow: Flow) -> int:
        slowly = asyncio.create_task(flow.do("slow", slow, 1, retry_delay="1h"))
        await flow.do("quick", quick)
        slowly.cancel()
        await flow.sleep("nap", "10s")
        return 2

    engine = make(body)
    row = engine.run("body")
    to_the_end(engine, row.id)
    assert output_of(engine, row) == 2
    assert "step.started slow~2" not in engine.kinds(row.id)
