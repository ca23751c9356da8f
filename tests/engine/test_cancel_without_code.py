"""A run whose code is gone or fits its history no more can still be ended: the cancel needs no body."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flowstone import Done, Flow, RunCancelled, step, workflow
from flowstone.errors import Diverged
from flowstone.journal.notes import next_command
from flowstone.journal.phase import Phase
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of

EFFECTS: list[str] = []
BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    EFFECTS.clear()
    BROKEN.clear()


def work(name: str) -> str:
    EFFECTS.append(name)
    if name in BROKEN:
        raise OSError(f"{name} does not work")
    return name


@step(name="take back")
def unwork(done: Done[Any, str]) -> None:
    EFFECTS.append(f"un{done.args[0]} {done.outcome}")
    if f"un{done.args[0]}" in BROKEN:
        raise OSError("cannot undo")


async def endless() -> None:
    EFFECTS.append("endless")
    await asyncio.Event().wait()


@workflow(name="shop")
async def shop(flow: Flow, wait: str = "gate") -> None:
    await flow.do("first", work, "first", undo=unwork)
    await flow.do("second", work, "second", undo=unwork)
    try:
        if wait == "gate":
            await flow.approval("ok")
        elif wait == "sleep":
            await flow.sleep("nap", "60h")
        elif wait == "retry":
            BROKEN.add("third")
            await flow.do("third", work, "third", retry_delay="60h", undo=unwork)
        elif wait == "child":
            await flow.do("kid", kid)
        elif wait == "step":
            await flow.do("endless", endless)
        else:
            await flow.do("third", wait)
    except RunCancelled:
        await flow.do("cleanup", work, "cleanup")
        raise


@workflow
async def kid(flow: Flow) -> None:
    await flow.do("inner", work, "inner", undo=unwork)
    await flow.suspend("hold")


@workflow(name="shop")
async def renamed(flow: Flow, wait: str = "gate") -> None:
    await flow.do("erste", work, "first", undo=unwork)


@workflow(name="shop")
async def of_another_input(flow: Flow, day: int) -> None:
    await flow.do("first", work, "first", undo=unwork)


MISFITS: dict[str, tuple[Callable[..., Any], ...]] = {
    "diverges": (renamed, kid, unwork),
    "gone": (kid, unwork),
    "another input": (of_another_input, kid, unwork),
}
WAITS = {
    "gate": ["unsecond succeeded", "unfirst succeeded"],
    "sleep": ["unsecond succeeded", "unfirst succeeded"],
    "retry": ["third", "unsecond succeeded", "unfirst succeeded"],
    "child": ["inner", "uninner succeeded", "unsecond succeeded", "unfirst succeeded"],
    "missing": ["unsecond succeeded", "unfirst succeeded"],
}


def waiting(make: Make, wait: str = "gate") -> tuple[Throwaway, str]:
    engine = make(shop, kid, unwork)
    row = engine.run("shop", {"wait": wait})
    assert row.owner is None
    return engine, row.id


@pytest.mark.parametrize("misfit", MISFITS)
@pytest.mark.parametrize("wait", WAITS)
def test_a_run_that_waits_is_cancelled_and_undone_without_its_body(make: Make, wait: str, misfit: str) -> None:
    engine, run_id = waiting(make, wait)
    other = make(*MISFITS[misfit], clock=engine.clock)
    other.engine.cancel(run_id, "enough")
    assert other.drive(run_id, verb="cancel").status is Status.CANCELLED
    assert ["first", "second", *WAITS[wait]] == EFFECTS
    ledger = other.ledger(run_id)
    assert all(not operation.open for operation in ledger.operations.values())
    assert ledger.cancelled is not None
    assert ledger.cancelled["reason"] == "enough"


@pytest.mark.parametrize("misfit", MISFITS)
def test_the_journal_says_that_and_why_the_body_had_no_part_in_it(make: Make, misfit: str) -> None:
    engine, run_id = waiting(make)
    other = make(*MISFITS[misfit], clock=engine.clock)
    other.engine.cancel(run_id, "enough")
    other.drive(run_id, verb="cancel")
    said = [event.body() for event in other.events(run_id) if event.kind == "run.cancelling"]
    reasons = {
        "diverges": 'step 1: the journal has "first" (',
        "gone": "the workflow shop is gone",
        "another input": "its recorded input no longer fits shop",
    }
    assert len(said) == 1
    assert said[0]["without_body"].startswith(reasons[misfit])


def test_a_cancel_of_code_that_fits_is_the_bodys(make: Make) -> None:
    engine, run_id = waiting(make)
    engine.engine.cancel(run_id, "enough")
    engine.drive(run_id, verb="cancel")
    assert EFFECTS == ["first", "second", "cleanup", "unsecond succeeded", "unfirst succeeded"]
    assert "without_body" not in (engine.ledger(run_id).cancelling or {})


@pytest.mark.parametrize("verb", ["resume", "recover", "approve"])
def test_only_the_verb_cancel_goes_without_the_body(make: Make, verb: str) -> None:
    engine, run_id = waiting(make)
    other = make(renamed, unwork, clock=engine.clock)
    other.engine.cancel(run_id, "enough")
    before = other.kinds(run_id)
    with pytest.raises(Diverged):
        other.drive(run_id, verb=verb)
    assert other.kinds(run_id) == before
    engine.drive(run_id, verb=verb)  # with the code that fits, the body has its part
    assert EFFECTS == ["first", "second", "cleanup", "unsecond succeeded", "unfirst succeeded"]


def test_what_a_dead_process_was_doing_is_recorded_as_cut_off(make: Make) -> None:
    engine = make(shop, kid, unwork)
    run_id = engine.engine.start("shop", {"wait": "step"}).row.id

    async def die() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(run_id))
        while "endless" not in EFFECTS:
            assert not driving.done(), driving
            await asyncio.sleep(0.001)
        engine.store.close()
        driving.cancel()
        await asyncio.wait({driving})

    asyncio.run(die())
    engine.vanish()
    other = make(renamed, unwork, clock=engine.clock)
    other.engine.cancel(run_id, "enough")
    assert other.drive(run_id, verb="cancel").status is Status.CANCELLED
    kinds = other.kinds(run_id)
    assert kinds.index("step.interrupted endless~1") < kinds.index("run.cancelling") < kinds.index("step.cancelled endless~1")
    assert EFFECTS == ["first", "second", "endless", "unsecond succeeded", "unfirst succeeded"]


def test_without_undo_nothing_is_undone(make: Make) -> None:
    engine, run_id = waiting(make)
    other = make(clock=engine.clock)
    other.engine.cancel(run_id, "enough", undo=False)
    assert other.drive(run_id, verb="cancel").status is Status.CANCELLED
    assert EFFECTS == ["first", "second"]


def test_an_undo_that_is_gone_too_suspends_the_run_until_it_is_there(make: Make) -> None:
    engine, run_id = waiting(make)
    other = make(clock=engine.clock)
    other.engine.cancel(run_id, "enough")
    assert other.drive(run_id, verb="cancel").status is Status.SUSPENDED
    assert (other.ledger(run_id).suspension or {})["functions"] == ["take back"]
    assert EFFECTS == ["first", "second"]
    third = make(unwork, clock=engine.clock)
    assert third.resume(run_id).status is Status.CANCELLED
    assert EFFECTS == ["first", "second", "unsecond succeeded", "unfirst succeeded"]


@pytest.mark.parametrize("code", [(), (shop, kid)])
def test_a_run_that_waits_for_an_undo_that_is_gone_ends_once_nothing_is_to_be_undone(make: Make, code: Any) -> None:
    engine, run_id = waiting(make)
    other = make(*code, clock=engine.clock)
    other.engine.cancel(run_id, "enough")
    other.drive(run_id, verb="cancel")
    assert (other.ledger(run_id).suspension or {})["code"] == "FUNCTION_NOT_FOUND"
    other.engine.cancel(run_id, "it is gone", undo=False)
    other.engine.cancel(run_id, "it is gone", undo=False)
    assert other.drive(run_id, verb="cancel").status is Status.CANCELLED
    assert other.kinds(run_id).count("run.cancel_requested") == 2
    assert ["first", "second", *(["cleanup"] if code else [])] == EFFECTS


def test_an_undo_that_waits_for_its_next_attempt_is_given_up(make: Make) -> None:
    BROKEN.add("unsecond")
    engine, run_id = waiting(make)
    engine.engine.cancel(run_id, "enough")
    assert engine.drive(run_id, verb="cancel").status is Status.RUNNING
    engine.engine.cancel(run_id, "leave it", undo=False)
    assert engine.drive(run_id, verb="cancel").status is Status.CANCELLED
    assert EFFECTS == ["first", "second", "cleanup", "unsecond succeeded"]
    assert all(not operation.open for operation in engine.ledger(run_id).operations.values())


def test_an_undo_of_a_run_that_failed_is_given_up_and_the_run_fails_as_it_would_have(make: Make) -> None:
    @workflow
    async def failing(flow: Flow) -> None:
        await flow.do("first", work, "first", undo=unwork)
        raise LookupError("the reason")

    BROKEN.add("unfirst")
    engine = make(failing, unwork)
    row = engine.run("failing")
    engine.engine.cancel(row.id, "leave it", undo=False)
    assert engine.drive(row.id, verb="cancel").status is Status.FAILED
    error = engine.ledger(row.id).error
    assert error is not None
    assert (error["message"], error["code"]) == ("the reason", None)


def crash_after(engine: Throwaway, run_id: str, events: int) -> bool:
    """Cancel in a process that dies once it has written so many events; whether it came that far."""
    first = len(engine.kinds(run_id))

    def die(_: Any) -> None:
        if len(engine.kinds(run_id)) - first >= events:
            raise MemoryError

    engine.observers.append(die)
    engine.engine.cancel(run_id, "enough")
    try:
        engine.drive(run_id, verb="cancel")
    except MemoryError:
        engine.vanish()
        return True
    return False


@pytest.mark.parametrize("events", range(1, 12))
@pytest.mark.parametrize("wait", ["gate", "child"])
def test_a_cancel_without_the_body_goes_on_without_it_after_a_crash(make: Make, wait: str, events: int) -> None:
    engine, run_id = waiting(make, wait)
    crashed = crash_after(make(kid, unwork, clock=engine.clock), run_id, events)
    other = make(kid, unwork, clock=engine.clock)
    begun = "run.cancelling" in other.kinds(run_id)
    row = other.drive(run_id, verb="recover" if begun else "cancel") if crashed else other.store.run(run_id)
    assert row.status is Status.CANCELLED, other.kinds(run_id)
    kept = list(dict.fromkeys(EFFECTS))  # an undo may be repeated after a crash
    assert kept == ["first", "second", *WAITS[wait]]


def test_a_child_that_undoes_for_longer_brings_its_parent_to_its_end_without_the_body(make: Make) -> None:
    BROKEN.add("uninner")
    engine, run_id = waiting(make, "child")
    other = make(kid, unwork, clock=engine.clock)
    other.engine.cancel(run_id, "enough")
    assert other.drive(run_id, verb="cancel").status is Status.RUNNING
    BROKEN.clear()
    engine.clock.move("1h")
    child = next(operation.child for operation in other.ledger(run_id).operations.values() if operation.child)
    other.drive(str(child), verb="recover")
    assert other.drive(run_id, verb="recover").status is Status.CANCELLED
    assert EFFECTS[-2:] == ["unsecond succeeded", "unfirst succeeded"]


def test_a_child_whose_code_is_gone_is_cancelled_with_its_parent(make: Make) -> None:
    engine, run_id = waiting(make, "child")
    other = make(shop, unwork, clock=engine.clock)

    @workflow(name="kid")
    async def other_kid(flow: Flow) -> None:
        await flow.do("innen", work, "inner", undo=unwork)

    other = make(shop, other_kid, unwork, clock=engine.clock)
    other.engine.cancel(run_id, "enough")
    assert other.drive(run_id, verb="cancel").status is Status.CANCELLED
    assert EFFECTS == ["first", "second", "inner", "uninner succeeded", "cleanup", "unsecond succeeded", "unfirst succeeded"]


def test_a_run_cancelled_without_its_body_is_retried_once_its_code_is_back(make: Make) -> None:
    engine, run_id = waiting(make)
    other = make(clock=engine.clock)
    other.engine.cancel(run_id, "enough", undo=False)
    other.drive(run_id, verb="cancel")
    engine.engine.retry(run_id)
    assert engine.drive(run_id).status is Status.SUSPENDED
    engine.engine.answer(run_id, "ok", yes=True)
    assert output_of(engine, engine.drive(run_id)) is None
    assert EFFECTS == ["first", "second"]


def test_a_failed_run_whose_undo_is_gone_waits_for_that_alone_and_ends_with_its_own_error(make: Make) -> None:
    @workflow
    async def failing(flow: Flow) -> None:
        await flow.do("first", work, "first", undo=unwork)
        beside = asyncio.ensure_future(flow.approval("ok"))
        await flow.do("second", work, "second")
        assert not beside.done()
        raise LookupError("the reason")

    engine = make(failing)
    row = engine.run("failing")
    assert row.status is Status.SUSPENDED
    assert list(engine.ledger(row.id).waits) == []
    other = make(unwork, clock=engine.clock)  # the body has no part in it any more
    assert other.resume(row.id).status is Status.FAILED
    assert (other.ledger(row.id).error or {})["message"] == "the reason"
    assert EFFECTS == ["first", "second", "unfirst succeeded"]


@pytest.mark.parametrize("ends", ["cancelled", "failed"])
def test_a_run_that_undid_nothing_after_all_is_retried(make: Make, ends: str) -> None:
    @workflow
    async def once_fails(flow: Flow) -> str:
        await flow.do("first", work, "first", undo=unwork)
        if ends == "failed":
            await flow.do("second", work, "second", retries=0)
        else:
            await flow.suspend("hold")
        return "done"

    BROKEN.add("second")
    engine = make(once_fails)
    row = engine.run("once_fails")
    engine.engine.cancel(row.id, "leave it")
    engine.drive(row.id, verb="cancel")
    assert engine.store.run(row.id).status is Status.SUSPENDED  # the undo is gone
    engine.engine.cancel(row.id, "leave it", undo=False)
    assert engine.drive(row.id, verb="cancel").status == ends
    row = engine.store.run(row.id)
    assert next_command(Phase(ends), [], row.id, now=0, ledger=engine.ledger(row.id)) in (f"flow retry {row.id}", None)
    BROKEN.clear()
    engine.engine.retry(row.id)
    row = engine.drive(row.id)
    row = engine.resume(row.id) if ends == "cancelled" else row
    assert output_of(engine, row) == "done"
    assert EFFECTS.count("first") == 1
