"""Bodies that swallow every refusal and ask again keep neither a pass nor the end of a run from coming."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from flowstone import BlockingFlow, Flow, workflow
from flowstone.journal.states import Status
from flowstone.running.refusals import MOST
from flowstone.testing.throwaway import Throwaway
from support.engines import Make

SECONDS = 20.0
"""How long a pass that must end may take."""


def one() -> int:
    return 1


ASKS: dict[str, Callable[[Flow], Any]] = {
    "do": lambda flow: flow.do("x", one),
    "suspend": lambda flow: flow.suspend("x"),
    "approval": lambda flow: flow.approval("x"),
    "sleep": lambda flow: flow.sleep("x", "1h"),
    "state": lambda flow: flow.set_state("x", 1),
    "map": lambda flow: flow.map("x", one_of, [1, 2]),
    "race": lambda flow: flow.race({"a": flow.suspend("x"), "b": flow.sleep("y", "1h")}),
    "gather": lambda flow: asyncio.gather(flow.suspend("x"), flow.suspend("y")),
    "now first": lambda flow: flow.sleep("x", "1h") if flow.now() else None,
    "random first": lambda flow: flow.sleep("x", "1h") if flow.random.random() >= 0 else None,
}


async def one_of(_: int) -> int:
    return 1


@workflow
async def swallows(flow: Flow, how: str) -> None:
    await flow.do("before", one)
    while True:
        try:
            await flow.suspend("hold")
            while True:
                await ASKS[how](flow)
        except BaseException:
            continue


@workflow
async def swallows_inside(flow: Flow, how: str) -> None:
    await flow.do("before", one)
    while True:
        try:
            await ASKS[how](flow)
            await flow.suspend("hold")
        except BaseException:
            continue


@workflow
def blocks(flow: BlockingFlow, how: str) -> None:
    while True:
        try:
            flow.suspend("hold")
        except BaseException:
            continue


BODIES = [(swallows, how) for how in ASKS] + [(swallows_inside, how) for how in ASKS] + [(blocks, "suspend")]


def in_time(work: Callable[[], Any]) -> Any:
    """What it gives; the test fails if it does not end."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert found, "it does not come to its end"
    return found[0]


@pytest.mark.parametrize(("body", "how"), BODIES, ids=lambda one: getattr(one, "__name__", one))
def test_a_pass_over_a_body_that_never_gives_in_ends(make: Make, body: Any, how: str) -> None:
    engine = make(swallows, swallows_inside, blocks)
    row = in_time(lambda: engine.run(body.__name__, {"how": how}))
    assert row.status in (Status.SUSPENDED, Status.RUNNING)
    assert row.owner is None
    before = engine.kinds(row.id)
    assert in_time(lambda: make(swallows, swallows_inside, blocks, clock=engine.clock).drive(row.id)).events == len(before)


@pytest.mark.parametrize(("body", "how"), BODIES, ids=lambda one: getattr(one, "__name__", one))
def test_a_run_of_such_a_body_can_be_cancelled(make: Make, body: Any, how: str) -> None:
    engine = make(swallows, swallows_inside, blocks)
    row = in_time(lambda: engine.run(body.__name__, {"how": how}))
    engine.engine.cancel(row.id, "enough")
    assert in_time(lambda: engine.drive(row.id, verb="cancel")).status is Status.CANCELLED
    assert all(not operation.open for operation in engine.ledger(row.id).operations.values())


def test_a_cancel_that_was_cut_off_behind_such_a_body_goes_on(make: Make) -> None:
    engine = make(swallows, swallows_inside, blocks)
    row = engine.run("swallows", {"how": "do"})
    engine.engine.cancel(row.id, "enough")
    engine.observers.append(lambda events: die(engine, row.id))
    with pytest.raises(MemoryError):
        engine.drive(row.id, verb="cancel")
    engine.vanish()
    other = make(swallows, swallows_inside, blocks, clock=engine.clock)
    assert in_time(lambda: other.drive(row.id)).status is Status.CANCELLED


def die(engine: Throwaway, run_id: str) -> None:
    if "run.cancelling" in engine.kinds(run_id):
        raise MemoryError


def test_cleanup_that_asks_for_much_is_no_endless_body(make: Make) -> None:
    @workflow
    async def tidies(flow: Flow) -> None:
        try:
            await flow.suspend("hold")
        except BaseException:
            await asyncio.gather(*(flow.do("tidy", one) for _ in range(2 * MOST)))
            raise

    engine = make(tidies)
    row = engine.run("tidies")
    engine.engine.cancel(row.id, "enough")
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    assert engine.kinds(row.id).count("run.cancelled") == 1
    assert sum(kind.startswith("step.succeeded tidy") for kind in engine.kinds(row.id)) == 2 * MOST
