"""Cleanup after a cancel, in all the places where an author may write it."""

import asyncio
from typing import Any

import pytest

from flowstone import BlockingFlow, Flow, workflow
from flowstone.journal.states import Status
from support.engines import Make


def same(value: Any = None) -> Any:
    return value


@workflow
def blocking(flow: BlockingFlow) -> None:
    try:
        flow.approval("ok")
    except BaseException:
        flow.do("clean", same)
    flow.do("never", same)


@workflow
def blocking_map(flow: BlockingFlow) -> None:
    try:
        flow.approval("ok")
    finally:
        flow.map("clean", same, [1, 2])


@workflow
async def mapped(flow: Flow) -> None:
    try:
        await flow.approval("ok")
    finally:
        await flow.map("clean", same, [1, 2])


@workflow
async def grouped(flow: Flow) -> None:
    async def two(name: str) -> None:
        await flow.do(f"{name} clean", same)
        await flow.do(f"{name} clean too", same)

    try:
        await flow.approval("ok")
    finally:
        async with asyncio.TaskGroup() as group:
            group.create_task(two("a"))
            group.create_task(two("b"))
    await flow.do("never", same)


@pytest.mark.parametrize(("body", "steps"), [(blocking, 1), (blocking_map, 2), (mapped, 2), (grouped, 4)])
def test_cleanup_steps_run_wherever_they_are_asked_for(make: Make, body: Any, steps: int) -> None:
    engine = make(body)
    row = engine.run(body.__name__)
    engine.engine.cancel(row.id, "no")
    assert engine.drive(row.id).status is Status.CANCELLED
    done = [kind for kind in engine.kinds(row.id) if kind.startswith("step.succeeded")]
    assert len(done) == steps
    assert all("clean" in kind for kind in done)
