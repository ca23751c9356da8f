"""Child runs: how they are started, what their end means for the parent, how they are found again and cancelled."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from flowstone import Done, Failed, Flow, NonRetryable, StepFailed, workflow
from flowstone.journal.documents import run_document
from flowstone.journal.states import Status
from flowstone.ports import Filter, RunRow
from flowstone.testing.clock import ManualClock
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of, to_the_end

EFFECTS: list[str] = []
BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    EFFECTS.clear()
    BROKEN.clear()


class Order(BaseModel):
    id: str
    total: int = 1


def work(name: str) -> str:
    EFFECTS.append(name)
    if name in BROKEN:
        raise ValueError(f"no such table: {name}")
    return name.upper()


def flaky(name: str) -> str:
    EFFECTS.append(name)
    if name in BROKEN:
        raise OSError("down")
    return name.upper()


def unwork(done: Done[str, str]) -> None:
    EFFECTS.append(f"un{done.args[0]}")


def unchild(done: Done[Any]) -> None:
    EFFECTS.append(f"unchild {done.result} {done.outcome}")


def tell(failed: Failed[Any]) -> None:
    EFFECTS.append(f"tell {failed.error}")


@workflow
async def takes_whole(flow: Flow, order: Order) -> Order:
    return Order(id=await flow.do("work", work, order.id), total=order.total + 1)


@workflow
async def takes_fields(flow: Flow, name: str, times: int = 2) -> str:
    return await flow.do("work", work, name) * times


@workflow
async def gives_nothing(flow: Flow) -> None:
    await flow.do("work", work, "nothing")


@workflow
async def gated(flow: Flow) -> str:
    await flow.do("before", work, "before")
    answer = await flow.approval("ok", expiry="2d")
    await flow.do("after", work, "after")
    return answer.status


@workflow
async def sleeper(flow: Flow) -> str:
    await flow.sleep("nap", "1h")
    return "rested"


@workflow
async def two_steps(flow: Flow) -> str:
    await flow.do("first", work, "first")
    return await flow.do("second", flaky, "second", retries=0)


@workflow
async def saga(flow: Flow) -> str:
    await flow.do("book", work, "book", undo=unwork)
    return await flow.do("pay", work, "pay")


@workflow
async def waits(flow: Flow) -> None:
    await flow.do("book", work, "book", undo=unwork)
    await flow.suspend("hold")


@workflow
async def above_waits(flow: Flow) -> None:
    await flow.do("grandkid", waits)


def children(engine: Throwaway, workflow: str) -> list[RunRow]:
    return list(reversed(engine.store.runs(Filter(workflow=workflow))))


def child_of(engine: Throwaway, workflow: str) -> RunRow:
    [row] = children(engine, workflow)
    return row


def parent_of(child: Any, *args: Any, **options: Any) -> Any:
    @workflow
    async def parent(flow: Flow) -> Any:
        result = await flow.do("kid", child, *args, **options)
        return result.model_dump() if isinstance(result, Order) else result

    return parent


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize(
    ("child", "args", "result"),
    [
        (takes_whole, (Order(id="a"),), {"id": "A", "total": 2}),
        (takes_fields, ("a", 3), "AAA"),
        (takes_fields, ("a",), "AA"),
        (gives_nothing, (), None),
    ],
)
def test_a_child_takes_its_input_whole_or_by_fields_and_gives_its_output(
    make: Make, child: Any, args: tuple[Any, ...], result: Any, by_name: bool
) -> None:
    parent = parent_of(child.__name__ if by_name else child, *args)
    engine = make(parent, child)
    row = engine.run("parent")
    assert output_of(engine, row) == result
    kid = child_of(engine, child.__name__)
    assert (kid.parent_run, kid.parent_step, kid.status) == (row.id, "kid", Status.COMPLETED)
    assert engine.ledger(row.id).operations["kid"].child == kid.id


def test_an_input_that_does_not_fit_the_child_is_the_steps_failure_and_makes_no_run(make: Make) -> None:
    @workflow
    async def needs_two(flow: Flow, name: str, times: int) -> str:
        return name * times

    engine = make(parent_of(needs_two, "only one"), needs_two)
    row = engine.run("parent")
    error = engine.ledger(row.id).error
    assert row.status is Status.FAILED
    assert error is not None
    assert (error["type"], error["step"]) == ("BadData", "kid")
    assert children(engine, "needs_two") == []


def test_a_suspended_child_suspends_its_parent_and_its_gate_is_answered_on_the_childs_id(make: Make) -> None:
    engine = make(parent_of(gated), gated)
    row = engine.run("parent")
    kid = child_of(engine, "gated")
    assert (row.status, kid.status) == (Status.SUSPENDED, Status.SUSPENDED)
    engine.engine.answer(kid.id, "ok", yes=True)
    engine.drive(kid.id)
    assert engine.store.run(kid.id).status is Status.COMPLETED
    [due] = engine.engine.due(10)
    assert due.id == row.id
    assert output_of(engine, engine.drive(row.id)) == "approved"
    assert EFFECTS == ["before", "after"]
    assert "step.interrupted kid~1" not in engine.kinds(row.id)


def test_resuming_the_parent_goes_on_with_an_answered_child(make: Make) -> None:
    engine = make(parent_of(gated), gated)
    row = engine.run("parent")
    engine.engine.answer(child_of(engine, "gated").id, "ok", yes=False)
    again = make(parent_of(gated), gated, clock=engine.clock)
    assert output_of(again, again.resume(row.id)) == "rejected"
    assert EFFECTS == ["before", "after"]


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_a_child_that_ended_in_another_process_is_found_as_it_ended_and_not_run_again(make: Make, end: str) -> None:
    parent = parent_of(gated)
    engine = make(parent, gated)
    row = engine.run("parent")
    kid = child_of(engine, "gated")
    if end == "failed":
        BROKEN.add("after")
    other = make(parent, gated, clock=engine.clock)
    other.engine.answer(kid.id, "ok", yes=True)
    other.drive(kid.id)
    assert other.store.run(kid.id).status == end
    third = make(parent, gated, clock=engine.clock)
    assert third.resume(row.id).status == end
    assert EFFECTS == ["before", "after"]
    assert engine.kinds(row.id).count(f"step.{'succeeded' if end == 'completed' else 'failed'} kid~1") == 1


def test_a_sleeping_child_parks_its_parent_and_both_go_on_when_it_is_due(make: Make) -> None:
    engine = make(parent_of(sleeper), sleeper)
    row = engine.run("parent")
    assert (row.status, row.owner) == (Status.RUNNING, None)
    engine.clock.move("1h")
    for due in engine.engine.due(10):
        engine.drive(due.id)
    for due in engine.engine.due(10):
        engine.drive(due.id)
    assert output_of(engine, engine.store.run(row.id)) == "rested"


def test_a_process_that_waits_without_end_waits_for_a_childs_sleep_too(make: Make) -> None:
    engine = make(parent_of(sleeper), sleeper)
    row = engine.engine.start("parent").row

    async def drive() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(row.id, park_after=None))
        while not driving.done():
            engine.clock.move("10m")
            await asyncio.sleep(0.001)
        await driving

    asyncio.run(drive())
    assert output_of(engine, engine.store.run(row.id)) == "rested"


def test_a_retried_step_resumes_the_failed_child_and_makes_no_other(make: Make) -> None:
    BROKEN.add("second")
    engine = make(parent_of(two_steps, retries=2, retry_delay="1h"), two_steps)
    row = engine.run("parent")
    assert "step.failed kid~1" in engine.kinds(row.id)
    BROKEN.clear()
    again = make(parent_of(two_steps, retries=2, retry_delay="1h"), two_steps, clock=engine.clock)
    assert output_of(again, to_the_end(again, row.id)) == "SECOND"
    assert EFFECTS == ["first", "second", "second"]
    assert len(children(engine, "two_steps")) == 1


def test_a_childs_failure_that_cannot_heal_is_not_retried(make: Make) -> None:
    BROKEN.add("pay")
    engine = make(parent_of(saga, retries=5, retry_delay="0s"), saga)
    assert to_the_end(engine, engine.run("parent").id).status is Status.FAILED
    assert EFFECTS == ["book", "pay", "unbook"]


def test_retrying_the_parent_resumes_its_failed_child(make: Make) -> None:
    BROKEN.add("second")
    engine = make(parent_of(two_steps), two_steps)
    row = engine.run("parent")
    assert row.status is Status.FAILED
    BROKEN.clear()
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == "SECOND"
    assert EFFECTS == ["first", "second", "second"]


def test_retrying_the_parent_takes_the_result_of_a_child_that_was_mended_by_hand(make: Make) -> None:
    BROKEN.add("second")
    engine = make(parent_of(two_steps), two_steps)
    row = engine.run("parent")
    BROKEN.clear()
    kid = child_of(engine, "two_steps")
    engine.engine.retry(kid.id)
    engine.drive(kid.id)
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == "SECOND"
    assert EFFECTS == ["first", "second", "second"]


def test_a_child_that_has_undone_what_it_did_is_followed_by_another_one(make: Make) -> None:
    BROKEN.add("pay")
    engine = make(parent_of(saga), saga)
    row = engine.run("parent")
    assert EFFECTS == ["book", "pay", "unbook"]
    BROKEN.clear()
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == "PAY"
    assert EFFECTS == ["book", "pay", "unbook", "book", "pay"]
    assert [kid.status for kid in children(engine, "saga")] == [Status.FAILED, Status.COMPLETED]


def test_retrying_from_before_a_finished_child_makes_another_one(make: Make) -> None:
    @workflow
    async def parent(flow: Flow) -> str:
        await flow.do("kid", two_steps)
        return await flow.do("last", flaky, "last", retries=0)

    BROKEN.add("last")
    engine = make(parent, two_steps)
    row = engine.run("parent")
    BROKEN.clear()
    engine.engine.retry(row.id, "kid")
    assert output_of(engine, engine.drive(row.id)) == "LAST"
    assert EFFECTS == ["first", "second", "last", "first", "second", "last"]


def test_the_parents_error_names_the_deepest_cause(make: Make) -> None:
    @workflow
    async def grandchild(flow: Flow) -> str:
        return await flow.do("read", work, "users", retries=0)

    @workflow
    async def child(flow: Flow) -> str:
        return await flow.do("grandkid", grandchild)

    BROKEN.add("users")
    engine = make(parent_of(child), child, grandchild)
    row = engine.run("parent")
    ledger = engine.ledger(row.id)
    document = run_document(row, ledger, life=None, now=engine.clock.now())
    deepest = {"run": child_of(engine, "grandchild").id, "step": "read"}
    assert document["error"]["type"] == "ValueError"
    assert document["error"]["message"] == "no such table: users"
    assert document["error"]["step"] == "kid"
    assert document["error"]["child"] == deepest
    middle = child_of(engine, "child")
    document = run_document(middle, engine.ledger(middle.id), life=None, now=engine.clock.now())
    assert document["error"]["child"] == deepest


def test_a_childs_failure_is_caught_as_the_class_that_its_step_raised(make: Make) -> None:
    @workflow
    async def parent(flow: Flow) -> list[Any]:
        try:
            await flow.do("kid", saga)
        except ValueError as error:
            return [isinstance(error, StepFailed), str(error)]
        return []

    BROKEN.add("pay")
    engine = make(parent, saga)
    assert output_of(engine, engine.run("parent")) == [True, 'step "kid" failed: ValueError: no such table: pay']


def test_a_child_that_nobody_awaits_is_cancelled_when_its_parent_fails(make: Make) -> None:
    @workflow
    async def parent(flow: Flow) -> None:
        task = asyncio.ensure_future(flow.do("kid", waits))
        await flow.do("first", work, "first")
        del task
        raise NonRetryable("no")

    engine = make(parent, waits)
    row = engine.run("parent")
    kid = child_of(engine, "waits")
    assert (row.status, kid.status) == (Status.FAILED, Status.CANCELLED)
    assert "step.cancelled kid~1" in engine.kinds(row.id)
    assert EFFECTS.count("book") == EFFECTS.count("unbook")


def test_cancelling_reaches_grandchildren_which_undo_first(make: Make) -> None:
    @workflow
    async def parent(flow: Flow) -> None:
        await flow.do("top", work, "top", undo=unwork)
        await flow.do("kid", above_waits)

    engine = make(parent, above_waits, waits)
    row = engine.run("parent")
    assert row.status is Status.SUSPENDED
    engine.engine.cancel(row.id, "enough")
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    assert child_of(engine, "above_waits").status is Status.CANCELLED
    assert child_of(engine, "waits").status is Status.CANCELLED
    assert EFFECTS == ["top", "book", "unbook", "untop"]
    assert "step.cancelled kid~1" in engine.kinds(row.id)


def test_a_cancelled_child_that_nobody_asked_the_parent_about_is_the_steps_failure(make: Make) -> None:
    engine = make(parent_of(waits, on_error=tell, retries=3), waits)
    row = engine.run("parent")
    kid = child_of(engine, "waits")
    engine.engine.cancel(kid.id, "not this one")
    engine.drive(kid.id, verb="cancel")
    row = engine.drive(row.id)
    assert row.status is Status.FAILED
    error = engine.ledger(row.id).error
    assert error is not None
    assert f"child run {kid.id} was cancelled: not this one" in error["message"]
    assert len([effect for effect in EFFECTS if effect.startswith("tell")]) == 1


def test_a_child_that_finished_before_the_cancel_reached_it_is_undone_by_its_steps_undo(make: Make) -> None:
    engine = make(parent_of(gated, undo=unchild), gated)
    row = engine.run("parent")
    kid = child_of(engine, "gated")
    engine.engine.answer(kid.id, "ok", yes=True)
    engine.drive(kid.id)
    engine.engine.cancel(row.id, "enough")
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    assert EFFECTS == ["before", "after", "unchild approved succeeded"]


def test_a_completed_child_is_undone_only_by_its_steps_undo(make: Make) -> None:
    @workflow
    async def parent(flow: Flow) -> None:
        await flow.do("kid", saga, undo=unchild)
        await flow.do("last", work, "last", retries=0)

    BROKEN.add("last")
    engine = make(parent, saga)
    assert engine.run("parent").status is Status.FAILED
    assert EFFECTS == ["book", "pay", "last", "unchild PAY succeeded"]


def test_an_interrupted_child_can_be_retried_after_its_parent_was_cancelled_without_undo(make: Make) -> None:
    engine = make(parent_of(gated), gated)
    row = engine.run("parent")
    engine.engine.cancel(row.id, "wrong day", undo=False)
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    engine.engine.retry(row.id)
    assert engine.drive(row.id).status is Status.SUSPENDED
    kid = child_of(engine, "gated")
    engine.engine.answer(kid.id, "ok", yes=True)
    assert output_of(engine, engine.resume(row.id)) == "approved"
    assert EFFECTS == ["before", "after"]


def test_a_child_that_takes_too_long_is_cancelled_and_fails_its_step(make: Make) -> None:
    engine = make(parent_of(sleeper, timeout="1m"), sleeper)
    row = engine.run("parent")
    assert to_the_end(engine, row.id).status is Status.FAILED


@workflow
async def asks_then_naps(flow: Flow) -> str:
    await flow.approval("ok")
    await flow.sleep("nap", "30s")
    return "done"


def test_what_a_child_waits_for_a_person_is_not_its_time(make: Make) -> None:
    engine = make(parent_of(asks_then_naps, timeout="1m"), asks_then_naps)
    assert isinstance(engine.clock, ManualClock)
    row = engine.run("parent")
    assert row.status is Status.SUSPENDED
    engine.clock.move("2h")
    kid = child_of(engine, "asks_then_naps")
    engine.engine.answer(kid.id, "ok", yes=True)
    engine.drive(kid.id)
    assert engine.resume(row.id).status is Status.RUNNING
    engine.clock.move("30s")
    assert output_of(engine, engine.resume(row.id)) == "done"
