"""Random parallel programs for a body: trees of steps, sleeps and asyncio's own means, made from a seed.

A program's value does not depend on the order in which its steps end; what depends on it goes into the trace.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from flowstone import Flow, StepFailed, current_step

DEEPEST = 3


async def work(number: int, turns: int, failures: int) -> int:
    """Takes some turns of the loop, fails that many times first, and for good if there are more than 2."""
    for _ in range(turns):
        await asyncio.sleep(0)
    return outcome(number, failures)


def block(number: int, _turns: int, failures: int) -> int:
    """The same in a thread."""
    return outcome(number, failures)


def outcome(number: int, failures: int) -> int:
    """What a step gives or raises."""
    if failures > 2:
        raise ValueError(f"{number} never works")
    if current_step().attempt <= failures:
        raise OSError(f"{number} not yet")
    return number


@dataclass(frozen=True)
class Node:
    """A piece of a program."""

    kind: str
    children: tuple["Node", ...] = ()
    number: int = 0
    turns: int = 0
    failures: int = 0
    blocking: bool = False


LEAVES = ("step", "step", "step", "step", "sleep", "random", "uuid")
INNER = ("seq", "seq", "gather", "group", "completed", "limited", "first", "queue", "own group")


def program(random: Random, depth: int = 0) -> Node:
    """A random program."""
    if depth == DEEPEST or (depth and random.random() < 0.35):
        return Node(
            random.choice(LEAVES),
            number=random.randrange(1000),
            turns=random.randrange(40),
            failures=random.choice((0, 0, 0, 0, 1, 2, 3)),
            blocking=random.random() < 0.1,
        )
    children = tuple(program(random, depth + 1) for _ in range(random.randint(1, 4)))
    return Node(random.choice(INNER), children, number=random.randrange(1, 4))


@dataclass
class Running:
    """One pass of a program: what it notes on its way."""

    flow: Flow
    trace: list[Any]

    async def value(self, node: Node) -> Any:
        """Carry a piece out."""
        kinds: dict[str, Callable[[Node], Coroutine[Any, Any, Any]]] = {
            "step": self._step,
            "sleep": self._sleep,
            "random": self._random,
            "uuid": self._uuid,
            "seq": self._seq,
            "gather": self._gather,
            "group": self._group,
            "own group": self._own_group,
            "completed": self._completed,
            "limited": self._limited,
            "first": self._first,
            "queue": self._queue,
        }
        got = await kinds[node.kind](node)
        self.trace.append([node.kind, node.number])
        return got

    async def _step(self, node: Node) -> Any:
        function = block if node.blocking else work
        try:
            return await self.flow.do(f"s{node.number % 3}", function, node.number, node.turns, node.failures, retry_delay="1ms")
        except StepFailed as failure:
            return [type(failure).__name__, str(failure), isinstance(failure, ValueError)]

    async def _sleep(self, node: Node) -> str:
        await self.flow.sleep("nap", f"{node.number}s")
        return "slept"

    async def _random(self, node: Node) -> float:
        return self.flow.random.random()

    async def _uuid(self, node: Node) -> str:
        return str(self.flow.uuid(str(node.number)))

    async def _seq(self, node: Node) -> list[Any]:
        return [await self.value(child) for child in node.children]

    async def _gather(self, node: Node) -> list[Any]:
        return list(await asyncio.gather(*[self.value(child) for child in node.children]))

    async def _group(self, node: Node) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.value(child)) for child in node.children]
        return [task.result() for task in tasks]

    async def _own_group(self, node: Node) -> Any:
        """A group of which one task fails at once with an error of the body's own, so that the others are given up."""

        async def fail() -> None:
            await self._step(Node("step", number=node.number, turns=5))
            raise LookupError("own")

        try:
            async with asyncio.TaskGroup() as group:
                for child in node.children:
                    group.create_task(self.value(child))
                group.create_task(fail())
        except* LookupError:
            pass
        return await self._step(Node("step", number=node.number))

    async def _completed(self, node: Node) -> list[Any]:
        tasks = [asyncio.create_task(self.value(child)) for child in node.children]
        return sorted([str(await one) for one in asyncio.as_completed(tasks)])

    async def _limited(self, node: Node) -> list[Any]:
        semaphore = asyncio.Semaphore(node.number)

        async def one(child: Node) -> Any:
            async with semaphore:
                return await self.value(child)

        return list(await asyncio.gather(*[one(child) for child in node.children]))

    async def _first(self, node: Node) -> str:
        tasks = [asyncio.create_task(self.value(child)) for child in node.children]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task in pending:
                task.cancel()
        self.trace.append([task in done for task in tasks])
        return "raced"

    async def _queue(self, node: Node) -> list[Any]:
        queue: asyncio.Queue[Node | None] = asyncio.Queue(1)

        async def produce() -> None:
            for child in (*node.children, None):
                await queue.put(child)

        got = []
        producer = asyncio.create_task(produce())
        while (child := await queue.get()) is not None:
            got.append(await self.value(child))
        await producer
        return got
