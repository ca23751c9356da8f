"""What asyncio gives a body: gather, groups, wait, as_completed, locks and queues, the same live and on replay."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flowstone import Flow, StepFailed, workflow
from flowstone.errors import FlowMisuse
from flowstone.journal.states import Status
from support.engines import Make, failure, output, output_of, to_the_end


async def after(turns: int) -> int:
    """Gives `turns` after that many turns of the loop."""
    for _ in range(turns * 20):
        await asyncio.sleep(0)
    return turns


async def broken(turns: int) -> int:
    await after(turns)
    raise ValueError(f"broken after {turns}")


def trace_live_and_on_replay(make: Make, function: Callable[[Flow, list[Any]], Any]) -> list[Any]:
    """What the body noted, live; fails the test if it notes anything else when it is replayed."""
    traces: list[list[Any]] = []

    @workflow
    async def body(flow: Flow) -> None:
        trace: list[Any] = []
        traces.append(trace)
        await function(flow, trace)
        await flow.suspend("look")

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.SUSPENDED, engine.ledger(row.id).error
    before = engine.kinds(row.id)
    again = make(body)
    assert again.resume(row.id).status is Status.COMPLETED
    assert again.kinds(row.id)[: len(before)] == before
    assert traces[0] == traces[1]
    return traces[0]


def test_gather_gives_results_in_its_own_order(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        trace.extend(await asyncio.gather(*[flow.do("one", after, turns) for turns in (3, 1, 2)]))

    assert trace_live_and_on_replay(make, work) == [3, 1, 2]


def test_gather_raises_the_first_failure_or_collects_them(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        try:
            await asyncio.gather(flow.do("good", after, 1), flow.do("bad", broken, 2))
        except ValueError as error:
            trace.append(str(error))
        results = await asyncio.gather(flow.do("good", after, 2), flow.do("bad", broken, 1), return_exceptions=True)
        trace.extend([results[0], str(results[1])])

    said = 'step "bad" failed: ValueError: broken after'
    assert trace_live_and_on_replay(make, work) == [f"{said} 2", 2, f"{said} 1"]


def test_a_task_group_takes_operations_as_they_are(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(flow.do("one", after, turns)) for turns in (2, 1)]
        trace.extend(task.result() for task in tasks)

    assert trace_live_and_on_replay(make, work) == [2, 1]


def test_a_task_group_gives_up_the_others_when_one_fails(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        async def noting(turns: int) -> None:
            try:
                await flow.do("slow", after, turns)
            except asyncio.CancelledError:
                trace.append(f"gave up {turns}")
                raise

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(noting(400))
                group.create_task(flow.do("bad", broken, 1))
        except* StepFailed as failed:
            trace.extend(str(error) for error in failed.exceptions)
        trace.append(await flow.do("then", after, 1))

    assert trace_live_and_on_replay(make, work) == ["gave up 400", 'step "bad" failed: ValueError: broken after 1', 1]


def test_wait_tells_which_came_first(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        quick = asyncio.create_task(flow.do("quick", after, 1))
        slow = asyncio.create_task(flow.do("slow", after, 30))
        done, pending = await asyncio.wait({quick, slow}, return_when=asyncio.FIRST_COMPLETED)
        trace.append([task.result() for task in done])
        await asyncio.wait(pending)
        trace.append(slow.result())

    assert trace_live_and_on_replay(make, work) == [[1], 30]


def test_as_completed_gives_results_in_the_order_in_which_they_were_recorded(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        trace.extend([await one for one in asyncio.as_completed([flow.do("one", after, turns) for turns in (9, 1, 5)])])

    assert trace_live_and_on_replay(make, work) == [1, 5, 9]


def test_as_completed_over_tasks_is_fine(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        async def twice(turns: int) -> int:
            return await flow.do("one", after, turns) + await flow.do("two", after, turns)

        tasks = [asyncio.create_task(twice(turns)) for turns in (9, 1, 5)]
        trace.extend([await one for one in asyncio.as_completed(tasks)])

    assert trace_live_and_on_replay(make, work) == [2, 10, 18]


def test_as_completed_over_coroutines_of_the_bodys_own_is_refused_with_the_cure(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        async def own() -> int:
            return await flow.do("one", after, 1)

        coroutines = [own(), own()]
        try:
            for one in asyncio.as_completed(coroutines):
                await one
        except FlowMisuse as error:
            return f"{error} / {error.hint}"
        finally:
            for coroutine in coroutines:
                coroutine.close()
        return ""

    said = output(make(body), body)
    assert "order of a set" in said
    assert "make them tasks first" in said


def test_a_semaphore_lets_so_many_in(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        semaphore = asyncio.Semaphore(2)
        inside: list[int] = []

        async def one(turns: int) -> None:
            async with semaphore:
                inside.append(turns)
                trace.append(len(inside))
                await flow.do("one", after, turns)
                inside.remove(turns)

        await asyncio.gather(*[one(turns) for turns in (4, 1, 3, 2, 5)])

    trace = trace_live_and_on_replay(make, work)
    assert len(trace) == 5
    assert max(trace) == 2


def test_events_locks_and_conditions_work_between_tasks(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        event, lock = asyncio.Event(), asyncio.Lock()

        async def waiter(name: str) -> None:
            await event.wait()
            async with lock:
                trace.append(name)
                await flow.do("hold", after, 1)

        async def setter() -> None:
            await flow.do("first", after, 2)
            trace.append("set")
            event.set()

        await asyncio.gather(waiter("a"), waiter("b"), setter())

    assert trace_live_and_on_replay(make, work) == ["set", "a", "b"]


def test_a_queue_between_tasks_keeps_its_order(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        queue: asyncio.Queue[int | None] = asyncio.Queue(maxsize=2)

        async def produce() -> None:
            for turns in (3, 1, 2):
                await queue.put(await flow.do("make", after, turns))
            await queue.put(None)

        async def consume() -> None:
            while (item := await queue.get()) is not None:
                trace.append(await flow.do("use", after, item))

        await asyncio.gather(produce(), consume())

    assert trace_live_and_on_replay(make, work) == [3, 1, 2]


def test_a_shielded_operation_goes_on_when_its_waiter_is_cancelled(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        inner = asyncio.create_task(flow.do("kept", after, 5))

        async def waits() -> None:
            await asyncio.shield(inner)

        waiter = asyncio.create_task(waits())
        await flow.do("quick", after, 1)
        waiter.cancel()
        trace.append(await inner)

    assert trace_live_and_on_replay(make, work) == [5]


def test_a_race_takes_the_first_and_gives_up_the_other(make: Make) -> None:
    async def work(flow: Flow, trace: list[Any]) -> None:
        tasks = [asyncio.create_task(flow.do("racer", after, turns)) for turns in (500, 1)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        trace.extend(task.result() for task in done)
        trace.append(await flow.do("then", after, 2))

    assert trace_live_and_on_replay(make, work) == [1, 2]


def test_each_operation_has_one_completion_even_if_it_is_given_up_while_it_ends(make: Make) -> None:
    """Steps that end one after the other, each end on its way into the journal while the body gives the rest up."""

    @workflow
    async def body(flow: Flow) -> int:
        tasks = [asyncio.create_task(flow.do("one", after, turns % 3)) for turns in range(12)]
        first = 0
        for number, one in enumerate(asyncio.as_completed(tasks)):
            first += await one
            if number == 2:
                break
        for task in tasks:
            task.cancel()
        await flow.do("then", after, 1)
        again = [asyncio.create_task(flow.do("two", after, turns % 3)) for turns in range(12)]
        await asyncio.wait(again, return_when=asyncio.FIRST_COMPLETED)
        return first

    engine = make(body)
    for _ in range(5):
        row = engine.run("body")
        assert row.status is Status.COMPLETED
        ended = [event.step for event in engine.events(row.id) if event.kind in ("step.succeeded", "step.cancelled")]
        assert len(ended) == len(set(ended))


def test_a_body_that_ends_with_operations_open_cancels_them(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        waiting = [
            asyncio.create_task(flow.sleep("nap", "1h")),
            asyncio.create_task(flow.approval("sign")),
            asyncio.create_task(flow.do("slow", after, 1000)),
        ]
        await flow.do("quick", after, 1)
        return str(len(waiting))

    engine = make(body)
    row = engine.run("body")
    assert output_of(engine, row) == "3"
    kinds = engine.kinds(row.id)
    assert kinds[-1] == "run.completed"
    assert sorted(kinds[-4:-1]) == ["gate.closed approve:sign~1", "step.cancelled sleep:nap~1", "step.cancelled slow~1"]
    assert row.waiting == "[]"


def test_a_step_beside_a_retry_goes_on_while_the_other_waits(make: Make) -> None:
    async def flaky(name: str) -> str:
        raise OSError(name)

    @workflow
    async def body(flow: Flow) -> list[Any]:
        results = await asyncio.gather(
            flow.do("flaky", flaky, "x", retries=1, retry_delay="1h"), flow.do("quick", after, 1), return_exceptions=True
        )
        return [str(results[0]), results[1]]

    engine = make(body)
    row = engine.run("body")
    assert "step.succeeded quick~1" in engine.kinds(row.id)
    to_the_end(engine, row.id)
    assert output_of(engine, row) == ['step "flaky" failed: OSError: x', 1]


def test_a_waiting_body_sees_nothing_raised_when_its_pass_ends(make: Make) -> None:
    seen: list[str] = []

    @workflow
    async def body(flow: Flow) -> str:
        async def guard() -> None:
            try:
                await flow.sleep("nap", "1h")
            except Exception as error:
                seen.append(repr(error))
                raise

        await asyncio.gather(guard(), guard())
        return "ok"

    engine = make(body)
    row = engine.run("body")
    to_the_end(engine, row.id)
    assert output_of(engine, row) == "ok"
    assert seen == []


def test_what_the_end_of_a_pass_stirs_up_in_the_body_writes_nothing(make: Make) -> None:
    """A body that swallows the closing of its tasks and goes on asking is not heard."""

    @workflow
    async def body(flow: Flow) -> str:
        while True:
            try:
                await flow.suspend("look")
                return "passed"
            except BaseException:
                try:
                    await flow.do("clean up", after, 1)
                except BaseException:
                    await asyncio.sleep(0)

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.SUSPENDED
    assert engine.kinds(row.id)[2:] == ["gate.opened suspend:look~1", "run.suspended"]


@pytest.mark.parametrize("count", [1, 50])
def test_a_thousand_turns_of_the_loop_are_no_deadlock(make: Make, count: int) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        async def spin() -> int:
            for _ in range(1000):
                await asyncio.sleep(0)
            return 1

        return sum(await asyncio.gather(*[spin() for _ in range(count)]))

    assert output(make(body), body) == count


def test_an_exception_group_of_the_body_fails_the_run(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        async def fail() -> None:
            raise OSError("own")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    assert failure(make(body), body)["type"] == "ExceptionGroup"
