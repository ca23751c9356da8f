"""Several operations at once: `flow.map` over items, `flow.race` between operations. Plain asyncio over the body's own tasks."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from flowstone.errors import FlowMisuse
from flowstone.values.failures import StepFailed

R = TypeVar("R")


@dataclass(frozen=True)
class MapResult(Generic[R]):
    """The outcome of a map that collects failures: results and failures by item key, in the order of the items."""

    ok: dict[str, R] = field(default_factory=dict)
    failed: dict[str, StepFailed] = field(default_factory=dict)


class Winner(NamedTuple):
    """The first of a race to end: the name it was given, and its result."""

    name: str
    value: Any


def keys_of(name: str, items: Sequence[Any], key: Callable[[Any], str] | None) -> list[str]:
    """The key of each item, its index by default. Raises FlowMisuse for a key that is no text or stands for two items."""
    keys = [str(index) if key is None else key(item) for index, item in enumerate(items)]
    seen: set[str] = set()
    for one in keys:
        if not isinstance(one, str):
            raise FlowMisuse(f'flow.map("{name}"): key= gave a {type(one).__name__}; give text')
        if one in seen:
            raise FlowMisuse(f'flow.map("{name}"): two items have the key "{one}"', hint="give a key= that tells items apart")
        seen.add(one)
    return keys


async def run_map(
    keys: Sequence[str],
    ask: Callable[[int], Coroutine[Any, Any, R]],
    limit: int | None,
    failures: str,
) -> list[R] | MapResult[R]:
    """Await the operation of each item, at most `limit` at once. The first failure ends it, unless failures are collected."""
    places = asyncio.Semaphore(limit if limit is not None else max(len(keys), 1))
    first: list[BaseException] = []

    async def one(index: int) -> R:
        async with places:
            try:
                return await ask(index)
            except BaseException as error:
                first.append(error)
                raise

    tasks = [asyncio.ensure_future(one(index)) for index in range(len(keys))]
    if not tasks:
        return [] if failures == "raise" else MapResult()
    try:
        when = asyncio.FIRST_EXCEPTION if failures == "raise" else asyncio.ALL_COMPLETED
        await asyncio.wait(tasks, return_when=when)
    finally:
        for task in tasks:
            task.cancel()
    await asyncio.wait(tasks)
    beyond = next((error for error in first if failures == "raise" or not isinstance(error, StepFailed)), None)
    if beyond is not None:
        raise beyond
    if failures == "raise":
        return [task.result() for task in tasks]
    result: MapResult[R] = MapResult()
    for key, task in zip(keys, tasks, strict=True):
        error = task.exception()
        if isinstance(error, StepFailed):
            result.failed[key] = error
        else:
            result.ok[key] = task.result()
    return result


async def run_race(contestants: Mapping[str, Coroutine[Any, Any, Any]]) -> Winner:
    """Await the first to end; the others are cancelled. Raises its error if it failed."""
    tasks = {name: asyncio.ensure_future(contestant) for name, contestant in contestants.items()}
    try:
        await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        winner = next(name for name, task in tasks.items() if task.done())
    finally:
        for task in tasks.values():
            task.cancel()
    losers = [task for name, task in tasks.items() if name != winner]
    if losers:
        await asyncio.wait(losers)
    return Winner(winner, tasks[winner].result())
