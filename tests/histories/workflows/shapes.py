"""A workflow of every shape, for the recorded histories. Never edited once recorded: a new shape gets a new workflow."""

import asyncio
from typing import Any

from flowstone import BlockingFlow, Done, Failed, Flow, RunCancelled, StepFailed, current_step, graph, ref, step, workflow

BROKEN: set[str] = set()
"""What does not work while a history is recorded."""


async def work(name: str) -> str:
    if name in BROKEN:
        raise ValueError(f"{name} does not work")
    return name.upper()


async def slowly(name: str) -> str:
    for _ in range(20):
        await asyncio.sleep(0)
    return await work(name)


async def second_time(name: str) -> str:
    if current_step().attempt == 1:
        raise OSError(f"{name} not yet")
    return name


def block(number: int) -> int:
    return number * 2


def release(done: Done[Any]) -> str:
    return f"{done.step} is undone"


def tell(failed: Failed[Any]) -> str:
    return f"{failed.step} has failed"


@step(repeatable=False)
async def once(name: str) -> str:
    return name


@workflow
async def sequence(flow: Flow, name: str = "a") -> list[Any]:
    first = await flow.do("first", work, name)
    second = await flow.do("second/with [signs]#", block, 21)
    for number in range(3):
        await flow.do("again", block, number)
    return [first, second, str(flow.uuid("x")), flow.random.random(), flow.now().isoformat(), await flow.do("last", once, "b")]


@workflow
async def gathered(flow: Flow) -> list[Any]:
    async def branch(name: str) -> list[str]:
        return [await flow.do("one", slowly, name), await flow.do("two", work, name)]

    named = await asyncio.gather(flow.do("left", slowly, "left"), flow.do("right", work, "right"))
    return [*named, *await asyncio.gather(*[branch(name) for name in "abc"])]


@workflow
async def grouped(flow: Flow) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(flow.do(name, slowly if name == "x" else work, name)) for name in ("x", "y", "z")]
    pending = [asyncio.create_task(flow.do(f"in order {name}", slowly if name == "x" else work, name)) for name in ("x", "y")]
    order = [await done for done in asyncio.as_completed(pending)]
    limit = asyncio.Semaphore(1)

    async def limited(name: str) -> str:
        async with limit:
            return await flow.do("limited", work, name)

    return [[task.result() for task in tasks], order, list(await asyncio.gather(limited("p"), limited("q")))]


@workflow
async def mapped(flow: Flow, items: list[str]) -> list[Any]:
    every = await flow.map("quote", work, items, key=str, limit=2, failures="collect", retries=0)
    kids = await flow.map("kid", kid, items[:1])
    return [every.ok, sorted(every.failed), list(kids)]


@workflow
async def raced(flow: Flow) -> str:
    first = await flow.race({"quick": flow.do("quick", work, "quick"), "slow": flow.do("slow", slowly, "slow", undo=release)})
    await flow.do("use", work, first.name)
    await flow.suspend("look")
    return first.name


@workflow
async def asked(flow: Flow) -> list[Any]:
    await flow.do("prepare", work, "prepare")
    answers = [await flow.approval("sign off", expiry="2d", message="129 EUR") for _ in range(3)]
    await flow.suspend("look at it")
    return [[one.status, one.by, one.comment] for one in answers]


@workflow
async def slept(flow: Flow) -> str:
    await flow.sleep("cool off", "3d")
    await asyncio.gather(flow.sleep("left", "1h"), flow.do("right", work, "right"))
    return "rested"


@workflow
async def retried(flow: Flow) -> str:
    return await flow.do("flaky", second_time, "flaky", retries=3, retry_delay="1h")


@workflow
async def undone(flow: Flow) -> str:
    await asyncio.gather(*[flow.do(f"reserve {name}", work, name, undo=release) for name in ("a", "b")])
    await flow.set_state("reserved", 2)
    return await flow.do("pay", work, "pay", retries=0, undo=release, on_error=tell)


@workflow
async def handled(flow: Flow) -> str:
    try:
        await flow.do("risky", work, "risky", retries=0, on_error=tell)
    except StepFailed as failure:
        return await flow.do("instead", work, str(failure))
    return "went well"


@workflow
async def kid(flow: Flow, name: str = "kid") -> str:
    return await flow.do("play", work, name, retries=0)


@workflow
async def parent(flow: Flow) -> list[str]:
    before = await flow.do("before", work, "before")
    return [before, await flow.do("child", kid, "bread"), await flow.do("after", work, "after", retries=0)]


@workflow
async def cancelled(flow: Flow) -> str:
    await flow.do("reserve", work, "reserve", undo=release)
    try:
        await flow.approval("sign")
    except RunCancelled:
        await flow.do("tidy up", work, "tidy")
        raise
    return "signed"


@workflow
async def changed_mind(flow: Flow) -> None:
    await flow.do("reserve", work, "reserve", undo=release)
    flow.cancel("not signed off")


@workflow
async def mended(flow: Flow) -> list[str]:
    first = await flow.do("first", work, "first")
    beside = await asyncio.gather(flow.do("slow", slowly, "slow"), flow.do("quick", work, "quick", retries=0))
    return [first, *beside, await flow.do("last", work, "last", retries=0)]


@workflow
def blocking(flow: BlockingFlow, number: int) -> list[Any]:
    doubled = flow.do("double", block, number)
    flow.set_state("doubled", doubled)
    mapped = flow.map("each", block, [1, 2, 3])
    flow.suspend("look")
    return [doubled, mapped, flow.do("again", block, doubled)]


@workflow
async def patched(flow: Flow) -> str:
    await flow.do("first", work, "first")
    if flow.patched("two reviewers"):
        await asyncio.gather(flow.approval("one"), flow.approval("two"))
        return "two"
    await flow.approval("one")
    return "one"


walked = graph(
    "walked",
    nodes={
        "begin": {"run": work, "input": {"name": "begin"}, "next": ["left", "right"]},
        "left": {"run": slowly, "input": {"name": ref("begin")}, "next": "join"},
        "right": {"run": work, "input": {"name": "right"}, "next": "join"},
        "join": {"run": work, "input": {"name": ref("left")}},
    },
    output=ref("join"),
)
