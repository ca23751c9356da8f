"""How often and how long a step is tried: where policies come from, what counts, what a crash leaves, what a timeout ends."""

import asyncio
import contextlib
import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from flowstone import Flow, StepFailed, current_step, step, workflow
from flowstone.journal.events import Event
from flowstone.journal.states import Status
from flowstone.running.attempt import SWALLOWED_CANCEL
from flowstone.running.ending import CRASHES
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of, to_the_end
from support.processes import Folder, ended, wait_until


def down() -> None:
    raise OSError("down")


@step(retries=2, retry_delay="3s", timeout="9s")
def down_by_definition() -> None:
    raise OSError("down")


def attempts(engine: Throwaway, run_id: str) -> int:
    return sum(event.kind == "step.started" for event in engine.events(run_id))


def failures(engine: Throwaway, run_id: str) -> list[Event]:
    return [event for event in engine.events(run_id) if event.kind == "step.failed"]


def waits_after(engine: Throwaway, run_id: str) -> list[int]:
    """How long each failure waits for the next attempt, in microseconds."""
    events = failures(engine, run_id)
    return [event.body()["next_attempt_at"] - event.at for event in events if not event.body()["final"]]


@pytest.mark.parametrize(
    ("function", "call", "count", "delay"),
    [
        (down, {}, 4, 7_000_000),
        (down_by_definition, {}, 3, 3_000_000),
        (down_by_definition, {"retries": 0}, 1, None),
        (down_by_definition, {"retries": 1, "retry_delay": "5ms"}, 2, 5_000),
        (down, {"retry_delay": "exponential", "retries": 1}, 2, 100_000),
    ],
)
def test_the_call_goes_before_the_definition_and_that_before_the_settings(
    make: Make, tmp_path: Path, function: Any, call: dict[str, Any], count: int, delay: int | None
) -> None:
    (tmp_path / "flow.toml").write_text('retries = 3\nretry_delay = "7s"\n')

    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("call", function, **call)

    engine = make(body)
    row = engine.run("body")
    to_the_end(engine, row.id)
    assert attempts(engine, row.id) == count
    assert set(waits_after(engine, row.id)) == ({delay} if delay else set())


@pytest.mark.parametrize(("delay", "last"), [("1ms", 1_000), ("exponential", 30_000_000)])
def test_seventy_retries_wait_without_an_overflow(make: Make, delay: str, last: int) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("call", down, retries=70, retry_delay=delay)

    engine = make(body)
    row = engine.run("body")
    assert to_the_end(engine, row.id).status is Status.FAILED
    assert attempts(engine, row.id) == 71
    assert waits_after(engine, row.id)[-1] == last


