"""Steps that must not be repeated: what leaves their outcome unknown parks the run until a person says what became of them."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flowstone import Done, Flow, StepFailed, step, workflow
from flowstone.errors import NotFound, TryAgain
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of, to_the_end
from support.processes import REPOSITORY, Folder

EFFECTS: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    EFFECTS.clear()


@step(repeatable=False, retries=5, retry_delay="0s")
async def pay(how: str) -> Any:
    EFFECTS.append("pay")
    if how == "raises":
        raise OSError("the card was declined")
    if how == "hangs":
        await asyncio.Event().wait()
    if how == "cannot be recorded":
        return object()
    return f"paid {EFFECTS.count('pay')}"


def refund(done: Done[Any, str]) -> None:
    EFFECTS.append(f"refund {done.outcome} {done.result}")


@workflow
async def shop(flow: Flow, how: str) -> Any:
    timeout = "20ms" if how == "hangs" else None
    try:
        return await flow.do("pay", pay, how, timeout=timeout, undo=refund)
    except StepFailed as failure:
        return f"{failure.type}: {failure.message}"


@workflow
async def shop_and_fail(flow: Flow) -> None:
    await flow.do("pay", pay, "hangs", timeout="20ms", undo=refund)


def waits(row: Any) -> list[tuple[str, str]]:
    return [(wait["kind"], wait["step"]) for wait in json.loads(row.waiting)]


def with_unknown_outcome(make: Make, how: str = "hangs") -> tuple[Throwaway, str]:
    engine = make(shop, pay)
    row = engine.run("shop", {"how": how})
    assert (row.status, waits(row)) == (Status.SUSPENDED, [("resolve", "pay")])
    return engine, row.id


def killed_in(make: Make, workflow: str, data: Any = None) -> tuple[Throwaway, str]:
    """A run whose process dies in the step that hangs."""
    engine = make(shop, shop_and_fail, pay)
    run_id = engine.engine.start(workflow, data).row.id
    return kill(engine, run_id), run_id


def kill(engine: Throwaway, run_id: str) -> Throwaway:
    before = len(EFFECTS)

    async def die() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(run_id))
        while len(EFFECTS) == before:
            await asyncio.sleep(0.001)
        engine.store.close()
        driving.cancel()
        await asyncio.wait({driving})

    asyncio.run(die())
    engine.vanish()
    return engine


@pytest.mark.parametrize("how", ["hangs", "cannot be recorded"])
def test_an_end_without_a_word_of_its_own_parks_the_run_and_is_not_repeated(make: Make, how: str) -> None:
    engine, run_id = with_unknown_outcome(make, how)
    assert engine.kinds(run_id)[2:4] == ["step.started pay~1", "step.interrupted pay~1"]
    again = make(shop, pay, clock=engine.clock)
    row = again.resume(run_id)
    assert (row.status, waits(row)) == (Status.SUSPENDED, [("resolve", "pay")])
    assert EFFECTS == ["pay"]


def test_the_death_of_the_process_leaves_the_outcome_unknown(make: Make) -> None:
    engine, run_id = killed_in(make, "shop", {"how": "hangs"})
    again = make(shop, pay, clock=engine.clock)
    row = again.resume(run_id)
    assert (row.status, waits(row)) == (Status.SUSPENDED, [("resolve", "pay")])
    assert EFFECTS == ["pay"]


def test_a_pass_that_breaks_off_leaves_the_outcome_unknown(make: Make) -> None:
    engine = make(shop, pay)
    run_id = engine.engine.start("shop", {"how": "hangs"}).row.id

    async def broken_off() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(run_id))
        while not EFFECTS:
            await asyncio.sleep(0.001)
        driving.cancel()
        await asyncio.wait({driving})

    asyncio.run(broken_off())
    again = make(shop, pay, clock=engine.clock)
    assert again.resume(run_id).status is Status.SUSPENDED
    assert EFFECTS == ["pay"]


def test_an_exception_is_a_known_outcome_and_is_retried(make: Make) -> None:
    engine = make(shop, pay)
    row = to_the_end(engine, engine.run("shop", {"how": "raises"}).id)
    assert output_of(engine, row) == "OSError: the card was declined"
    assert EFFECTS == ["pay"] * 6


def test_resolved_with_a_result_the_body_gets_it(make: Make) -> None:
    engine, run_id = with_unknown_outcome(make)
    engine.engine.resolve(run_id, "pay", "succeeded", result="paid by hand", reason="seen on the statement")
    assert output_of(engine, engine.drive(run_id)) == "paid by hand"
    assert EFFECTS == ["pay"]


def test_resolved_as_failed_the_body_gets_a_failure_that_says_so(make: Make) -> None:
    engine, run_id = with_unknown_outcome(make)
    engine.engine.resolve(run_id, "pay", "failed", reason="not on the statement")
    said = output_of(engine, engine.drive(run_id))
    assert said.startswith("Resolved: resolved as failed by ")
    assert said.endswith(": not on the statement")
    assert EFFECTS == ["pay"]


def test_resolved_by_a_retry_there_is_one_more_attempt(make: Make) -> None:
    engine, run_id = with_unknown_outcome(make, "hangs")
    engine.engine.resolve(run_id, "pay", "retry", reason="nothing was charged")
    row = engine.drive(run_id)
    assert (row.status, waits(row)) == (Status.SUSPENDED, [("resolve", "pay")])
    assert engine.kinds(run_id).count("step.started pay~2") == 1
    assert EFFECTS == ["pay", "pay"]


def test_the_word_for_one_attempt_is_none_for_the_next(make: Make) -> None:
    _, run_id = killed_in(make, "shop", {"how": "hangs"})
    second = make(shop, shop_and_fail, pay)
    second.resume(run_id)
    second.engine.resolve(run_id, "pay", "retry", reason="nothing was charged")
    kill(second, run_id)
    assert EFFECTS == ["pay", "pay"]
    third = make(shop, pay)
    row = third.resume(run_id)
    assert (row.status, waits(row)) == (Status.SUSPENDED, [("resolve", "pay")])
    assert EFFECTS == ["pay", "pay"]


def test_only_a_step_of_unknown_outcome_can_be_resolved_and_only_once(make: Make) -> None:
    engine, run_id = with_unknown_outcome(make)
    with pytest.raises(NotFound, match="unknown: pay"):
        engine.engine.resolve(run_id, "pai", "failed", reason="")
    engine.engine.resolve(run_id, "pay", "failed", reason="")
    engine.drive(run_id)
    with pytest.raises(TryAgain, match="is known"):
        engine.engine.resolve(run_id, "pay", "succeeded", result=1, reason="")


@pytest.mark.parametrize(("said", "undone"), [(None, True), ("failed", False)])
def test_an_unknown_outcome_is_undone_unless_a_person_said_that_it_failed(make: Make, said: str | None, undone: bool) -> None:
    engine = make(shop_and_fail, pay)
    row = engine.run("shop_and_fail")
    if said is None:
        engine.engine.cancel(row.id, "enough")
        assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    else:
        engine.engine.resolve(row.id, "pay", said, reason="looked")
        assert engine.drive(row.id).status is Status.FAILED
    assert ["pay", *(["refund unknown None"] if undone else [])] == EFFECTS


WORKFLOWS = """
from flowstone import Flow, step, workflow

