"""Keys and identity: fixed at the call, in the calling task; what an author's name becomes in a key."""

import asyncio
from typing import Any

import pytest

from flowstone import Flow, workflow
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, failure, output_of


async def same(value: Any) -> Any:
    return value


def keys(engine: Throwaway, run_id: str) -> list[str]:
    return [event.step or "" for event in engine.events(run_id) if event.kind in ("step.started", "gate.opened", "sleep.started")]


def test_operations_of_the_body_itself_have_their_names_as_keys(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await asyncio.gather(flow.do("a", same, 1), flow.do("b", same, 2))
        await flow.do("a", same, 1)
        await flow.do("a", same, 1)

    engine = make(body)
    assert keys(engine, engine.run("body").id) == ["a", "b", "a#1", "a#2"]


def test_each_task_of_the_body_is_a_branch_numbered_in_the_order_of_making(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        async def fetch(number: int) -> None:
            await flow.do("fetch", same, number)
            await flow.do("fetch", same, number)

        await asyncio.gather(fetch(0), fetch(1), fetch(2))

    engine = make(body)
    seen = keys(engine, engine.run("body").id)
    assert sorted(seen) == ["[0]/fetch", "[0]/fetch#1", "[1]/fetch", "[1]/fetch#1", "[2]/fetch", "[2]/fetch#1"]


def test_tasks_of_tasks_are_branches_of_branches(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        async def leaf() -> None:
            await flow.do("leaf", same, 1)

        async def inner() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(leaf())
                group.create_task(leaf())

        await asyncio.create_task(inner())
        await leaf()

    engine = make(body)
    assert sorted(keys(engine, engine.run("body").id)) == ["[0]/[0]/leaf", "[0]/[1]/leaf", "leaf"]


def test_a_plain_await_of_a_coroutine_stays_in_its_branch(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        async def helper() -> None:
            await flow.do("help", same, 1)

        await helper()
        await helper()

    engine = make(body)
    assert keys(engine, engine.run("body").id) == ["help", "help#1"]


def test_identity_is_fixed_at_the_call_not_when_it_is_awaited(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[int]:
        first = flow.do("x", same, 1)
        second = flow.do("x", same, 2)

        async def elsewhere() -> int:
            return int(await second)

        late = asyncio.create_task(elsewhere())
        return [await late, await first]

    engine = make(body)
    row = engine.run("body")
    assert output_of(engine, row) == [2, 1]
    inputs = {event.step: event.body()["input"] for event in engine.events(row.id) if event.kind == "step.started"}
    assert inputs == {"x": 1, "x#1": 2}


def test_the_input_is_fixed_at_the_call_too(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> Any:
        items = [1]
        asked = flow.do("x", same, items)
        items.append(2)
        return await asked

    engine = make(body)
    assert output_of(engine, engine.run("body")) == [1]


def test_gates_and_sleeps_have_keys_of_their_kind(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        async def wait() -> None:
            await flow.approval("sign")

        await asyncio.gather(flow.sleep("nap", "1h"), flow.suspend("look"), flow.approval("sign"), wait())

    engine = make(body)
    assert sorted(keys(engine, engine.run("body").id)) == [
        "[3]/approve:sign",
        "approve:sign",
        "sleep:nap",
        "suspend:look",
    ]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("a/b", "a%2Fb"),
        ("a#1", "a%231"),
        ("[2]", "%5B2%5D"),
        ("x:undo", "x%3Aundo"),
        ("me@home", "me%40home"),
        ("a~2", "a%7E2"),
        ("100%", "100%25"),
        ("grüße 🚀", "grüße 🚀"),
        ("a b.c-d_e", "a b.c-d_e"),
    ],
)
def test_what_keys_are_built_with_is_percent_encoded_and_shown_as_written(make: Make, name: str, key: str) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do(name, same, 1)

    engine = make(body)
    row = engine.run("body")
    started = next(event for event in engine.events(row.id) if event.kind == "step.started")
    assert (started.step, started.body()["name"]) == (key, name)


def test_a_name_that_looks_like_a_repeat_is_no_repeat(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[int]:
        return [await flow.do("a", same, 1), await flow.do("a#1", same, 2), await flow.do("a", same, 3)]

    engine = make(body)
    row = engine.run("body")
    assert keys(engine, row.id) == ["a", "a%231", "a#1"]
    assert output_of(engine, row) == [1, 2, 3]


def test_two_spellings_of_a_letter_are_one_name(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("caf\u00e9", same, 1)
        await flow.do("cafe\u0301", same, 1)

    engine = make(body)
    assert keys(engine, engine.run("body").id) == ["caf\u00e9", "caf\u00e9#1"]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x1b[31m", "\x00", "\ud800"])
def test_empty_names_and_control_characters_are_refused(make: Make, name: str) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do(name, same, 1)

    engine = make(body)
    error = failure(engine, body)
    assert error["type"] == "FlowMisuse"
    assert "the name" in error["message"]
