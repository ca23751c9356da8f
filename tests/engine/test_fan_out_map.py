"""Several operations at once: map and race, what is recorded of them, what a resume repeats, and what is written together."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from flowstone import BlockingFlow, Flow, StepFailed, workflow
from flowstone.journal.events import Event
from flowstone.journal.states import Status
from flowstone.journal.timeline import spans
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of, to_the_end

EFFECTS: list[str] = []
BROKEN: set[str] = set()
AT_ONCE: list[int] = [0, 0]
"""How many run now, and the most that ever did."""


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    EFFECTS.clear()
    BROKEN.clear()
    AT_ONCE[:] = [0, 0]


async def work(name: str) -> str:
    EFFECTS.append(name)
    AT_ONCE[0] += 1
    AT_ONCE[1] = max(AT_ONCE)
    for _ in range(ord(name[0]) % 7):
        await asyncio.sleep(0)
    AT_ONCE[0] -= 1
    if name in BROKEN:
        raise ValueError(f"{name} does not work")
    return name.upper()


async def endless() -> None:
    await asyncio.Event().wait()


@workflow
async def child(flow: Flow, name: str) -> str:
    return await flow.do("work", work, name)


@workflow
async def mapped(flow: Flow, names: list[str]) -> list[str]:
    return await flow.map("m", work, names, key=str)


@workflow
async def collected(flow: Flow, names: list[str]) -> list[Any]:
    result = await flow.map("m", work, names, key=str, failures="collect")
    return [result.ok, {key: failure.message for key, failure in result.failed.items()}]


def starts(engine: Throwaway, run_id: str) -> Counter[str]:
    return Counter(event.step or "" for event in engine.events(run_id) if event.kind == "step.started")


NAMES = ["g", "c", "a", "f", "b"]


def test_items_are_named_by_their_key_and_results_come_in_the_order_of_the_items(make: Make) -> None:
    engine = make(mapped)
    row = engine.run("mapped", {"names": NAMES})
    assert output_of(engine, row) == [name.upper() for name in NAMES]
    assert set(starts(engine, row.id)) == {f"m[{name}]" for name in NAMES}


def test_without_a_key_items_are_named_by_their_index_and_a_second_map_by_its_number(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.map("m", work, ["a"])
        await flow.map("m", work, ["b"])

    engine = make(body)
    assert set(starts(engine, engine.run("body").id)) == {"m[0]", "m#1[0]"}


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_more_items_run_at_once_than_the_limit(make: Make, limit: int) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        return await flow.map("m", work, NAMES, limit=limit)

    engine = make(body)
    assert output_of(engine, engine.run("body")) == [name.upper() for name in NAMES]
    assert AT_ONCE[1] == limit


def test_collected_failures_come_by_key_beside_the_results(make: Make) -> None:
    BROKEN.update({"c", "b"})
    engine = make(collected)
    ok, failed = output_of(engine, engine.run("collected", {"names": NAMES}))
    assert list(ok.items()) == [("g", "G"), ("a", "A"), ("f", "F")]
    assert failed == {"c": "c does not work", "b": "b does not work"}


def test_an_item_may_be_a_child_run(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        return await flow.map("m", child, ["a", "b"], key=str)

    engine = make(body, child)
    row = engine.run("body")
    assert output_of(engine, row) == ["A", "B"]
    assert {operation.kind for operation in engine.ledger(row.id).operations.values()} == {"child"}


def test_a_def_body_maps_the_same_way(make: Make) -> None:
    @workflow
    def body(flow: BlockingFlow) -> list[str]:
        return flow.map("m", work, NAMES, key=str)

    engine = make(body)
    row = engine.run("body")
    assert output_of(engine, row) == [name.upper() for name in NAMES]
    assert set(starts(engine, row.id)) == {f"m[{name}]" for name in NAMES}


def test_after_a_death_only_what_had_not_ended_is_repeated(make: Make) -> None:
    engine = make(mapped)
    run_id = engine.engine.start("mapped", {"names": NAMES}).row.id

    def die(events: Any) -> None:
        if any(event.kind == "step.succeeded" for event in events):
            raise MemoryError

    engine.observers.append(die)
    with pytest.raises(MemoryError):
        engine.drive(run_id)
    ended = {event.step for event in engine.events(run_id) if event.kind == "step.succeeded"}
    engine.vanish()
    other = make(mapped, clock=engine.clock)
    assert output_of(other, other.resume(run_id)) == [name.upper() for name in NAMES]
    repeated = {step for step, count in starts(other, run_id).items() if count > 1}
    assert repeated == {f"m[{name}]" for name in NAMES} - ended


def test_a_retry_after_one_item_failed_repeats_that_one_and_none_that_had_succeeded(make: Make) -> None:
    BROKEN.add("f")
    engine = make(mapped)
    row = engine.run("mapped", {"names": NAMES})
    error = engine.ledger(row.id).error
    assert error is not None
    assert (row.status, error["step"]) == (Status.FAILED, "m[f]")
    succeeded = {event.step for event in engine.events(row.id) if event.kind == "step.succeeded"}
    BROKEN.clear()
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == [name.upper() for name in NAMES]
    counted = starts(engine, row.id)
    assert counted["m[f]"] == 2
    assert {step for step, count in counted.items() if count == 1} >= succeeded


def test_of_five_gathered_steps_the_four_that_succeeded_run_once_in_all(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        results = await asyncio.gather(*[flow.do(name, work, name) for name in NAMES], return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [str(result) for result in results]

    BROKEN.add("a")
    engine = make(body)
    row = engine.run("body")
    BROKEN.clear()
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == [name.upper() for name in NAMES]
    assert Counter(EFFECTS) == Counter([*NAMES, "a"])


# race


def test_the_first_to_end_wins_live_and_on_replay_and_losers_are_shown_as_cancelled(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        contestants = {"gate": flow.approval("ok"), "late": flow.sleep("late", "1h"), "never": flow.do("never", endless)}
        won = await flow.race({**contestants, "quick": flow.do("quick", work, "a")})
        await flow.suspend("look")
        return [won.name, won.value]

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.SUSPENDED
    ends = {span.step: span.status for span in spans(engine.events(row.id))}
    assert (ends["approve:ok"], ends["sleep:late"], ends["never"]) == ("cancelled", "cancelled", "cancelled")
    assert [wait for wait in row.waiting.split('"kind":"')[1:] if not wait.startswith("suspend")] == []
    other = make(body, clock=engine.clock)
    assert output_of(other, other.resume(row.id)) == ["quick", "A"]
    assert EFFECTS == ["a"]


def test_a_gate_that_lost_is_closed_and_the_run_completes(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        return (await flow.race({"gate": flow.approval("ok"), "late": flow.sleep("late", "1s")})).name

    engine = make(body)
    row = engine.run("body")
    assert output_of(engine, to_the_end(engine, row.id)) == "late"
    assert "gate.closed approve:ok~1" in engine.kinds(row.id)


def test_a_child_that_lost_is_cancelled(make: Make) -> None:
    @workflow
    async def waits(flow: Flow) -> None:
        await flow.suspend("hold")

    @workflow
    async def body(flow: Flow) -> str:
        return (await flow.race({"kid": flow.do("kid", waits), "late": flow.sleep("late", "1s")})).name

    engine = make(body, waits)
    row = engine.run("body")
    assert output_of(engine, to_the_end(engine, row.id)) == "late"
    assert engine.store.run(engine.ledger(row.id).operations["kid"].child or "").status is Status.CANCELLED


def test_a_contestant_that_fails_first_fails_the_race(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.race({"bad": flow.do("bad", work, "g"), "never": flow.do("never", endless)})
        except StepFailed as failure:
            return failure.step
        return ""

    BROKEN.add("g")
    engine = make(body)
    assert output_of(engine, engine.run("body")) == "bad"


# written together


def test_results_that_come_together_are_committed_together(make: Make) -> None:
    async def ready() -> None:
        return

    @workflow
    async def body(flow: Flow) -> int:
        return len(await flow.map("m", ready_item, list(range(100))))

    async def ready_item(number: int) -> int:
        await ready()
        return number

    engine = make(body)
    transactions: list[int] = []

    def note(events: Any) -> None:
        transactions.append(sum(isinstance(event, Event) and event.kind == "step.succeeded" for event in events))

    engine.observers.append(note)  # told once a transaction
    row = engine.run("body")
    assert output_of(engine, row) == 100
    with_results = [count for count in transactions if count]
    assert sum(with_results) == 100
    assert len(with_results) <= 3


# functions that are not there


def test_a_missing_function_suspends_the_run_and_its_siblings_end_first(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        return list(await asyncio.gather(flow.do("there", work, "a"), flow.do("gone", "gone", {"a": {1, 2}}, retries=1)))

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.SUSPENDED
    assert '"kind":"function"' in row.waiting
    assert EFFECTS == ["a"]
    assert "step.started gone~1" not in engine.kinds(row.id)

    from flowstone import step

    @step
    def gone(given: dict[str, set[int]]) -> str:
        EFFECTS.append("gone")
        return f"found {sorted(given['a'])}"

    other = make(body, gone, clock=engine.clock)
    assert output_of(other, other.resume(row.id)) == ["A", "found [1, 2]"]
    assert EFFECTS == ["a", "gone"]


def test_a_function_that_goes_away_between_two_attempts_suspends_the_run(make: Make) -> None:
    from decimal import Decimal

    from flowstone import step

    @step
    def pay(amount: Decimal) -> Decimal:
        EFFECTS.append("pay")
        if EFFECTS.count("pay") == 1:
            raise OSError("down")
        return amount

    @workflow
    async def body(flow: Flow) -> str:
        return str(await flow.do("pay", "pay", Decimal("1.50"), retries=1, retry_delay="1h"))

    engine = make(body, pay)
    row = engine.run("body")
    engine.clock.move("1h")
    without = make(body, clock=engine.clock)
    assert without.drive(row.id).status is Status.SUSPENDED
    again = make(body, pay, clock=engine.clock)
    assert output_of(again, again.resume(row.id)) == "1.50"
    assert EFFECTS == ["pay", "pay"]
