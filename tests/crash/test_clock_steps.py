"""The wall clock is set while commands run (rows 22 and 74): nothing hangs, order is by number, no time is negative."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash import judge
from crash.clock import DAY, HOUR, SECOND, SetClock, refusal
from crash.warm import Command, Warm

WORKFLOWS = """
import threading
from pathlib import Path
from flowstone import Flow, workflow

ROOT = Path(__file__).parents[1]

def begun(tag: str) -> str:
    (ROOT / tag).touch()
    return tag

def hold(tag: str) -> str:
    begun(tag)
    while not (ROOT / "go").exists():
        threading.Event().wait(0.01)
    return tag

def breaks_once(tag: str) -> str:
    again = (ROOT / tag).exists()
    begun(tag)
    if not again:
        raise RuntimeError("not yet")
    return tag

@workflow
async def sleeps(flow: Flow) -> str:
    await flow.do("a", begun, "a")
    await flow.sleep("nap", "50s")
    return await flow.do("b", begun, "b")

@workflow
async def retries(flow: Flow) -> str:
    return await flow.do("a", breaks_once, "a", retries=1, retry_delay="50s")

@workflow
async def holds(flow: Flow) -> str:
    return await flow.do("a", hold, "a", timeout="50s", retries=0)

@workflow
async def asks(flow: Flow) -> str:
    await flow.do("a", begun, "a")
    answer = await flow.approval("ok", expiry="1h")
    return answer.status
"""
SOON = 10
"""Seconds in which a command has to notice."""
STEPS = {"an hour back": -HOUR, "a second back": -SECOND, "a second forward": SECOND, "a year forward": 365 * DAY}


@pytest.fixture
def clock(tmp_path: Path) -> SetClock:
    if why := refusal():
        pytest.skip(why)
    return SetClock(tmp_path)


@pytest.fixture
def warm(tmp_path: Path, clock: SetClock) -> Iterator[Warm]:
    warm = Warm(tmp_path, clock.environment)
    yield warm
    warm.close()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "project"
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "work.py").write_text(WORKFLOWS)
    yield root
    (root / "go").touch()


def until(root: Path, kind: str) -> None:
    """Wait until the journal of the one run has an event of that kind."""
    deadline = time.monotonic() + 60
    while not any(event.kind == kind for _, events in judge.read(root) for event in events):
        assert time.monotonic() < deadline, f"no {kind}"
        signal.sigtimedwait([], 0.01)


def soon(command: Command) -> int:
    """Its exit code, if it ends soon."""
    ended = command.over.wait(SOON)
    command.signal(signal.SIGKILL)
    code = command.wait().code
    assert ended, "it hangs"
    return code


def no_time_is_negative(warm: Warm, root: Path) -> None:
    """What the reading verbs tell, and the journal's order."""
    for row, events in judge.read(root):
        judge.consistent(row, events)
    steps = json.loads(warm.flow(root, "status", "@last", "--json").out)["steps"]
    attempts = json.loads(warm.flow(root, "timeline", "@last", "--json").out)["attempts"]
    assert all(one["duration_ms"] is None or one["duration_ms"] >= 0 for one in (*steps, *attempts))
    [listed] = json.loads(warm.flow(root, "runs", "--json").out)["runs"]
    assert listed["duration_ms"] >= 0
    for words in (("status", "@last"), ("timeline", "@last"), ("runs",)):
        shown = warm.flow(root, *words)
        assert shown.code == 0
        assert " -" not in shown.out.replace(" - ", "")


def test_a_clock_set_back_far_lets_a_sleeping_run_park_and_wake_when_its_instant_comes(
    warm: Warm, root: Path, clock: SetClock
) -> None:
    command = warm.start(root, "run", "sleeps")
    until(root, "sleep.started")
    clock.set(-HOUR)
    assert soon(command) == 8
    assert json.loads(warm.flow(root, "status", "@last", "--json").out)["phase"] == "sleeping"
    assert warm.flow(root, "resume", "@last").code == 8
    clock.set(SECOND * 60)
    assert warm.flow(root, "resume", "@last").code == 0
    no_time_is_negative(warm, root)


@pytest.mark.parametrize("workflow", ["sleeps", "retries"])
def test_a_clock_set_forward_over_a_deadline_ends_the_waiting_at_once(
    warm: Warm, root: Path, clock: SetClock, workflow: str
) -> None:
    command = warm.start(root, "run", workflow)
    until(root, {"sleeps": "sleep.started", "retries": "step.failed"}[workflow])
    clock.set(DAY)
    assert soon(command) == 0
    no_time_is_negative(warm, root)


@pytest.mark.parametrize("step", STEPS)
def test_a_cancel_is_noticed_and_a_timeout_is_not_over_whatever_the_clock_says(
    warm: Warm, root: Path, clock: SetClock, step: str
) -> None:
    command = warm.start(root, "run", "holds")
    until(root, "step.started")
    clock.set(STEPS[step])
    cancel = warm.start(root, "cancel", "@last", "--reason", "enough")
    until(root, "run.cancelling")
    (root / "go").touch()
    assert (soon(command), soon(cancel)) == (3, 0)
    assert not any(event.kind == "step.failed" for _, events in judge.read(root) for event in events)
    no_time_is_negative(warm, root)


def test_a_gate_expires_by_the_recorded_instant(warm: Warm, root: Path, clock: SetClock) -> None:
    assert warm.flow(root, "run", "asks").code == 8
    clock.set(-DAY)
    assert warm.flow(root, "resume", "@last").code == 8
    clock.set(2 * HOUR)
    assert warm.flow(root, "approve", "@last", "ok").code == 75
    clock.set(-DAY)  # what nobody has written down has not come to pass
    assert warm.flow(root, "approve", "@last", "ok").code == 0
    assert warm.flow(root, "output", "@last").out == '"approved"\n'
    no_time_is_negative(warm, root)


def test_a_run_whose_process_has_died_is_recovered_also_before_it_began(warm: Warm, root: Path, clock: SetClock) -> None:
    for _ in range(2):  # the second time a sweep is patient
        command = warm.start(root, *(("resume", "@last") if (root / "a").exists() else ("run", "holds")))
        (root / "a").unlink(missing_ok=True)
        deadline = time.monotonic() + 60
        while not (root / "a").exists() and time.monotonic() < deadline:
            signal.sigtimedwait([], 0.01)
        command.signal(signal.SIGKILL)
        command.wait()
    (root / "go").touch()
    clock.set(-365 * DAY)
    assert warm.flow(root, "recover").code == 0
    assert json.loads(warm.flow(root, "status", "@last", "--json").out)["phase"] == "completed"
    no_time_is_negative(warm, root)


def test_a_time_limit_of_a_command_is_no_matter_of_the_clock(warm: Warm, root: Path, clock: SetClock) -> None:
    assert warm.flow(root, "run", "asks").code == 8
    waiting = warm.start(root, "wait", "@last", "--timeout", "2s")
    signal.sigtimedwait([], 0.5)
    clock.set(-HOUR)
    assert soon(waiting) == 124