def test_attempts_that_were_cut_off_do_not_count_against_the_retries(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("call", down, retries=1, retry_delay="0s")

    def die(events: Any) -> None:
        if any(event.kind == "step.started" for event in events):
            raise MemoryError

    engine = make(body)
    run_id = engine.engine.start("body").row.id
    for _ in range(5):
        engine.observers.append(die)
        with pytest.raises(MemoryError):
            engine.drive(run_id)
        engine.vanish()
        engine = make(body, clock=engine.clock)
    assert to_the_end(engine, run_id).status is Status.FAILED
    counted = Counter(event.kind for event in engine.events(run_id))
    assert (counted["step.interrupted"], counted["step.failed"], counted["step.started"]) == (5, 2, 7)


DEADLY = """
import os, signal
from flowstone import Flow, workflow

def die() -> None:
    with open("effects", "a") as file:
        print("died", file=file)
    os.kill(os.getpid(), signal.SIGKILL)

def fine() -> None:
    with open("effects", "a") as file:
        print("fine", file=file)

def undo(done) -> None:
    with open("effects", "a") as file:
        print("undone", file=file)

@workflow
async def body(flow: Flow) -> None:
    await flow.do("fine", fine, undo=undo)
    await flow.do("deadly", die)
"""


def test_a_run_that_kills_its_process_again_and_again_fails_undoes_and_can_be_retried(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(DEADLY)
    folder.act("run", "body")
    [run] = folder.runs()
    for _ in range(CRASHES - 1):
        assert folder.act("resume", run).code == -9
    done = folder.act("resume", run)
    assert done.out.split() == [run, "failed"], done.err
    error = folder.ledger(run).error
    assert error is not None
    assert (error["code"], error["step"]) == ("CRASH_LOOP", "deadly")
    assert folder.effects() == ["fine", *["died"] * CRASHES, "undone"]


def test_after_a_crash_loop_a_retry_begins_to_count_anew(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(DEADLY.replace(", undo=undo", ""))
    folder.act("run", "body")
    [run] = folder.runs()
    for _ in range(CRASHES):
        folder.act("resume", run)
    assert folder.status(run) == "failed"
    folder.write(DEADLY.replace(", undo=undo", "").replace("os.kill(", "print("))
    assert folder.act("retry", run).out.split()[-1] == "completed"
    assert folder.effects() == ["fine", *["died"] * (CRASHES + 1)]


def test_the_budget_and_the_instant_of_the_next_attempt_survive_the_death_of_the_process(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("""
from flowstone import Flow, workflow

def down() -> None:
    with open("effects", "a") as file:
        print("tried", file=file)
    raise OSError("down")

@workflow
async def body(flow: Flow) -> None:
    await flow.do("call", down, retries=3, retry_delay="1s")
""")
    for death in (4, 8):
        folder.act("run" if death == 4 else "resume", "body" if death == 4 else folder.runs()[0], death)
    [run] = folder.runs()
    assert folder.act("resume", run).out.split() == [run, "failed"]
    assert folder.effects() == ["tried"] * 4
    events = folder.events(run)
    failed = [event for event in events if event.kind == "step.failed"]
    started = [event for event in events if event.kind == "step.started"]
    for before, after in zip(failed, started[1:], strict=False):
        due = before.body()["next_attempt_at"]
        assert 0 <= after.at - due < 3_000_000
        assert 900_000 < due - before.at <= 1_000_000


def test_a_new_attempt_has_its_whole_timeout(make: Make) -> None:
    async def work() -> str:
        if current_step().attempt == 1:
            raise OSError("down")
        await asyncio.sleep(0.05)
        return "in time"

    @workflow
    async def body(flow: Flow) -> str:
        return await flow.do("call", work, timeout="500ms", retry_delay="5s")

    engine = make(body)
    row = engine.run("body")
    assert output_of(engine, to_the_end(engine, row.id)) == "in time"


def test_an_async_step_that_swallows_its_cancelling_is_abandoned_and_keeps_nobody(make: Make) -> None:
    late: list[str] = []

    async def stubborn() -> str:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                late.append("swallowed")

    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("call", stubborn, timeout="50ms", retries=0)
        except StepFailed as failure:
            return failure.type
        return ""

    engine = make(body)
    before = monotonic()
    assert output_of(engine, engine.run("body")) == "TimedOut"
    assert SWALLOWED_CANCEL <= monotonic() - before < SWALLOWED_CANCEL + 3
    assert late == ["swallowed"]


async def sleeps() -> None:
    await asyncio.sleep(60)


async def swallows_for_ever() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


def blocks() -> None:
    threading.Event().wait(SWALLOWED_CANCEL + 20)


@pytest.mark.parametrize(
    ("function", "goes_on"),
    [
        (sleeps, False),
        (lambda: sleeps(), False),  # a closure, called in a thread that is gone when the coroutine runs
        (["sleep", "4321"], False),
        (["sh", "-c", "trap '' TERM; sleep 4321"], False),
        (swallows_for_ever, True),
        (blocks, True),
    ],
    ids=["async", "closure", "program", "stubborn program", "swallows", "blocking"],
)
def test_only_what_may_still_be_running_after_a_timeout_is_said_to_be(make: Make, function: Any, goes_on: bool) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            if isinstance(function, list):
                await flow.shell("call", function, timeout="300ms", retries=0)
            else:
                await flow.do("call", function, timeout="300ms", retries=0)
        except StepFailed as failure:
            return failure.message
        return ""

    engine = make(body)
    told = output_of(engine, engine.run("body"))
    assert told == "took longer than its timeout of 0.3 s" + (" (it may still be running)" if goes_on else "")


def test_a_late_result_of_an_abandoned_blocking_step_is_not_recorded(make: Make) -> None:
    go, gone = threading.Event(), threading.Event()

    def slow() -> str:
        go.wait(30)
        gone.set()
        return "late"

    @workflow
    async def body(flow: Flow) -> str:
        try:
            return await flow.do("call", slow, timeout="50ms", retries=0)
        except StepFailed as failure:
            await flow.do("let it end", lambda: (go.set(), gone.wait(30))[1])
            return failure.message

    engine = make(body)
    row = engine.run("body")
    assert "it may still be running" in output_of(engine, row)
    assert gone.is_set()
    assert [kind for kind in engine.kinds(row.id) if "call~" in kind] == ["step.started call~1", "step.failed call~1"]


def test_an_async_step_that_returns_while_it_is_cancelled_has_taken_too_long(make: Make) -> None:
    async def late() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "late"
        return "never"

    @workflow
    async def body(flow: Flow) -> str:
        try:
            return await flow.do("call", late, timeout="20ms", retries=0)
        except StepFailed as failure:
            return failure.type

    engine = make(body)
    assert output_of(engine, engine.run("body")) == "TimedOut"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def shell_with_grandchild(script: str) -> Any:
    @workflow
    async def body(flow: Flow, pids: str) -> str:
        try:
            await flow.shell("call", ["sh", "-c", script, "sh", pids], timeout="2s", retries=0)
        except StepFailed as failure:
            return failure.type
        return ""

    return body


ORDINARY = 'sleep 600 & echo $! > "$1"; echo $$ >> "$1"; wait'
DEAF_GRANDCHILD = """sh -c 'trap "" TERM; echo $$ > "$0"; exec sleep 600' "$1" > /dev/null 2>&1 & sleep 600"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(ORDINARY, id="ordinary"),
        pytest.param(DEAF_GRANDCHILD, id="a grandchild that ignores SIGTERM"),
    ],
)
def test_a_programs_whole_process_group_ends_with_its_attempt(make: Make, tmp_path: Path, script: str) -> None:
    body = shell_with_grandchild(script)
    engine = make(body)
    file = tmp_path / "pids"
    row = engine.run("body", {"pids": str(file)})
    assert output_of(engine, row) == "TimedOut"
    pids = [int(pid) for pid in file.read_text().split()]
    try:
        wait_until(lambda: not any(map(alive, pids)), seconds=7)
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)


def test_ctrl_c_gives_a_running_step_time_and_terminate_is_taken_up_by_recover(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("""
import asyncio, os
from flowstone import Flow, workflow

async def work() -> str:
    with open("effects", "a") as file:
        print("begun", file=file)
    while not os.path.exists("let"):
        await asyncio.sleep(0.01)
    return "done"

@workflow
async def body(flow: Flow) -> str:
    got = await flow.do("work", work)
    await flow.do("next", lambda: open("effects", "a").write("next\\n"))
    return got
""")
    for number, code, status in ((signal.SIGTERM, 143, "running"), (signal.SIGINT, 130, "suspended")):
        process = folder.start("run", "body")
        wait_until(lambda: folder.effects()[-1:] == ["begun"])
        process.send_signal(number)
        (tmp_path / "let").touch()
        assert ended(process).code == code
        run = folder.runs()[-1]
        assert folder.status(run) == status
        assert folder.of_step(run, "work") == ["started~1", "succeeded~1"]
        assert folder.effects()[-1] == "begun"
        (tmp_path / "let").unlink()
        recovered = folder.flow("recover", "--json")
        assert (run in json.dumps(recovered.out)) is (status == "running"), recovered
        if status == "suspended":
            assert folder.flow("resume", run).code == 0
        assert folder.status(run) == "completed"
        assert folder.effects()[-1] == "next"
        os.truncate(tmp_path / "effects", 0)
