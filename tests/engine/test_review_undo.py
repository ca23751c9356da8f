"""Undo and handlers that cannot be carried out at once: unknown outcomes, values that no longer fit, files that are gone."""

import asyncio
import functools
import threading
from typing import Any

import pytest
from pydantic import BaseModel

from flowstone import Done, Failed, Flow, step, workflow
from flowstone.clock import SystemClock
from flowstone.errors import LoadFailed
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Functions, Throwaway
from support.engines import Make, failure, output_of

TOLD: list[str] = []


class Receipt(BaseModel):
    number: int


def bad() -> None:
    raise ValueError("no")


@step(repeatable=False, timeout="10ms")
def tell(failed: Failed[Any]) -> None:
    TOLD.append(failed.step)
    threading.Event().wait(0.1)


@workflow
async def telling(flow: Flow) -> str:
    try:
        await flow.do("a", bad, on_error=tell)
    except ValueError:
        return "handled"
    return "not reached"


def told(make: Make) -> tuple[Throwaway, str]:
    """A run whose handler must not be repeated, and nobody knows what it did."""
    TOLD.clear()
    engine = make(telling, tell, clock=SystemClock())
    row = engine.run("telling")
    assert row.status is Status.SUSPENDED
    return engine, row.id


def test_a_handler_with_an_unknown_outcome_is_not_run_again_by_resuming(make: Make) -> None:
    engine, run_id = told(make)
    assert engine.resume(run_id).status is Status.SUSPENDED
    assert TOLD == ["a"]


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_a_handler_with_an_unknown_outcome_is_resolved(make: Make, outcome: str) -> None:
    engine, run_id = told(make)
    engine.engine.resolve(run_id, "a:on_error", outcome, reason="looked")
    assert output_of(engine, engine.drive(run_id)) == "handled"
    assert TOLD == ["a"]


def test_a_handler_with_an_unknown_outcome_is_repeated_if_a_person_says_so(make: Make) -> None:
    engine, run_id = told(make)
    engine.engine.resolve(run_id, "a:on_error", "retry", reason="looked")
    assert engine.drive(run_id).status is Status.SUSPENDED
    assert TOLD == ["a", "a"]


@step(name="reserve")
def reserve() -> int:
    return 1


@step(name="reserve")
def reserve_since() -> Receipt:
    return Receipt(number=1)


READY = threading.Event()


@step(name="release", retry_delay="1h")
def release(done: Done[Any]) -> None:
    if not READY.is_set():
        raise OSError("not yet")
    TOLD.append(repr(done.result))


@workflow
async def reserving(flow: Flow) -> None:
    await flow.do("a", "reserve", undo=release)
    await flow.do("b", bad)


def test_a_result_that_no_longer_fits_is_a_failure_of_the_undo_and_not_of_the_pass(make: Make) -> None:
    TOLD.clear()
    READY.clear()
    engine = make(reserving, reserve, release)
    row = engine.run("reserving")
    engine.vanish()
    READY.set()
    later = make(reserving, reserve_since, release)
    later.clock.move("2h")  # type: ignore[attr-defined]
    row = later.drive(row.id)
    assert row.status is Status.FAILED
    error = later.ledger(row.id).error
    assert error is not None
    assert (error["code"], error["undo"]["step"], error["undo"]["type"]) == ("UNDO_FAILED", "a:undo", "ValueRefused")
    again = make(reserving, reserve, release)
    again.engine.retry(row.id)
    assert again.drive(row.id).status is Status.FAILED
    assert TOLD == ["1"]


@step(name="fetch back", retry_delay="1h")
def fetch_back(done: Done[Any]) -> None:
    raise OSError("not yet")


@workflow
async def fetching(flow: Flow) -> None:
    await flow.do("a", lambda: 1, undo=fetch_back)
    await flow.do("b", bad)


class Broken(Functions):
    """Functions whose workflow's file cannot be imported any more, and whose steps are in it."""

    def load(self, name: str) -> Any:
        raise LoadFailed(f"{name} has a syntax error")

    def step(self, name: str) -> Any:
        return self.load(name) if name != "fetch back" else super().step(name)


def test_an_undo_whose_file_is_broken_leaves_the_run_to_be_taken_up_later(make: Make) -> None:
    engine = make(fetching, fetch_back)
    row = engine.run("fetching")
    assert row.status is Status.RUNNING
    engine.vanish()
    from flowstone.engine import Engine

    now = make(fetching, fetch_back)
    now.clock.move("2h")  # type: ignore[attr-defined]
    broken = Engine(now.store, now.owners, Broken(fetching), now.clock, now.engine.settings)

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(LoadFailed):
                await asyncio.wait_for(broken.drive(row.id), 5)

    asyncio.run(twice())
    assert now.store.run(row.id).owner is None


@step(name="hand back", retry_delay="1h")
def hand_back(done: Done[Any]) -> None:
    if not READY.is_set():
        raise OSError("not yet")
    TOLD.append("child")


