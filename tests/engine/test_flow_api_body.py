"""What a body asks of its flow beside steps: instants, random numbers, ids, its log, cancelling; and what it may not do."""

import asyncio
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flowstone import Flow, RunCancelled, workflow
from flowstone.clock import to_datetime
from flowstone.errors import FlowMisuse
from flowstone.journal.states import Status
from support.engines import Make, failure, output, output_of


async def same(value: Any) -> Any:
    return value


def texts(engine: Any, run_id: str) -> list[str]:
    return [piece.text for _, piece in engine.store.logs(run_id)]


# what writes nothing


def test_now_is_the_instant_of_the_last_completion_and_at_first_of_the_creation(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        seen = [flow.now()]
        await flow.sleep("nap", "1h")
        seen.append(flow.now())
        await flow.do("step", same, 1)
        return [moment.isoformat() for moment in [*seen, flow.now()]]

    engine = make(body)
    row = engine.run("body")
    created = to_datetime(engine.events(row.id)[0].at)
    engine.clock.move("2h")  # type: ignore[attr-defined]
    engine.drive(row.id)
    late = created + timedelta(hours=2)
    assert output_of(engine, row) == [created.isoformat(), late.isoformat(), late.isoformat()]
    assert created.tzinfo is UTC


def test_random_numbers_and_uuids_are_the_same_at_every_replay(make: Make) -> None:
    seen: list[list[Any]] = []

    @workflow
    async def body(flow: Flow) -> None:
        numbers = [flow.random.random(), str(flow.uuid("a")), str(flow.uuid("a")), str(flow.uuid("b"))]
        await flow.do("step", same, numbers[0])
        seen.append([*numbers, flow.random.randint(0, 10**9)])
        await flow.suspend("look")

    engine = make(body)
    row = engine.run("body")
    make(body).resume(row.id)
    assert seen[0] == seen[1]
    assert seen[0][1] == seen[0][2] != seen[0][3]


def test_each_run_and_each_branch_has_its_own_random_numbers(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        async def draw() -> list[Any]:
            return [flow.random.random(), str(flow.uuid("a"))]

        return [[flow.random.random(), str(flow.uuid("a"))], *await asyncio.gather(draw(), draw())]

    engine = make(body)
    drawn = [*output(engine, body), *output(engine, body)]
    assert len({number for number, _ in drawn}) == 6
    assert len({text for _, text in drawn}) == 6


def test_the_body_knows_its_run_its_user_and_its_input(make: Make) -> None:
    @workflow
    async def body(flow: Flow, day: str, limit: int = 8) -> list[Any]:
        return [flow.run_id, flow.user, flow.input, day, limit]

    engine = make(body)
    row = engine.run("body", {"day": "monday"})
    assert output_of(engine, row) == [row.id, row.user, {"day": "monday"}, "monday", 8]


def test_the_log_is_silent_while_history_is_replayed(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("a", same, 1)
        flow.log.info("after %s", "a")
        await flow.suspend("look")
        flow.log.warning("after look")

    engine = make(body)
    row = engine.run("body")
    assert texts(engine, row.id) == ["after a\n"]
    make(body).resume(row.id)
    assert texts(engine, row.id) == ["after a\n", "after look\n"]


def test_what_a_new_run_logs_before_its_first_step_is_kept(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        flow.log.info("begin")
        await flow.do("a", same, 1)
        await flow.suspend("look")

    engine = make(body)
    row = engine.run("body")
    make(body).resume(row.id)
    assert texts(engine, row.id) == ["begin\n"]


# cancelling


def test_cancel_ends_the_run_as_cancelled_with_its_reason(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("a", same, 1)
        flow.cancel("not signed off")

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.CANCELLED
    assert engine.events(row.id)[-1].body()["reason"] == "not signed off"


def test_cancel_counts_even_if_the_body_swallows_it(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            flow.cancel("enough")
        except BaseException:
            return "went on"

    assert make(body).run("body").status is Status.CANCELLED


def test_an_except_exception_does_not_catch_a_cancel(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        try:
            flow.cancel("enough")
        except Exception as error:
            raise AssertionError("caught") from error

    assert make(body).run("body").status is Status.CANCELLED
    assert not issubclass(RunCancelled, Exception)


def test_cleanup_after_a_cancel_runs_and_is_found_again_on_replay(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        try:
            await flow.do("a", same, 1)
            flow.cancel("enough")
        finally:
            await flow.do("clean up", same, 2)
            await flow.sleep("settle", "1h")
            await flow.do("tidy", same, 3)

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.RUNNING
    engine.clock.move("2h")  # type: ignore[attr-defined]
    again = make(body, clock=engine.clock)
    assert again.drive(row.id).status is Status.CANCELLED
    assert [kind for kind in again.kinds(row.id) if "step.started" in kind] == [
        "step.started a~1",
        "step.started clean up~1",
        "step.started tidy~1",
    ]


# never awaited


def test_an_operation_never_awaited_fails_the_run_naming_file_and_line(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        flow.do("forgotten", same, 1)  # type: ignore[unused-coroutine]
        return 1

    line = body.__code__.co_firstlineno + 2
    error = failure(make(body), body)
    assert error["message"] == f'"forgotten" was asked for at engine/test_flow_api_body.py:{line} and never awaited'


def test_an_operation_whose_task_was_cancelled_before_it_began_was_not_forgotten(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        task = asyncio.create_task(flow.do("a", same, 1))
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "gave it up"
        return ""

    assert output(make(body), body) == "gave it up"


def test_the_bodys_own_failure_outweighs_what_it_never_awaited(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        flow.do("forgotten", same, 1)  # type: ignore[unused-coroutine]
        raise OSError("disk")

    assert failure(make(body), body)["message"] == "disk"


def test_a_body_that_waits_for_what_no_operation_gives_fails_and_says_so(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("a", same, 1)
        await asyncio.Event().wait()

    error = failure(make(body), body)
    assert (error["code"], error["type"]) == ("MISUSE", "FlowMisuse")
    assert "no operation will ever give" in error["message"]


# timers, threads, sockets


async def use_sleep() -> None:
    await asyncio.sleep(1)


async def use_timeout() -> None:
    async with asyncio.timeout(1):
        await asyncio.sleep(0)


async def use_wait_for() -> None:
    await asyncio.wait_for(asyncio.get_running_loop().create_future(), 5)


async def use_wait_with_timeout() -> None:
    await asyncio.wait({asyncio.create_task(same(1))}, timeout=1)


async def use_thread() -> None:
    await asyncio.to_thread(len, "x")


async def use_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, len, "x")


async def use_connection() -> None:
    await asyncio.open_connection("localhost", 1)


async def use_server() -> None:
    await asyncio.start_server(lambda r, w: None, port=0)


async def use_process() -> None:
    await asyncio.create_subprocess_exec("true")


async def use_shell() -> None:
    await asyncio.create_subprocess_shell("true")


async def use_names() -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 1)


async def use_raw_socket() -> None:
    with socket.socket() as made:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", 1))


async def use_clock() -> None:
    asyncio.get_running_loop().time()


CURES: list[tuple[Callable[[], Any], str]] = [
    (use_sleep, "flow.sleep"),
    (use_timeout, "flow.now()"),
    (use_wait_for, "timeout="),
    (use_wait_with_timeout, "timeout="),
    (use_thread, "make it a step"),
    (use_executor, "make it a step"),
    (use_connection, "make it a step"),
    (use_server, "make it a step"),
    (use_process, "make it a step"),
    (use_shell, "make it a step"),
    (use_names, "make it a step"),
    (use_raw_socket, "make it a step"),
    (use_clock, "flow.now()"),
]


@pytest.mark.parametrize(("use", "cure"), CURES, ids=lambda value: getattr(value, "__name__", None))
def test_timers_threads_and_sockets_of_a_body_are_refused_with_the_cure(make: Make, use: Callable[[], Any], cure: str) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await use()
        except FlowMisuse as error:
            return f"{error} {error.hint}"
        return "was let through"

    said = output(make(body), body)
    # asyncio.timeout and wait_for ask for the time first on some Pythons: either cure is right for them.
    assert cure in said or (use in (use_timeout, use_wait_for) and "flow." in said)


def test_yielding_to_the_other_tasks_is_no_timer(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        await asyncio.sleep(0)
        return "ok"

    assert output(make(body), body) == "ok"


def test_a_refusal_that_the_body_does_not_catch_fails_the_run(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await asyncio.sleep(1)

    error = failure(make(body), body)
    assert error["type"] == "FlowMisuse"
    assert "timers" in error["message"]


# calls on flow from elsewhere


def test_a_call_on_flow_from_a_callback_fails_the_run(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        asyncio.get_running_loop().call_soon(lambda: flow.now())
        await flow.do("a", same, 1)

    error = failure(make(body), body)
    assert error["code"] == "MISUSE"
    assert "from outside of the workflow's body" in error["message"]


def test_a_call_on_flow_from_a_thread_of_the_body_fails_the_run(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("a", same, 1)
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                flow.do("b", same, 1)  # type: ignore[unused-coroutine]
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        await flow.do("c", same, len(errors))

    assert failure(make(body), body)["code"] == "MISUSE"


def test_after_its_pass_a_flow_refuses_every_call(make: Make) -> None:
    kept: list[Flow] = []

    @workflow
    async def body(flow: Flow) -> None:
        kept.append(flow)

    output(make(body), body)
    with pytest.raises(BaseException, match="has ended"):
        kept[0].do("late", same, 1)  # type: ignore[unused-coroutine]
    with pytest.raises(BaseException, match="has ended"):
        kept[0].now()


def test_cleanup_that_an_async_generator_left_runs_in_the_body(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        async def numbers() -> Any:
            try:
                yield await flow.do("first", same, 1)
                yield await flow.do("second", same, 2)
            finally:
                await flow.do("put away", same, 3)

        async for number in numbers():
            if number:
                break
        return int(await flow.do("go on", same, 1))

    engine = make(body)
    row = engine.run("body")
    assert output_of(engine, row) == 1
    assert "step.started [0]/put away~1" in engine.kinds(row.id)


# what a body returns and raises


def test_a_result_that_cannot_be_recorded_fails_the_run_naming_the_path(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> Any:
        return {"open": object()}

    error = failure(make(body), body)
    assert error["type"] == "ValueRefused"
    assert "$.open" in error["message"]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_whatever_a_body_raises_fails_its_run_and_nothing_else(make: Make, kind: type[BaseException]) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("a", same, 1)
        raise kind(3)

    assert failure(make(body), body)["type"] == kind.__name__


def test_the_output_is_recorded_as_its_annotation_says(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> tuple[datetime, int]:
        return datetime(2026, 1, 2, tzinfo=UTC), 3

    assert output(make(body), body) == ["2026-01-02T00:00:00Z", 3]
