"""One owner at a time: who is refused, who may take over, and what the one who lost a run can still do."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flowstone import Flow, workflow
from flowstone.clock import MICROSECONDS
from flowstone.errors import LostOwnership, RunOwned
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of


async def same(value: Any) -> Any:
    return value


class Held:
    """A step that goes on until it is released, and says when it has begun."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.released = asyncio.Event()
        self.calls = 0

    async def hold(self) -> int:
        self.calls += 1
        self.begun.set()
        await self.released.wait()
        return self.calls


def body_of(hold: Callable[[], Any]) -> Callable[..., Any]:
    @workflow(name="held")
    async def body(flow: Flow) -> list[Any]:
        first = await flow.do("before", same, 1)
        held = await flow.do("hold", hold)
        return [first, held, await flow.do("after", same, 2)]

    return body


def started(engine: Throwaway, run_id: str, step: str) -> int:
    return sum(kind.startswith(f"step.started {step}~") for kind in engine.kinds(run_id))


def test_while_one_drives_another_is_refused_and_writes_nothing(make: Make) -> None:
    async def both() -> None:
        held = Held()
        first = make(body_of(held.hold))
        row = first.engine.start("held").row
        driving = asyncio.ensure_future(first.engine.drive(row.id))
        await held.begun.wait()
        before = first.kinds(row.id)
        with pytest.raises(RunOwned, match="is being executed by pid"):
            make(body_of(held.hold)).engine.resume(row.id)
        assert first.kinds(row.id) == before
        held.released.set()
        assert (await driving).status is Status.COMPLETED
        assert first.kinds(row.id).count("run.claimed") == 1

    asyncio.run(both())


def test_another_that_drives_follows_until_the_owner_has_ended(make: Make) -> None:
    async def both() -> None:
        held = Held()
        first = make(body_of(held.hold))
        row = first.engine.start("held").row
        driving = asyncio.ensure_future(first.engine.drive(row.id))
        await held.begun.wait()
        second = make(body_of(held.hold))
        following = asyncio.ensure_future(second.engine.drive(row.id))
        await asyncio.sleep(0)
        held.released.set()
        await driving
        while not following.done():
            second.clock.move("1s")  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        assert following.result().status is Status.COMPLETED
        assert held.calls == 1

    asyncio.run(both())


def test_a_takeover_fences_the_former_owner_which_writes_nothing_more(make: Make) -> None:
    async def both() -> None:
        held, other = Held(), Held()
        first = make(body_of(held.hold))
        row = first.engine.start("held").row
        driving = asyncio.ensure_future(first.engine.drive(row.id))
        await held.begun.wait()
        second = make(body_of(other.hold))
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def take() -> None:
            second.engine.resume(row.id, takeover=True)
            taken.set_result(None)

        asyncio.get_running_loop().call_soon(take)  # in a plain callback: a body's tasks run in no other task
        await taken
        written = second.kinds(row.id)
        assert written[-3:] == ["run.interrupted", "run.claimed", "step.interrupted hold~1"]
        held.released.set()
        with pytest.raises(LostOwnership):
            await driving
        assert second.kinds(row.id) == written
        other.released.set()
        assert (await second.engine.drive(row.id)).status is Status.COMPLETED
        assert output_of(second, row) == [1, 1, 2]

    asyncio.run(both())


def test_a_takeover_says_so_and_counts_up_the_epoch(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.suspend("look")

    first = make(body)
    row = first.engine.start("body").row
    second = make(body)
    taken = second.engine.resume(row.id, takeover=True)
    assert taken.epoch == row.epoch + 1
    interrupted = next(event.body() for event in second.events(row.id) if event.kind == "run.interrupted")
    assert (interrupted["code"], interrupted["owner"]) == ("TAKEOVER", row.owner)


def test_a_run_whose_process_vanished_is_taken_up_by_whoever_comes(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        return int(await flow.do("a", same, 1))

    first = make(body)
    row = first.engine.start("body").row
    first.vanish()
    second = make(body)
    assert second.drive(row.id).status is Status.COMPLETED
    interrupted = next(event.body() for event in second.events(row.id) if event.kind == "run.interrupted")
    assert (interrupted["code"], interrupted["owner"]) == ("VANISHED", row.owner)
    assert interrupted["found_by"]["user"]


def test_a_parked_run_has_no_owner_and_the_next_one_starts_a_new_epoch(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.sleep("nap", "1h")

    engine = make(body)
    row = engine.run("body")
    assert (row.owner, row.epoch) == (None, 1)
    engine.clock.move("1h")  # type: ignore[attr-defined]
    assert engine.drive(row.id).epoch == 2


def test_an_owner_that_waits_learns_that_it_lost_the_run_when_it_wakes(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        await flow.sleep("nap", "1m")
        return int(await flow.do("after", same, 1))

    async def both() -> None:
        first = make(body)
        row = first.engine.start("body").row
        driving = asyncio.ensure_future(first.engine.drive(row.id, park_after=60 * MICROSECONDS))
        while "sleep.started sleep:nap~1" not in first.kinds(row.id):
            await asyncio.sleep(0)
        second = make(body, clock=first.clock)
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: taken.set_result(second.engine.resume(row.id, takeover=True) and None))
        await taken
        written = second.kinds(row.id)
        while not driving.done():
            first.clock.move("10s")  # type: ignore[attr-defined]
            for _ in range(20):
                await asyncio.sleep(0)
        assert isinstance(driving.exception(), LostOwnership)
        assert second.kinds(row.id) == written
        assert (await second.engine.drive(row.id)).status is Status.COMPLETED
        assert started(second, row.id, "after") == 1

    asyncio.run(both())


def test_an_observer_that_fails_ends_the_pass_and_hangs_nothing(make: Make) -> None:
    class Boom(Exception):
        pass

    @workflow
    async def body(flow: Flow) -> list[int]:
        return list(await asyncio.gather(*[flow.do("a", same, number) for number in range(3)]))

    engine = make(body)
    row = engine.engine.start("body").row

    def fail(events: Any) -> None:
        if any(event.kind == "step.succeeded" for event in events):
            raise Boom

    engine.observers.append(fail)
    with pytest.raises(Boom):
        engine.drive(row.id)
    engine.vanish()
    again = make(body)
    assert again.drive(row.id).status is Status.COMPLETED
    assert output_of(again, row) == [0, 1, 2]


def test_a_key_starts_one_run_only(make: Make) -> None:
    @workflow
    async def body(flow: Flow, day: str) -> str:
        return day

    engine = make(body)
    first = engine.engine.start("body", {"day": "monday"}, key="k")
    again = make(body).engine.start("body", {"day": "monday"}, key="k")
    assert (first.created, again.created) == (True, False)
    assert again.row.id == first.row.id
