"""What a type checker infers of `flow`: read by mypy only (engine/test_typing.py), never run.

A line with `type: ignore` is a mistake that must be refused: were it let through, the unused ignore would be the error.
"""

import asyncio
import functools
import math
import shutil
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, assert_type
from uuid import UUID

from pydantic import BaseModel

from flowstone import Answer, BlockingFlow, Done, Failed, Flow, MapResult, ShellResult, Winner, step, workflow


class Order(BaseModel):
    id: str
    total: int = 0


class SignOff(BaseModel):
    limit: int = 0


class Receipt(BaseModel):
    id: str


@step
async def charge(order: Order) -> Receipt:
    return Receipt(id=order.id)


@step(retries=3, retry_delay="2s", no_retry=[KeyError])
def weigh(order: Order, unit: str = "kg") -> float:
    return len(unit) * order.total


async def fetch(number: int) -> str:
    return str(number)


def release(done: Done[str, int]) -> None:
    assert_type(done.args, tuple[int])
    assert_type(done.result, str)


def wrong_release(done: Done[float, int]) -> None: ...


def tell(failed: Failed[int]) -> None:
    assert_type(failed.args, tuple[int])


class Shop:
    def sell(self, count: int) -> int:
        return count


@workflow
async def child(flow: Flow, order: Order) -> int:
    return order.total


@workflow
async def with_fields(flow: Flow, day: str, limit: int = 8) -> list[str]:
    return [day] * limit


@workflow(name="named", tags=["a"])
async def named(flow: Flow) -> None: ...


async def functions(flow: Flow, order: Order) -> None:
    assert_type(await flow.do("async", charge, order), Receipt)
    assert_type(await flow.do("blocking", weigh, order, "g"), float)
    assert_type(await flow.do("sync closure", lambda: 3), int)
    assert_type(await flow.do("async closure", lambda: fetch(3)), str)
    assert_type(await flow.do("partial", functools.partial(fetch, 3)), str)
    assert_type(await flow.do("method", Shop().sell, 2), int)
    assert_type(await flow.do("class", Receipt.model_validate, {}), Receipt)
    assert_type(await flow.do("builtin", math.sqrt, 2.0), float)
    assert_type(await flow.do("default left out", shutil.which, "ls"), str | None)
    assert_type(await flow.do("name", "charge", order), Any)

    async def local() -> bytes:
        return b""

    assert_type(await flow.do("local", local), bytes)


async def refused(flow: Flow, order: Order) -> None:
    await flow.do("wrong argument", fetch, "x")  # type: ignore[arg-type]
    await flow.do("missing argument", fetch)  # type: ignore[call-arg, arg-type]
    await flow.do("too many", fetch, 1, 2)  # type: ignore[call-arg, arg-type]
    await flow.do("mistyped option", fetch, 1, retry=3)  # type: ignore[call-overload]
    await flow.do("bare number", fetch, 1, timeout=3)  # type: ignore[call-overload]
    await flow.do("undo of another result", fetch, 1, undo=wrong_release)  # type: ignore[misc]
    await flow.do(fetch, 1)  # type: ignore[call-overload]
    await flow.sleep("nap", 5)  # type: ignore[arg-type]
    await flow.approval("sign", approvers="boss")  # type: ignore[call-overload]


async def compensated(flow: Flow) -> None:
    assert_type(await flow.do("undo", fetch, 1, undo=release, on_error=tell), str)


async def children(flow: Flow, order: Order) -> None:
    assert_type(await flow.do("child", child, order), int)
    assert_type(await flow.do("fields", with_fields, "monday"), list[str])


async def parallel(flow: Flow, order: Order) -> None:
    assert_type(await asyncio.gather(flow.do("a", charge, order), flow.do("b", fetch, 1)), tuple[Receipt, str])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(flow.do("c", fetch, 1))
        group.create_task(flow.sleep("nap", "1s"))
    assert_type(task.result(), str)
    asked = flow.do("d", fetch, 1)
    _ = assert_type(asked, Coroutine[Any, Any, str])
    await asked


async def mapped(flow: Flow) -> None:
    assert_type(await flow.map("fetch", fetch, [1, 2]), list[str])
    assert_type(await flow.map("sell", Shop().sell, [1, 2], limit=3), list[int])
    assert_type(await flow.map("fetch", fetch, [1], failures="collect"), MapResult[str])
    assert_type(await flow.map("keyed", fetch, [1], key=lambda number: f"n{number + 1}"), list[str])
    await flow.map("wrong items", fetch, ["a"])  # type: ignore[arg-type]


async def waiting(flow: Flow) -> None:
    assert_type(await flow.approval("sign", schema=SignOff), Answer[SignOff])
    answer = await flow.approval("sign", schema=SignOff, expiry=timedelta(days=2), approvers="not-initiator")
    if answer.approved:
        assert_type(answer.data, SignOff)
    assert_type(await flow.approval("bare"), Answer[dict[str, Any]])
    sleeping, suspended = flow.sleep("nap", "10m"), flow.suspend("look")
    _ = assert_type(sleeping, Coroutine[Any, Any, None])
    _ = assert_type(suspended, Coroutine[Any, Any, None])
    await asyncio.gather(sleeping, suspended)
    assert_type(await flow.race({"yes": flow.approval("ok"), "late": flow.sleep("late", "1h")}), Winner)
    assert_type(await flow.shell("list", ["ls"]), ShellResult)


async def the_rest(flow: Flow) -> int:
    assert_type(flow.now(), datetime)
    assert_type(flow.random, Random)
    assert_type(flow.uuid("a"), UUID)
    assert_type(flow.run_id, str)
    assert_type(flow.user, str)
    flow.log.info("text")
    flow.cancel("enough")


@workflow
def blocking(flow: BlockingFlow, folder: Path) -> int:
    assert_type(flow.do("async", fetch, 1), str)
    assert_type(flow.do("blocking", weigh, Order(id="a"), "kg"), float)
    assert_type(flow.do("closure", lambda: 3), int)
    assert_type(flow.map("fetch", fetch, [1]), list[str])
    return 1


def decorated() -> None:
    assert_type(charge, Callable[[Order], Coroutine[Any, Any, Receipt]])  # type: ignore[assert-type]  # it keeps its parameters' names
    weigh(Order(id="a"), unit="g")
    weigh("a")  # type: ignore[arg-type]
