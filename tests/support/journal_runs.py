"""Runs of many shapes, carried out by the engine: what the folds over journals are tested with beside journals built by hand."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from flowstone import Done, Failed, Flow, RunCancelled, StepFailed, step, workflow
from flowstone.errors import StorageFailed
from flowstone.journal.events import Event
from flowstone.journal.states import SETTLED
from flowstone.ports import Filter
from flowstone.testing.throwaway import Throwaway
from support.engines import Make

BROKEN: set[str] = set()
"""What does not work at the moment: values that `work` and `release` raise for."""


class Declined(Exception):
    """What a broken step raises."""


async def work(name: str) -> str:
    """Gives its argument back, unless that is broken."""
    if name in BROKEN:
        raise Declined(f"{name} does not work")
    return name.upper()


def release(done: Done[Any]) -> str:
    """Undoes `work`, unless "release" is broken."""
    if "release" in BROKEN:
        raise Declined("release does not work")
    return f"{done.outcome} {done.step}"


def tell(failed: Failed[Any]) -> str:
    """Handles a failure."""
    return f"told of {failed.step}"


@step(repeatable=False)
async def charge(amount: int) -> int:
    """Must not be repeated."""
    return amount


@workflow
async def plain(flow: Flow) -> str:
    """Two steps."""
    first = await flow.do("first", work, "first")
    return first + await flow.do("second", work, "second", retries=1, retry_delay="1h")


@workflow
async def shop(flow: Flow) -> str:
    """Reserves twice, then pays; both have an undo, paying has a handler."""
    await asyncio.gather(*[flow.do(f"reserve {one}", work, one, undo=release, retries=0) for one in ("left", "right")])
    return await flow.do("pay", work, "pay", on_error=tell, retries=0)


@workflow
async def fanned(flow: Flow) -> list[Any]:
    """Items beside each other, with attempts that fail at first."""
    await flow.set_state("region", "eu")
    found = await flow.map("quote", work, ["a", "b", "c"], key=str, failures="collect", retries=1, retry_delay="1h")
    await flow.set_state("region", "us")
    return [str(one) for one in found]


@workflow
async def raced(flow: Flow) -> str:
    """The loser has an undo."""
    first = await flow.race({"quick": flow.do("quick", work, "quick"), "slow": flow.do("slow", work, "slow", undo=release)})
    await flow.sleep("nap", "2h")
    return str(first)


@workflow
async def asked(flow: Flow) -> list[Any]:
    """Gates of every outcome."""
    first = await flow.approval("large order", expiry="2d")
    second = await flow.approval("large order", expiry="2d")
    await flow.suspend("look at it")
    return [first.status, second.status]


@workflow
async def signed(flow: Flow) -> str:
    """A gate that a cancel meets, with something to tidy up and something to undo."""
    await flow.do("reserve", work, "reserve", undo=release)
    try:
        await flow.approval("sign", message="129 EUR")
    except RunCancelled:
        await flow.do("tidy up", work, "tidy")
        raise
    return await flow.do("ship", work, "ship")


@workflow
async def changed_mind(flow: Flow) -> None:
    """Cancels itself."""
    await flow.do("reserve", work, "reserve", undo=release)
    flow.cancel("not signed off")


@workflow
async def parent(flow: Flow, kind: str) -> str:
    """A child run."""
    await flow.do("before", work, "before")
    child: Any = {"plain": plain, "signed": signed, "shop": shop, "grandchild": grandchild}[kind]
    return f"parent of {await flow.do('kid', child)}"


@workflow
async def grandchild(flow: Flow) -> Any:
    """A child that has one itself."""
    return await flow.do("grandkid", plain)


@workflow
async def patient(flow: Flow) -> Any:
    """A child that is tried twice."""
    return await flow.do("kid", handled, retries=1, retry_delay="1h")


@workflow
async def paid(flow: Flow, amount: int) -> int:
    """A step that must not be repeated."""
    await flow.do("reserve", work, "reserve", undo=release)
    return await flow.do("charge card", charge, amount)


@workflow
async def handled(flow: Flow) -> str:
    """A failure that the body takes, beside a step that fails later."""
    try:
        await flow.do("risky", work, "risky", on_error=tell, retries=0)
    except StepFailed:
        await flow.do("instead", work, "instead", retries=0)
    return await flow.do("last", work, "last", retries=0)


@workflow
async def beside(flow: Flow) -> list[str]:
    """Steps beside each other: one fails at once, what was asked for before it goes on."""
    return list(await asyncio.gather(flow.do("slow", slow), flow.do("quick", work, "quick", retries=0)))


@workflow
async def waited_for(flow: Flow) -> list[Any]:
    """A timer and a person beside a step that fails."""
    nap, sign = flow.sleep("nap", "5h"), flow.approval("sign", expiry="2d")
    return list(await asyncio.gather(nap, sign, flow.do("last", work, "last", retries=1, retry_delay="1h")))


@workflow
async def guarded(flow: Flow) -> str:
    """A child run with an undo and a handler, and a step after it."""
    await flow.do("kid", plain, undo=release, on_error=tell)
    return await flow.do("last", work, "last", retries=0)


async def slow() -> str:
    """Ends some turns later than its neighbours."""
    for _ in range(20):
        await asyncio.sleep(0)
    return "slow"


WORKFLOWS = (
    plain, shop, fanned, raced, asked, signed, changed_mind, parent, grandchild, patient, paid, handled, beside, waited_for,
    guarded, charge,
)  # fmt: skip


class Runs:
    """An engine with all these workflows, and the ways to bring a run somewhere."""

    def __init__(self, make: Make) -> None:
        BROKEN.clear()
        self._make = make
        self.engine: Throwaway = make(*WORKFLOWS)

    def run(self, workflow: str, data: Any = None, *, broken: tuple[str, ...] = ()) -> str:
        """Start a run while some things are broken, and drive it until it ends or parks. Its id."""
        BROKEN.clear()
        BROKEN.update(broken)
        return self.engine.run(workflow, data).id

    def go_on(self, run: str, *, broken: tuple[str, ...] = ()) -> str:
        """Drive it to its end, over sleeps and retries."""
        BROKEN.clear()
        BROKEN.update(broken)
        self._to_the_end(run)
        return run

    def retry(self, run: str, *, broken: tuple[str, ...] = (), step: str | None = None) -> str:
        """What `flow retry` does."""
        BROKEN.clear()
        BROKEN.update(broken)
        self.engine.engine.retry(run, step)
        self._to_the_end(run)
        return run

    def cancel(self, run: str, reason: str, *, broken: tuple[str, ...] = ()) -> str:
        """What `flow cancel` does, until the run has ended."""
        BROKEN.clear()
        BROKEN.update(broken)
        self.engine.engine.cancel(run, reason)
        self._to_the_end(run)
        return run

    def _to_the_end(self, run: str) -> None:
        """Do what `flow recover` does, over sleeps and retries, until the run has ended."""
        for _ in range(20):
            for row in self.engine.store.runs(Filter()):
                self.engine.drive(row.id)
            if self.engine.store.run(run).status in SETTLED:
                return
            self.engine.clock.move("1h")  # type: ignore[attr-defined]
        raise AssertionError(f"run {run} does not end: {self.engine.kinds(run)}")

    def answer(self, run: str, reason: str, *, yes: bool = True, **more: Any) -> None:
        """What `flow approve` and `flow reject` record."""
        self.engine.engine.answer(run, reason, yes=yes, by="ana", **more)

    def killed(self, workflow: str, data: Any = None, *, at: tuple[str, str], broken: tuple[str, ...] = ()) -> str:
        """Start a run; its process vanishes once the event of that kind and step is written. Nobody has taken the run up yet."""
        BROKEN.clear()
        BROKEN.update(broken)
        run = self.engine.engine.start(workflow, data).row.id
        self.kill(run, at)
        return run

    def kill(self, run: str, at: tuple[str, str]) -> None:
        """Drive a run; the process vanishes once the event of that kind and step is written, and another one is there."""
        dying = self.engine

        def observe(events: Sequence[Event]) -> None:
            if any((event.kind, event.step) == at for event in events):
                dying.vanish()

        dying.observers.append(observe)
        with pytest.raises(StorageFailed):
            dying.drive(run)
        self.engine = self._make(*WORKFLOWS, clock=dying.clock)
