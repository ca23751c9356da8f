"""Sleeps: the instant of waking is recorded once, and only the rest is waited for after a crash."""

import asyncio
from datetime import timedelta
from typing import Any

from flowstone import Flow, workflow
from flowstone.clock import MICROSECONDS
from flowstone.journal.states import Status
from support.engines import Make, failure, output_of, to_the_end


@workflow
async def nap(flow: Flow) -> str:
    await flow.sleep("cool off", "1h")
    return "awake"


def test_a_sleep_records_its_instant_and_parks_the_run_without_owner(make: Make) -> None:
    engine = make(nap)
    row = engine.run("nap")
    [started] = [event for event in engine.events(row.id) if event.kind == "sleep.started"]
    assert started.body()["wake_at"] == started.at + 3600 * MICROSECONDS
    assert (row.status, row.owner) == (Status.RUNNING, None)
    assert engine.kinds(row.id)[2:] == ["sleep.started sleep:cool off~1"]


def test_before_its_instant_nothing_is_taken_up(make: Make) -> None:
    engine = make(nap)
    row = engine.run("nap")
    before = engine.kinds(row.id)
    engine.clock.move("59m")  # type: ignore[attr-defined]
    engine.drive(row.id)
    assert engine.kinds(row.id) == before


def test_at_its_instant_the_run_goes_on(make: Make) -> None:
    engine = make(nap)
    row = engine.run("nap")
    engine.clock.move("1h")  # type: ignore[attr-defined]
    assert engine.drive(row.id).status is Status.COMPLETED
    assert engine.kinds(row.id)[2:] == [
        "sleep.started sleep:cool off~1",
        "run.claimed",
        "step.succeeded sleep:cool off~1",
        "run.completed",
    ]


def test_a_crash_does_not_start_the_wait_anew_nor_does_resume_cut_it_short(make: Make) -> None:
    engine = make(nap)
    row = engine.run("nap")
    engine.clock.move("30m")  # type: ignore[attr-defined]
    again = make(nap, clock=engine.clock)
    assert again.resume(row.id).status is Status.RUNNING
    engine.clock.move("30m")  # type: ignore[attr-defined]
    assert again.drive(row.id).status is Status.COMPLETED
    assert sum(kind.startswith("sleep.started") for kind in again.kinds(row.id)) == 1


def test_a_duration_changed_in_the_code_does_not_change_a_sleep_that_has_begun(make: Make) -> None:
    @workflow(name="nap")
    async def longer(flow: Flow) -> str:
        await flow.sleep("cool off", "5h")
        return "awake"

    engine = make(nap)
    row = engine.run("nap")
    engine.clock.move("1h")  # type: ignore[attr-defined]
    assert make(longer, clock=engine.clock, version="2").drive(row.id).status is Status.COMPLETED


def test_a_process_that_may_wait_stays_and_wakes(make: Make) -> None:
    engine = make(nap)
    row = engine.engine.start("nap").row

    async def drive() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(row.id, park_after=None))
        while not driving.done():
            engine.clock.move("10m")  # type: ignore[attr-defined]
            for _ in range(100):
                await asyncio.sleep(0)
        assert driving.result().status is Status.COMPLETED

    asyncio.run(drive())
    assert sum(kind == "run.claimed" for kind in engine.kinds(row.id)) == 1


def test_sleeps_side_by_side_end_in_the_order_of_their_instants(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        ended: list[str] = []

        async def one(name: str, duration: Any) -> None:
            await flow.sleep(name, duration)
            ended.append(name)

        await asyncio.gather(one("long", "3h"), one("short", timedelta(hours=1)), one("middle", "2h"))
        return ended

    engine = make(body)
    row = engine.run("body")
    to_the_end(engine, row.id)
    assert output_of(engine, row) == ["short", "middle", "long"]


def test_sleeps_that_are_due_together_end_in_the_order_of_their_instants_too(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        ended: list[str] = []

        async def one(name: str, duration: str) -> None:
            await flow.sleep(name, duration)
            ended.append(name)

        await asyncio.gather(one("long", "3h"), one("short", "1h"), one("middle", "2h"))
        return ended

    engine = make(body)
    row = engine.run("body")
    engine.clock.move("1d")  # type: ignore[attr-defined]
    engine.drive(row.id)
    assert output_of(engine, row) == ["short", "middle", "long"]


def test_a_bare_number_is_refused(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.sleep("nap", 5)  # type: ignore[arg-type]

    assert "5" in failure(make(body), body)["message"]


def test_a_sleep_that_the_body_gives_up_keeps_nothing_waiting(make: Make) -> None:
    async def quick() -> int:
        return 1

    @workflow
    async def body(flow: Flow) -> int:
        sleeping = asyncio.create_task(flow.sleep("nap", "30d"))
        await flow.do("quick", quick)
        sleeping.cancel()
        await flow.suspend("look")
        return 2

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.SUSPENDED
    assert "sleep" not in row.waiting.replace("sleep:", "")
    assert engine.resume(row.id).status is Status.COMPLETED
