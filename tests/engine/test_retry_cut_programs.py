"""The cut of a retry: random parallel programs that fail at a random step, are mended and go on, as if they had never failed."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flowstone import Flow, StepFailed, workflow
from flowstone.errors import NotFound
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.effects import BROKEN, EFFECTS, forget, work
from support.engines import Make, output_of, to_the_end
from support.programs import Node, program

PROGRAMS = 150
SHAPES = {"seq", "gather", "group", "limited", "queue"}
"""Means of asyncio whose value does not depend on which step is the first to end."""


@dataclass
class World:
    """What the steps of a program do to the world: each counts, and the broken ones fail for good."""

    broken: set[str] = field(default_factory=set)
    ran: Counter[str] = field(default_factory=Counter)

    async def step(self, name: str, turns: int) -> str:
        """Takes some turns of the loop."""
        self.ran[name] += 1
        for _ in range(turns):
            await asyncio.sleep(0)
        if name in self.broken:
            raise ValueError(f"{name} is broken")
        return name.upper()


def shaped(node: Node, numbers: Iterator[int]) -> Node:
    """A program of those shapes only; every step in it gets a number of its own."""
    children = tuple(shaped(child, numbers) for child in node.children)
    kind = node.kind if node.kind in SHAPES | {"sleep", "random", "uuid"} else "gather" if children else "step"
    return Node(kind, children, number=next(numbers) if kind == "step" else node.number, turns=node.turns)


def body_of(node: Node, world: World) -> Callable[..., Any]:
    """The workflow."""

    @workflow(name="program")
    async def body(flow: Flow) -> Any:
        async def value(node: Node) -> Any:
            if node.kind == "step":
                name = f"s{node.number}"

                async def step() -> str:
                    return await world.step(name, node.turns)

                return await flow.do(name, step)
            if node.kind == "sleep":
                await flow.sleep("nap", f"{node.number}s")
                return "slept"
            if node.kind in ("random", "uuid"):
                return flow.random.random() < 2 if node.kind == "random" else len(str(flow.uuid("u")))
            if node.kind == "seq":
                return [await value(child) for child in node.children]
            if node.kind == "gather":
                return list(await asyncio.gather(*[value(child) for child in node.children]))
            if node.kind == "group":
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(value(child)) for child in node.children]
                return [task.result() for task in tasks]
            if node.kind == "limited":
                semaphore = asyncio.Semaphore(node.number)

                async def one(child: Node) -> Any:
                    async with semaphore:
                        return await value(child)

                return list(await asyncio.gather(*[one(child) for child in node.children]))
            return [await value(child) for child in node.children]

        return await value(node)

    return body


def succeeded_unaware_of(failed: Operation, ledger: Ledger) -> list[Operation]:
    """The steps that had succeeded and were asked for before the body was given that failure: nothing else came between."""
    given = [event.step for event in ledger.completions]
    known_before = [None, *given[: given.index(failed.key)]]
    steps = (operation for operation in ledger.operations.values() if operation.kind == "step")
    return [one for one in steps if one.status == "succeeded" and one.opened["predecessor"] in known_before]


def check(folder: Path, seed: int) -> None:
    random = Random(seed)
    node = shaped(program(random), count())
    whole = World()
    (folder / "whole").mkdir(parents=True)
    engine = Throwaway(folder / "whole", body_of(node, whole))
    expected = output_of(engine, to_the_end(engine, engine.engine.start("program").row.id))
    engine.close()
    if not whole.ran:
        return

    world = World(broken=set(random.sample(sorted(whole.ran), min(len(whole.ran), random.choice((1, 1, 1, 2, 3))))))
    (folder / "failing").mkdir()
    engine = Throwaway(folder / "failing", body_of(node, world))
    run_id = engine.engine.start("program").row.id
    row = to_the_end(engine, run_id)
    for _ in range(len(whole.ran) + 1):
        if row.status is Status.COMPLETED:
            break
        assert row.status is Status.FAILED
        ledger = engine.ledger(run_id)
        assert ledger.error is not None
        key = ledger.error["step"]
        failed = ledger.operations[key]
        before = {operation.name for operation in succeeded_unaware_of(failed, ledger)}
        ran = Counter(world.ran)
        world.broken.discard(failed.name)
        other = Throwaway(folder / "failing", body_of(node, world), clock=engine.clock)
        other.engine.retry(run_id)
        row = to_the_end(other, run_id)
        engine.close()
        engine = other
        again = world.ran - ran
        assert before.isdisjoint(again), "what knew nothing of the failure and had succeeded was run again"
    assert output_of(engine, row) == expected
    replayed = Throwaway(folder / "failing", body_of(node, world), clock=engine.clock)
    replayed.engine.check(run_id)
    replayed.close()
    engine.close()


@pytest.mark.parametrize("tenth", range(10))
def test_a_program_that_failed_and_was_retried_ends_as_if_it_had_not_failed(tmp_path: Path, tenth: int) -> None:
    for seed in range(tenth, PROGRAMS, 10):
        try:
            check(tmp_path / str(seed), seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: {json.dumps(str(shaped(program(Random(seed)), count())))[:2000]}")
            raise


# by hand


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    forget()


def retried(engine: Throwaway, run_id: str, step: str | None = None) -> Any:
    EFFECTS.append("|")
    BROKEN.clear()
    engine.engine.retry(run_id, step)
    return output_of(engine, to_the_end(engine, run_id))


def test_what_was_asked_for_before_and_succeeded_later_keeps_its_result(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        async def chain() -> str:
            await flow.do("first", work, "first")
            return await flow.do("bad", work, "bad", 30)

        return list(await asyncio.gather(flow.do("slow", work, "slow", 15), chain()))

    BROKEN.add("bad")
    engine = make(body)
    assert retried(engine, engine.run("body").id) == ["SLOW", "BAD"]
    assert EFFECTS == ["first", "slow", "bad", "|", "bad"]


def test_gates_and_sleeps_that_the_failure_closed_are_opened_again(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        answer, _, word = await asyncio.gather(flow.approval("ok"), flow.sleep("nap", "1h"), flow.do("bad", work, "bad"))
        return [answer.status, word]

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    assert {"gate.closed approve:ok~1", "step.cancelled sleep:nap~1"} <= set(engine.kinds(row.id))
    BROKEN.clear()
    engine.engine.retry(row.id)
    row = engine.drive(row.id)
    assert row.status is Status.SUSPENDED
    assert '"kind":"approval"' in row.waiting
    assert '"kind":"sleep"' in row.waiting
    engine.engine.answer(row.id, "ok", yes=True)
    engine.drive(row.id)
    engine.clock.move("1h")
    assert output_of(engine, engine.drive(row.id)) == ["approved", "BAD"]
    kinds = engine.kinds(row.id)
    assert {"gate.opened approve:ok~2", "gate.closed approve:ok~2", "step.succeeded sleep:nap~2"} <= set(kinds)


def test_an_answer_that_was_used_before_the_cut_is_kept(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        answer = await flow.approval("ok")
        return [answer.status, await flow.do("bad", work, "bad")]

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    engine.engine.answer(row.id, "ok", yes=True)
    assert engine.drive(row.id).status is Status.FAILED
    assert retried(engine, row.id) == ["approved", "BAD"]


def test_the_retries_begin_anew_and_numbers_of_attempts_go_on(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("down", down, retries=2, retry_delay="1s")

    def down() -> None:
        raise OSError("down")

    engine = make(body)
    row = engine.run("body")
    to_the_end(engine, row.id)
    engine.engine.retry(row.id)
    to_the_end(engine, row.id)
    started = [kind for kind in engine.kinds(row.id) if kind.startswith("step.started")]
    assert started == [f"step.started down~{number}" for number in range(1, 7)]


def test_a_handler_of_a_step_that_is_tried_again_runs_again_if_it_fails_again(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("bad", work, "bad", on_error=tell)

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    engine.engine.retry(row.id)
    assert engine.drive(row.id).status is Status.FAILED
    assert EFFECTS == ["bad", "told", "bad", "told"]


def tell(_: Any) -> None:
    EFFECTS.append("told")


def test_a_failure_that_the_body_handled_is_kept(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("handled", work, "handled")
        except StepFailed:
            await flow.do("instead", work, "instead")
        return await flow.do("bad", work, "bad")

    BROKEN.update({"handled", "bad"})
    engine = make(body)
    assert retried(engine, engine.run("body").id) == "BAD"
    assert EFFECTS == ["handled", "instead", "bad", "|", "bad"]


def test_from_an_earlier_step_everything_after_it_runs_again(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        for name in ("one", "two", "three"):
            await flow.do(name, work, name)
        return await flow.do("bad", work, "bad")

    BROKEN.add("bad")
    engine = make(body)
    assert retried(engine, engine.run("body").id, "two") == "BAD"
    assert EFFECTS == ["one", "two", "three", "bad", "|", "two", "three", "bad"]


def test_a_step_that_was_not_reached_cannot_be_retried_from(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("bad", work, "bad")

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    before = engine.kinds(row.id)
    with pytest.raises(NotFound):
        engine.engine.retry(row.id, "never")
    assert engine.kinds(row.id) == before


def test_a_loser_that_was_undone_is_run_again(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        slow = flow.do("slow", work, "slow", 30, undo=unwork)
        won = await flow.race({"slow": slow, "bad": flow.do("bad", work, "bad")})
        return won.name

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    assert EFFECTS == ["bad", "slow", "unslow"]


def unwork(done: Any) -> None:
    EFFECTS.append(f"un{done.args[0]}")


def test_a_retry_repeats_no_item_of_a_limited_map_that_had_succeeded(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        return await flow.map("m", work_item, ["bad", "a", "b", "c"], key=str, limit=2)

    BROKEN.add("bad")
    engine = make(body)
    assert retried(engine, engine.run("body").id) == ["BAD", "A", "B", "C"]
    assert EFFECTS == ["a", "b", "c", "bad", "|", "bad"]


async def work_item(name: str) -> str:
    while name == "bad" and "c" not in EFFECTS:
        await asyncio.sleep(0)
    return await work(name)


def test_what_the_body_did_because_of_the_failure_is_not_kept(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            return await flow.do("bad", work, "bad")
        except StepFailed:
            await flow.do("mourn", work, "mourn")
            raise

    BROKEN.add("bad")
    engine = make(body)
    assert retried(engine, engine.run("body").id) == "BAD"
    assert EFFECTS == ["bad", "mourn", "|", "bad"]


def test_what_one_branch_did_while_the_step_of_another_was_failing_is_kept(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        async def branch() -> list[str]:
            await flow.set_state("at", 1)
            answer = await flow.do("one", work, "one")
            return [answer, await flow.do("c", work, "c"), str(flow.state["at"])]

        return [*(await asyncio.gather(branch(), flow.do("bad", work_item, "bad"))), await flow.do("after", work, "after")]

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    assert retried(engine, row.id) == [["ONE", "C", "1"], "BAD", "AFTER"]
    assert EFFECTS == ["one", "c", "bad", "|", "bad", "after"]
    engine.engine.check(row.id)


def test_all_failures_of_a_group_are_tried_again_at_once(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        names = ("bad", "fine", "first", "c")  # the first one fails last
        found = await asyncio.gather(*(flow.do(name, work_item, name) for name in names), return_exceptions=True)
        failed = [one for one in found if isinstance(one, Exception)]
        if failed:
            raise ExceptionGroup("some failed", failed)
        return list(found)

    BROKEN.update({"first", "bad", "c"})
    engine = make(body)
    assert retried(engine, engine.run("body").id) == ["BAD", "FINE", "FIRST", "C"]
    before, after = EFFECTS[: EFFECTS.index("|")], EFFECTS[EFFECTS.index("|") + 1 :]
    assert sorted(before) == ["bad", "c", "fine", "first"]
    assert sorted(after) == ["bad", "c", "first"]


def test_a_failure_that_the_body_wrapped_in_its_own_error_is_tried_again(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        await flow.do("fine", work, "fine")
        try:
            return await flow.do("bad", work, "bad")
        except StepFailed as failure:
            raise RuntimeError("no luck") from failure

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    error = engine.ledger(row.id).error
    assert error is not None
    assert (error["type"], error["message"], error["step"]) == ("RuntimeError", "no luck", "bad")
    assert retried(engine, row.id) == "BAD"
    assert EFFECTS == ["fine", "bad", "|", "bad"]


def test_an_error_of_the_bodys_own_keeps_everything(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("bad", work, "bad")
        except StepFailed:
            await flow.do("instead", work, "instead")
            if "|" not in EFFECTS:
                raise RuntimeError("a fault of the body") from None
        return "mended"

    BROKEN.add("bad")
    engine = make(body)
    assert retried(engine, engine.run("body").id) == "mended"
    assert EFFECTS == ["bad", "instead", "|"]
