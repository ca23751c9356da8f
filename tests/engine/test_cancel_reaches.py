"""A cancel reaches a run wherever it stands: in a step, a wait, its undo, without an owner, at its end. Cleanup runs once."""

import asyncio
from typing import Any

import pytest

from flowstone import Done, Failed, Flow, RunCancelled, workflow
from flowstone.journal.states import SETTLED, Status
from flowstone.journal.timeline import spans
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


async def endless(name: str) -> None:
    EFFECTS.append(name)
    await asyncio.Event().wait()


def unwork(done: Done[Any, str]) -> None:
    EFFECTS.append(f"un{done.args[0]} {done.outcome}")
    if f"un{done.args[0]}" in BROKEN:
        raise OSError("cannot undo")


async def tell_slowly(failed: Failed[Any]) -> None:
    EFFECTS.append("telling")
    for _ in range(50):
        await asyncio.sleep(0)
    EFFECTS.append("told")


def cancelled_while_driven(engine: Throwaway, workflow: str, after: str) -> str:
    """Start a run, and cancel it as another process would once `after` is in its journal. The run's id."""
    run_id = engine.engine.start(workflow).row.id
    other = Throwaway(engine.folder, clock=engine.clock)

    async def drive() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(run_id, park_after=None))
        while after not in engine.kinds(run_id):
            await asyncio.sleep(0.001)
        other.engine.cancel(run_id, "enough")
        while not driving.done():
            engine.clock.move("250ms")
            await asyncio.sleep(0.001)
        await driving

    asyncio.run(drive())
    other.close()
    return run_id


@workflow
async def in_a_step(flow: Flow) -> None:
    await flow.do("before", work, "before", undo=unwork)
    await flow.do("here", endless, "here")
    await flow.do("never", work, "never")


@workflow
async def in_a_sleep(flow: Flow) -> None:
    await flow.do("before", work, "before", undo=unwork)
    await flow.sleep("here", "60h")
    await flow.do("never", work, "never")


@workflow
async def in_a_retry_wait(flow: Flow) -> None:
    await flow.do("before", work, "before", undo=unwork)
    BROKEN.add("here")
    await flow.do("here", work, "here", retry_delay="60h", undo=unwork)
    await flow.do("never", work, "never")


@workflow
async def at_a_gate(flow: Flow) -> None:
    await flow.do("before", work, "before", undo=unwork)
    await asyncio.gather(flow.approval("here"), flow.sleep("beside", "60h"))
    await flow.do("never", work, "never")


PLACES = {
    "in_a_step": ("step.started here~1", "step.cancelled here~1", ["before", "here", "unbefore succeeded"]),
    "in_a_sleep": ("sleep.started sleep:here~1", "step.cancelled sleep:here~1", ["before", "unbefore succeeded"]),
    "in_a_retry_wait": ("step.failed here~1", "step.cancelled here~1", ["before", "here", "unbefore succeeded"]),
    "at_a_gate": ("gate.opened approve:here~1", "gate.closed approve:here~1", ["before", "unbefore succeeded"]),
}
WORKFLOWS = (in_a_step, in_a_sleep, in_a_retry_wait, at_a_gate)


@pytest.mark.parametrize("place", ["in_a_step", "in_a_sleep", "in_a_retry_wait"])
def test_a_live_owner_notices_a_cancel_wherever_it_is(make: Make, place: str) -> None:
    engine = make(*WORKFLOWS)
    after, closed, effects = PLACES[place]
    run_id = cancelled_while_driven(engine, place, after)
    assert engine.store.run(run_id).status is Status.CANCELLED
    kinds = engine.kinds(run_id)
    assert kinds.count(closed) == 1
    assert kinds.index("run.cancelling") < kinds.index(closed)
    assert effects == EFFECTS


@pytest.mark.parametrize("place", ["in_a_sleep", "in_a_retry_wait", "at_a_gate"])
def test_a_run_that_nobody_executes_is_cancelled_by_who_asks(make: Make, place: str) -> None:
    engine = make(*WORKFLOWS)
    row = engine.run(place)
    assert row.owner is None
    _, closed, effects = PLACES[place]
    other = make(*WORKFLOWS, clock=engine.clock)
    other.engine.cancel(row.id, "enough")
    assert other.drive(row.id, verb="cancel").status is Status.CANCELLED
    assert other.kinds(row.id).count(closed) == 1
    assert effects == EFFECTS


def test_what_a_dead_process_was_doing_is_not_begun_again_in_order_to_be_cancelled(make: Make) -> None:
    engine = make(*WORKFLOWS)
    run_id = engine.engine.start("in_a_step").row.id

    async def die() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(run_id))
        while "here" not in EFFECTS:
            await asyncio.sleep(0.001)
        engine.store.close()
        driving.cancel()
        await asyncio.wait({driving})

    asyncio.run(die())
    engine.vanish()
    other = make(*WORKFLOWS, clock=engine.clock)
    other.engine.cancel(run_id, "enough")
    assert other.drive(run_id, verb="cancel").status is Status.CANCELLED
    assert EFFECTS == ["before", "here", "unbefore succeeded"]


def test_a_run_stopped_by_ctrl_c_can_be_cancelled(make: Make) -> None:
    engine = make(*WORKFLOWS)
    run_id = engine.engine.start("in_a_sleep").row.id
    engine.engine.stop.set("STOPPED")
    assert engine.drive(run_id).status is Status.SUSPENDED
    other = make(*WORKFLOWS, clock=engine.clock)
    other.engine.cancel(run_id, "enough")
    assert other.drive(run_id, verb="cancel").status is Status.CANCELLED