@step(repeatable=False)
def pay() -> None:
    open("begun", "w").close()

@step
def look() -> None:
    open("begun", "w").close()

@workflow
async def paying(flow: Flow) -> None:
    await flow.do("pay", pay)

@workflow
async def looking(flow: Flow) -> None:
    await flow.do("look", look)
"""


def syncs_before_the_step(folder: Folder, workflow: str) -> int:
    """How often a process syncs a file before its step begins, told by strace."""
    trace = folder.root / "trace"
    command = ["strace", "-f", "-e", "trace=openat,fsync,fdatasync", "-o", str(trace), sys.executable, "-m", "flowstone_cli"]
    paths = os.pathsep.join(str(REPOSITORY / room) for room in ("engine", "cli"))
    subprocess.run(
        [*command, "run", workflow], cwd=folder.root, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, check=True
    )
    lines = trace.read_text().splitlines()
    begun = next(number for number, line in enumerate(lines) if '"begun"' in line)
    return sum("sync(" in line and "resumed" not in line for line in lines[:begun])


@pytest.mark.skipif(shutil.which("strace") is None, reason="counts syncs with strace")
def test_the_start_mark_is_on_the_disk_before_a_step_that_must_not_be_repeated_begins(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(WORKFLOWS)
    folder.flow("run", "looking")  # makes the database
    assert syncs_before_the_step(folder, "paying") == syncs_before_the_step(folder, "looking") + 1