@step(name="tidy up")
def tidy_up(done: Done[Any]) -> None:
    TOLD.append("parent")


@workflow
async def lending(flow: Flow) -> None:
    await flow.do("lend", lambda: 1, undo=hand_back)
    await flow.approval("ok")


@workflow
async def employing(flow: Flow) -> None:
    await flow.do("first", lambda: 1, undo=tidy_up)
    await flow.do("child", lending)


def test_a_parent_undoes_nothing_before_its_cancelled_child_has_undone_all(make: Make) -> None:
    TOLD.clear()
    READY.clear()
    engine = make(lending, employing, hand_back, tidy_up)
    row = engine.run("employing")
    engine.engine.cancel(row.id, "no")
    assert engine.drive(row.id).status is Status.RUNNING  # the child's undo is attempted again in an hour
    assert TOLD == []
    READY.set()
    engine.clock.move("2h")  # type: ignore[attr-defined]
    for _ in range(2):
        for due in engine.engine.due(9):
            engine.drive(due.id, verb="recover")
    assert TOLD == ["child", "parent"]
    assert engine.store.run(row.id).status is Status.CANCELLED


async def late() -> int:
    while not READY.is_set():
        await asyncio.sleep(0)
    return 1


def quick() -> None:
    pass


def with_late_loser(make: Make, body: Any) -> Throwaway:
    """An engine in which the loser ends when the race is won."""
    TOLD.clear()
    READY.clear()
    engine = make(body, take_back)
    engine.observers.append(lambda events: READY.set() if ("step.succeeded", "quick") in [one[2:4] for one in events] else None)
    return engine


@step(name="take back", retry_delay="10m")
async def take_back(done: Done[Any]) -> None:
    TOLD.append("begun")
    if len(TOLD) == 1:
        raise OSError("not yet")
    for _ in range(100):
        await asyncio.sleep(0)


@workflow
async def racing(flow: Flow) -> str:
    first = await flow.race({"late": flow.do("late", late, undo=take_back), "quick": flow.do("quick", quick)})
    await flow.sleep("rest", "1h")
    return first.name


def test_each_attempt_of_a_losers_undo_is_made_once(make: Make) -> None:
    engine = with_late_loser(make, racing)

    async def scene() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(engine.engine.start("racing").row.id, park_after=None))
        while not driving.done():
            await asyncio.sleep(0.01)
            engine.clock.move("1m")  # type: ignore[attr-defined]
        assert output_of(engine, await driving) == "quick"

    asyncio.run(scene())
    assert TOLD == ["begun", "begun"]


def test_a_losers_undo_that_waits_keeps_no_process_and_is_gone_on_with(make: Make) -> None:
    engine = with_late_loser(make, racing)
    row = engine.run("racing")
    assert (row.status, TOLD) == (Status.RUNNING, ["begun"])
    engine.clock.move("10m")  # type: ignore[attr-defined]
    assert [due.id for due in engine.engine.due(9)] == [row.id]
    engine.drive(row.id)
    assert TOLD == ["begun", "begun"]
    engine.clock.move("1h")  # type: ignore[attr-defined]
    assert output_of(engine, engine.drive(row.id)) == "quick"


@workflow
async def hasty(flow: Flow) -> str:
    return (await flow.race({"late": flow.do("late", late, undo=take_back), "quick": flow.do("quick", quick)})).name


def test_a_run_completes_only_after_its_losers_undo(make: Make) -> None:
    engine = with_late_loser(make, hasty)
    row = engine.run("hasty")
    assert row.status is Status.RUNNING
    engine.clock.move("10m")  # type: ignore[attr-defined]
    assert output_of(engine, engine.drive(row.id)) == "quick"
    assert TOLD == ["begun", "begun"]


@workflow
async def misusing(flow: Flow) -> None:
    await flow.do("a", lambda: 1, undo=tidy_up)

    def asks() -> None:
        flow.run_id  # noqa: B018  # the misuse

    await asyncio.gather(flow.do("held", asyncio.Event().wait), flow.do("asks", asks))


def test_a_process_that_dies_as_the_undo_begins_has_not_lost_how_the_run_ended(make: Make) -> None:
    class Dies(BaseException):
        pass

    TOLD.clear()
    engine = make(misusing, tidy_up)
    row = engine.engine.start("misusing").row

    def die(events: Any) -> None:
        if any(event.kind == "step.cancelled" for event in events):
            raise Dies

    engine.observers.append(die)
    with pytest.raises(Dies):
        engine.drive(row.id)
    engine.observers.remove(die)
    assert engine.drive(row.id).status is Status.FAILED
    error = engine.ledger(row.id).error
    assert error is not None
    assert error["code"] == "MISUSE"
    assert TOLD == ["parent"]


def test_an_undo_that_its_name_would_not_give_again_is_refused_at_the_call(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("a", lambda: 1, undo=functools.partial(tidy_up, "more"))

    assert "undo=" in failure(make(body, tidy_up), body)["message"]