def test_cleanup_in_the_body_runs_once_and_what_comes_after_it_never(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.approval("ok")
        except BaseException:
            await flow.do("clean", work, "clean")
        await flow.do("other", work, "other")
        return "swallowed"

    engine = make(body)
    row = engine.run("body")
    engine.engine.cancel(row.id, "enough")
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    assert EFFECTS == ["clean"]


def test_each_branch_gets_the_cancel_once_and_may_clean_up(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        async def branch(name: str) -> None:
            try:
                await flow.suspend(name)
            except RunCancelled:
                await flow.do(f"clean {name}", work, f"clean {name}")
                raise

        await asyncio.gather(branch("a"), branch("b"))

    engine = make(body)
    row = engine.run("body")
    engine.engine.cancel(row.id, "enough")
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    assert sorted(EFFECTS) == ["clean a", "clean b"]


def test_a_cleanup_that_was_cut_off_goes_on_after_a_crash(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("before", work, "before", undo=unwork)
        try:
            await flow.suspend("hold")
        except RunCancelled:
            await flow.do("first", work, "first")
            await flow.do("second", work, "second")
            raise

    engine = make(body)
    row = engine.run("body")
    engine.engine.cancel(row.id, "enough")

    def die(_: Any) -> None:
        if "step.succeeded first~1" in engine.kinds(row.id):
            raise MemoryError

    engine.observers.append(die)
    with pytest.raises(MemoryError):
        engine.drive(row.id, verb="cancel")
    engine.vanish()
    other = make(body, clock=engine.clock)
    assert other.drive(row.id).status is Status.CANCELLED
    assert EFFECTS == ["before", "first", "second", "unbefore succeeded"]


def test_a_cancel_while_a_handler_runs_lets_it_end_and_the_step_has_one_end(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("bad", work, "bad", retries=0, on_error=tell_slowly)

    BROKEN.add("bad")
    engine = make(body)
    run_id = engine.engine.start("body").row.id

    def cancel(_: Any) -> None:
        if "step.started bad:on_error~1" in engine.kinds(run_id) and not engine.ledger(run_id).cancel_request:
            engine.engine.cancel(run_id, "enough")

    engine.observers.append(cancel)
    engine.drive(run_id)
    assert EFFECTS == ["bad", "telling", "told"]
    ledger = engine.ledger(run_id)
    assert ledger.status in SETTLED
    assert [event.step for event in ledger.completions if event.step is not None] == ["bad"]
    assert all(not operation.open for operation in ledger.operations.values())


def test_a_cancel_while_undoing_changes_nothing_about_how_the_run_ends(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("before", work, "before", undo=unwork)
        await flow.do("bad", work, "bad", retries=0)

    BROKEN.update({"bad", "unbefore"})
    engine = make(body)
    row = engine.run("body")
    assert (row.status, row.owner) == (Status.RUNNING, None)  # the undo waits for its next attempt
    other = make(body, clock=engine.clock)
    other.engine.cancel(row.id, "enough")
    BROKEN.clear()
    other.clock.move("1h")
    assert other.drive(row.id, verb="cancel").status is Status.FAILED
    assert EFFECTS == ["before", "bad", "unbefore succeeded", "unbefore succeeded"]


def test_a_cancel_without_undo_leaves_what_was_done(make: Make) -> None:
    engine = make(*WORKFLOWS)
    row = engine.run("at_a_gate")
    engine.engine.cancel(row.id, "enough", undo=False)
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    assert EFFECTS == ["before"]


def test_a_completed_run_cannot_be_cancelled_and_nothing_is_written(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        return 1

    engine = make(body)
    row = engine.run("body")
    before = engine.kinds(row.id)
    assert engine.engine.cancel(row.id, "too late").status is Status.COMPLETED
    assert engine.drive(row.id, verb="cancel").status is Status.COMPLETED
    assert engine.kinds(row.id) == before


def test_cancelling_twice_is_one_cancel(make: Make) -> None:
    engine = make(*WORKFLOWS)
    row = engine.run("at_a_gate")
    engine.engine.cancel(row.id, "enough")
    engine.engine.cancel(row.id, "again")
    engine.drive(row.id, verb="cancel")
    kinds = engine.kinds(row.id)
    assert (kinds.count("run.cancel_requested"), kinds.count("run.cancelling"), kinds.count("run.cancelled")) == (1, 1, 1)


def test_a_cancelled_sleep_and_gate_have_an_end_in_the_timeline(make: Make) -> None:
    engine = make(*WORKFLOWS)
    row = engine.run("at_a_gate")
    engine.clock.move("1h")
    engine.engine.cancel(row.id, "enough")
    engine.drive(row.id, verb="cancel")
    ends = {span.step: (span.status, span.end_at is not None) for span in spans(engine.events(row.id))}
    assert ends["approve:here"] == ("cancelled", True)
    assert ends["sleep:beside"] == ("cancelled", True)


def test_a_cancelled_run_that_undid_nothing_goes_on_where_the_cancel_reached_it(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        await flow.do("before", work, "before")
        answer, _ = await asyncio.gather(flow.approval("ok"), flow.sleep("nap", "1h"))
        return answer.status

    engine = make(body)
    row = engine.run("body")
    engine.engine.cancel(row.id, "wrong day")
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    other = make(body, clock=engine.clock)
    other.engine.retry(row.id)
    assert other.drive(row.id).status is Status.SUSPENDED
    other.engine.answer(row.id, "ok", yes=True)
    other.drive(row.id)
    other.clock.move("1h")
    assert output_of(other, other.drive(row.id)) == "approved"
    assert EFFECTS == ["before"]
