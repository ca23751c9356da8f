"""Divergence: code that no longer fits the journal is refused with the step and the line, and nothing is written."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flowstone import Flow, workflow
from flowstone.errors import Diverged
from flowstone.journal.states import Status
from support.engines import Make, output_of


async def charge(value: Any = 0) -> Any:
    return value


async def refund(value: Any = 0) -> Any:
    return value


async def slow(_: int) -> None:
    raise OSError("down")


@workflow
async def shop(flow: Flow) -> Any:
    first = await flow.do("charge card", charge, 1)
    second = await flow.do("send mail", charge, 2)
    await flow.suspend("look")
    return [first, second]


def edited(function: Callable[[Flow], Any]) -> Callable[..., Any]:
    return workflow(name="shop")(function)  # type: ignore[no-any-return]


def refusal(make: Make, before: Callable[..., Any], after: Callable[..., Any], *, version: str = "2") -> Diverged:
    """The error of resuming a run of `before` under `after`; fails the test if anything was written."""
    first = make(before)
    row = first.run("shop")
    journal, owners = first.events(row.id), first.store.run(row.id)
    again = make(after, version=version)
    with pytest.raises(Diverged) as refused:
        again.engine.resume(row.id)
    assert again.events(row.id) == journal
    assert again.store.run(row.id) == owners
    with pytest.raises(Diverged):
        again.engine.resume(row.id, takeover=True)
    assert again.events(row.id) == journal
    assert make(before).resume(row.id).status is Status.COMPLETED
    return refused.value


def test_a_renamed_step_diverges_and_the_message_names_both_and_the_line(make: Make) -> None:
    async def renamed(flow: Flow) -> None:
        await flow.do("charge", refund, 1)
        await flow.do("send mail", charge, 2)
        await flow.suspend("look")

    error = refusal(make, shop, edited(renamed))
    line = renamed.__code__.co_firstlineno + 1
    assert 'step 1: the journal has "charge card" (' in error.message
    assert 'the code asks for "charge" (' in error.message
    assert error.message.endswith(f"at engine/test_replay_divergence.py:{line}")
    assert error.kind == "refused"
    assert "randomness" in " ".join(error.details)
    assert (error.hint or "").startswith("flow check ")


def test_swapped_steps_diverge(make: Make) -> None:
    async def swapped(flow: Flow) -> None:
        await flow.do("send mail", charge, 2)
        await flow.do("charge card", charge, 1)
        await flow.suspend("look")

    assert '"charge card"' in refusal(make, shop, edited(swapped)).message


def test_a_removed_step_diverges(make: Make) -> None:
    async def removed(flow: Flow) -> None:
        await flow.do("charge card", charge, 1)
        await flow.suspend("look")

    error = refusal(make, shop, edited(removed))
    assert 'the journal has "send mail"' in error.message
    assert 'asks for "look" (suspend)' in error.message


def test_a_removed_gate_diverges(make: Make) -> None:
    async def removed(flow: Flow) -> Any:
        return [await flow.do("charge card", charge, 1), await flow.do("send mail", charge, 2)]

    error = refusal(make, shop, edited(removed))
    assert 'step 3: the journal has "look" (suspend)' in error.message
    assert "the code does not ask for it" in error.message


def test_an_inserted_step_diverges(make: Make) -> None:
    async def inserted(flow: Flow) -> None:
        await flow.do("charge card", charge, 1)
        await flow.do("new", charge, 9)
        await flow.do("send mail", charge, 2)
        await flow.suspend("look")

    assert 'step 2: the journal has "send mail"' in refusal(make, shop, edited(inserted)).message


def test_a_step_after_the_frontier_may_be_inserted(make: Make) -> None:
    async def longer(flow: Flow) -> Any:
        await flow.do("charge card", charge, 1)
        await flow.do("send mail", charge, 2)
        await flow.suspend("look")
        return await flow.do("new", charge, 9)

    row = make(shop).run("shop")
    again = make(edited(longer), version="2")
    again.resume(row.id)
    assert output_of(again, row) == 9
    assert "run.migrated" in again.kinds(row.id)


def test_another_function_behind_a_name_diverges(make: Make) -> None:
    async def other(flow: Flow) -> None:
        await flow.do("charge card", refund, 1)
        await flow.do("send mail", charge, 2)
        await flow.suspend("look")

    message = refusal(make, shop, edited(other)).message
    assert "charge)" in message
    assert "refund)" in message


def test_another_kind_of_operation_under_a_name_diverges(make: Make) -> None:
    async def other(flow: Flow) -> None:
        await flow.do("charge card", charge, 1)
        await flow.do("send mail", charge, 2)
        await flow.approval("look")

    assert "(suspend)" in refusal(make, shop, edited(other)).message


def test_another_branch_diverges(make: Make) -> None:
    async def other(flow: Flow) -> None:
        await asyncio.create_task(flow.do("charge card", charge, 1))

        async def mail() -> None:
            await flow.do("send mail", charge, 2)

        await asyncio.create_task(mail())
        await flow.suspend("look")

    refusal(make, shop, edited(other))


def test_another_input_under_the_same_version_diverges(make: Make) -> None:
    async def other(flow: Flow) -> None:
        await flow.do("charge card", charge, 1)
        await flow.do("send mail", charge, 3)
        await flow.suspend("look")

    assert "another input" in refusal(make, shop, edited(other), version="1").message


def test_another_input_under_a_new_version_is_tolerated_and_the_recorded_result_stands(make: Make) -> None:
    async def other(flow: Flow) -> Any:
        first = await flow.do("charge card", charge, 100)
        second = await flow.do("send mail", charge, 3)
        await flow.suspend("look")
        return [first, second]

    row = make(shop).run("shop")
    again = make(edited(other), version="2")
    again.resume(row.id)
    assert output_of(again, row) == [1, 2]


def test_swapped_inputs_of_steps_of_one_name_diverge_under_a_new_version_too(make: Make) -> None:
    async def before(flow: Flow) -> None:
        await flow.do("pay", charge, "ann")
        await flow.do("pay", charge, "bob")
        await flow.suspend("look")

    async def after(flow: Flow) -> None:
        await flow.do("pay", charge, "bob")
        await flow.do("pay", charge, "ann")
        await flow.suspend("look")

    refusal(make, edited(before), edited(after))


def test_a_body_that_ends_before_its_history_diverges(make: Make) -> None:
    async def short(flow: Flow) -> int:
        return 1

    assert "does not ask for it" in refusal(make, shop, edited(short)).message


def test_a_body_that_fails_before_its_history_diverges(make: Make) -> None:
    async def broken(flow: Flow) -> None:
        await flow.do("charge card", charge, 1)
        raise ValueError("new bug")

    refusal(make, shop, edited(broken))


def test_a_body_that_swallows_the_divergence_diverges_all_the_same(make: Make) -> None:
    async def swallowing(flow: Flow) -> None:
        try:
            await flow.do("other", charge, 1)
        except BaseException:
            await asyncio.sleep(0)
        await flow.do("send mail", charge, 2)
        await flow.suspend("look")

    assert 'step 1: the journal has "charge card"' in refusal(make, shop, edited(swallowing)).message


def test_a_body_that_looks_at_what_is_no_input_diverges(make: Make) -> None:
    turns: list[int] = []

    async def fickle(flow: Flow) -> None:
        turns.append(1)
        await flow.do(f"turn {len(turns)}", charge, 1)
        await flow.suspend("look")

    engine = make(edited(fickle))
    row = engine.run("shop")
    with pytest.raises(Diverged, match='the journal has "turn 1"'):
        engine.engine.resume(row.id)


def test_an_unfinished_step_that_the_code_no_longer_asks_for_diverges(make: Make) -> None:
    async def before(flow: Flow) -> None:
        await flow.do("slow", slow, 1, retry_delay="1h")

    async def after(flow: Flow) -> None:
        await flow.do("quick", slow, 1)

    engine = make(edited(before))
    row = engine.run("shop")
    journal = engine.events(row.id)
    engine.clock.move("2h")  # type: ignore[attr-defined]
    again = make(edited(after), clock=engine.clock, version="2")
    with pytest.raises(Diverged, match='the journal has "slow"'):
        again.drive(row.id)
    assert again.events(row.id) == journal
