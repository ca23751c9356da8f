"""Driving runs side by side in one process: each is executed once, hears of its children, and keeps its own output."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from flowstone import Flow, current_step, workflow
from flowstone.clock import SystemClock
from flowstone.errors import FlowError
from flowstone.journal.columns import columns_in, columns_of
from flowstone.journal.events import Draft, Event
from flowstone.journal.states import Status
from flowstone.ports import Change, LogPiece, RunRow
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.testing.throwaway import Throwaway
from flowstone.worker import work
from support.engines import Make, output_of

CALLS: list[Any] = []
GATE: dict[str, asyncio.Event] = {}


def same(value: Any = None) -> Any:
    CALLS.append(value)
    return value


async def held() -> None:
    await GATE["held"].wait()


@workflow
async def napping(flow: Flow) -> str:
    await flow.sleep("nap", "1h")
    return "awake"


@workflow
async def parent(flow: Flow) -> list[Any]:
    return list(await asyncio.gather(flow.do("child", napping), flow.do("held", held)))


@workflow
async def asking(flow: Flow) -> str:
    return (await flow.approval("ok")).status


@workflow
async def asked(flow: Flow) -> str:
    return await flow.do("child", asking)


@workflow
async def counted(flow: Flow) -> None:
    await flow.do("a", same)


def test_a_run_that_is_driven_twice_at_once_is_executed_once(make: Make) -> None:
    CALLS.clear()
    engine = make(counted)
    row = engine.engine.start("counted").row

    async def both() -> list[RunRow]:
        return list(await asyncio.gather(engine.engine.drive(row.id), engine.engine.drive(row.id)))

    assert [one.status for one in asyncio.run(both())] == [Status.COMPLETED, Status.COMPLETED]
    assert len(CALLS) == 1


def test_a_parent_at_work_hears_of_a_child_that_a_sweep_of_its_own_process_ended(make: Make) -> None:
    engine = make(parent, napping)

    async def scene() -> RunRow:
        GATE["held"] = asyncio.Event()
        parked = asyncio.Event()
        engine.observers.append(lambda events: parked.set() if events[0].kind == "sleep.started" else None)
        row = engine.engine.start("parent").row
        driving = asyncio.ensure_future(engine.engine.drive(row.id, park_after=0))
        await parked.wait()
        child = engine.ledger(row.id).children["child"]
        while engine.store.run(child).owner is not None:
            await asyncio.sleep(0)
        engine.clock.move("2h")  # type: ignore[attr-defined]
        while (await engine.engine.drive(child, park_after=0, verb="recover", follow=False)).status is Status.RUNNING:
            await asyncio.sleep(0)
        GATE["held"].set()
        return await driving

    assert output_of(engine, asyncio.run(asyncio.wait_for(scene(), 20))) == ["awake", None]


class Untold(SqliteStore):
    """A store whose process dies before a child's end is told."""

    def post(self, run_id: str, step: str | None, decide: Any, *, audit: Any = None) -> tuple[RunRow, list[Event]]:
        if audit is None:
            raise KeyboardInterrupt
        return super().post(run_id, step, decide, audit=audit)


def test_a_sweep_takes_up_a_parent_whose_child_died_before_it_told_its_end(make: Make) -> None:
    engine = make(asked, asking)
    row = engine.run("asked")
    child = engine.ledger(row.id).children["child"]
    engine.engine.answer(child, "ok", yes=True)
    engine.store.close()
    engine.engine.store = Untold(engine.store.path, engine.clock)
    dying = on_store(engine, engine.engine.store, asked, asking)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(dying.drive(child))
    dying.store.close()
    engine.owners.forked()
    later = make(asked, asking)
    assert later.store.run(child).status is Status.COMPLETED
    assert [due.id for due in later.engine.due(9)] == [row.id]
    assert output_of(later, later.drive(row.id)) == "approved"


def on_store(engine: Throwaway, store: SqliteStore, *functions: Any) -> Any:
    from flowstone.engine import Engine
    from flowstone.testing.throwaway import Functions

    settings = engine.engine.settings
    return Engine(
        store,
        engine.owners,
        Functions(*functions),
        engine.clock,
        settings,
        observe=lambda run, events: engine.seen.extend(events),
    )


