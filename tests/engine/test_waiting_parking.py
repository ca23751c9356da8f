"""Parking: a run is left only if no mail came in between, and who waits for nobody is not waited for."""

import asyncio
from collections.abc import Sequence
from typing import Any

from flowstone import Flow, workflow
from flowstone.journal.events import Event
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of


async def same(value: Any) -> Any:
    return value


@workflow
async def signed(flow: Flow) -> str:
    await flow.do("a", same, 1)
    return (await flow.approval("sign")).by or ""


def when(engine: Throwaway, kind: str, act: Any) -> None:
    """Call `act` once an event of that kind has landed, before the pass goes on."""
    done: list[bool] = []

    def observe(events: Sequence[Event]) -> None:
        if not done and any(event.kind == kind for event in events):
            done.append(True)
            act()

    engine.observers.append(observe)


def test_an_answer_between_the_opening_and_the_park_is_read_by_the_pass_that_is_there(make: Make) -> None:
    engine = make(signed)
    other = make(signed)
    row = engine.engine.start("signed").row
    when(engine, "gate.opened", lambda: other.engine.answer(row.id, "sign", yes=True, by="bob"))
    assert engine.drive(row.id).status is Status.COMPLETED
    assert output_of(engine, row) == "bob"
    kinds = engine.kinds(row.id)
    assert "run.suspended" not in kinds
    assert kinds.count("run.claimed") == 1


def test_an_answer_beside_a_running_step_is_read_at_the_next_tick(make: Make) -> None:
    released: list[asyncio.Event] = []

    async def slow() -> int:
        released.append(asyncio.Event())
        await released[0].wait()
        return 1

    @workflow
    async def body(flow: Flow) -> list[Any]:
        answer, number = await asyncio.gather(flow.approval("sign"), flow.do("slow", slow))
        return [answer.by, number]

    engine, other = make(body), make(body)
    row = engine.engine.start("body").row

    async def drive() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(row.id, park_after=0))
        while not released or "gate.opened approve:sign~1" not in engine.kinds(row.id):
            await asyncio.sleep(0)
        other.engine.answer(row.id, "sign", yes=True, by="bob")
        while "gate.closed approve:sign~1" not in engine.kinds(row.id):
            engine.clock.move("1s")  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        released[0].set()
        await driving

    asyncio.run(drive())
    assert output_of(engine, row) == ["bob", 1]
    assert engine.kinds(row.id).count("run.claimed") == 1


def test_parking_writes_the_suspension_and_gives_the_run_up_in_one_transaction(make: Make) -> None:
    engine = make(signed)
    owners: list[str | None] = []
    row = engine.engine.start("signed").row
    when(engine, "run.suspended", lambda: owners.append(engine.store.run(row.id).owner))
    engine.drive(row.id)
    assert owners == [None]


def test_a_run_parked_with_an_answer_goes_on_when_it_is_driven(make: Make) -> None:
    engine = make(signed)
    row = engine.run("signed")
    engine.engine.answer(row.id, "sign", yes=True, by="bob")
    assert engine.store.run(row.id).status is Status.SUSPENDED
    assert make(signed).drive(row.id, verb="approve").status is Status.COMPLETED


def test_a_stop_puts_the_run_down_and_only_resume_goes_on(make: Make) -> None:
    engine = make(signed)
    row = engine.engine.start("signed").row

    when(engine, "step.started", lambda: engine.engine.stop.set("STOPPED"))
    assert engine.drive(row.id).status is Status.SUSPENDED
    assert engine.events(row.id)[-1].body()["code"] == "STOPPED"
    again = make(signed)
    assert again.drive(row.id).status is Status.SUSPENDED
    again.resume(row.id)
    assert again.kinds(row.id)[-1] == "run.suspended"
    assert again.ledger(row.id).suspension == {"code": "WAITING", "gates": ["approve:sign"], "reasons": ["sign"]}


def test_a_signal_interrupts_the_run_and_whoever_comes_goes_on(make: Make) -> None:
    engine = make(signed)
    row = engine.engine.start("signed").row

    when(engine, "step.started", lambda: engine.engine.stop.set("SIGTERM"))
    row = engine.drive(row.id)
    assert (row.status, row.owner) == (Status.RUNNING, None)
    assert engine.events(row.id)[-1].kind == "run.interrupted"
    assert make(signed).drive(row.id).status is Status.SUSPENDED