@workflow
async def printing(flow: Flow, number: int) -> None:
    async def say() -> None:
        current_step().output("out", f"run {number}\n")
        await GATE["held"].wait()

    flow.log.info("body %s", number)
    await flow.do("say", say)


def test_runs_at_work_at_the_same_time_keep_their_own_output(make: Make) -> None:
    engine = make(printing)

    async def scene() -> list[str]:
        GATE["held"] = asyncio.Event()
        rows = [engine.engine.start("printing", {"number": number}).row for number in range(3)]
        driving = [asyncio.ensure_future(engine.engine.drive(row.id)) for row in rows]
        while sum(event.kind == "step.started" for event in engine.seen) < 3:
            await asyncio.sleep(0)
        GATE["held"].set()
        await asyncio.gather(*driving)
        return [row.id for row in rows]

    for number, run_id in enumerate(asyncio.run(scene())):
        assert [piece.text for _, piece in engine.store.logs(run_id)] == [f"body {number}\n", f"run {number}\n"]


class SlowOutput(SqliteStore):
    """A store in which the output of a step is written only after the next events."""

    begun = threading.Event()
    go_on = threading.Event()

    def append(
        self, run_id: str, epoch: int, drafts: Sequence[Draft], change: Change, logs: Sequence[LogPiece] = ()
    ) -> list[Event] | None:
        if logs and not drafts:
            self.begun.set()
            self.go_on.wait(1)
        return super().append(run_id, epoch, drafts, change, logs)


@workflow
async def talking(flow: Flow) -> None:
    async def say() -> None:
        current_step().output("out", "hello")
        while not SlowOutput.begun.is_set():
            await asyncio.sleep(0.01)

    await flow.do("say", say)
    await flow.approval("ok")


def test_the_row_is_right_when_output_and_events_are_written_at_the_same_time(make: Make) -> None:
    engine = make(talking, clock=SystemClock())
    store = SlowOutput(engine.store.path, engine.clock)
    slow = on_store(engine, store, talking)
    run_id = slow.start("talking").row.id
    asyncio.run(slow.drive(run_id))
    assert columns_in(store.run(run_id)) == columns_of(store.events(run_id))
    store.close()


@workflow
async def racing(flow: Flow) -> None:
    await flow.race({"missing": flow.do("x", "no such step"), "nap": flow.sleep("short", "1s")})
    await flow.sleep("long", "1h")


def test_a_missing_function_that_nobody_waits_for_any_more_suspends_nothing(make: Make) -> None:
    engine = make(racing, clock=SystemClock())
    row = engine.run("racing", park_after=2_000_000)
    assert row.status is Status.RUNNING


class Faulty(Exception):
    pass


def test_a_run_that_breaks_off_ends_no_other_run_of_a_worker(make: Make) -> None:
    engine = make(counted)
    runs = [engine.engine.start("counted", detach=True).row.id for _ in range(2)]

    def fail(events: Sequence[Event]) -> None:
        if any(event.kind == "step.started" for event in engine.store.events(runs[0])):
            engine.observers.remove(fail)
            raise Faulty("boom")

    engine.observers.append(fail)
    told: list[FlowError] = []
    asyncio.run(
        work(
            engine.engine,
            concurrency=2,
            poll=1000,
            once=True,
            tell=lambda row, after: told.append(after) if isinstance(after, FlowError) else None,
        )
    )
    assert ["boom" in one.message for one in told] == [True]
    assert sorted(engine.store.run(run).status for run in runs) == [Status.COMPLETED, Status.RUNNING]


@workflow
async def stubborn(flow: Flow) -> str:
    async def swallow() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                CALLS.append("swallowed")

    return (await flow.race({"stubborn": flow.do("stubborn", swallow), "quick": flow.do("quick", same)})).name


def test_a_step_that_swallows_its_cancelling_keeps_no_process_from_ending(make: Make) -> None:
    CALLS.clear()
    assert output_of(make(stubborn), make(stubborn).run("stubborn")) == "quick"
    assert CALLS == [None, "swallowed"]
