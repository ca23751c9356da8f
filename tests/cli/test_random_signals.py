"""Stop signals at random moments: the exit code says so, the run goes on, and no step's effect is there twice."""

import random
import signal
import time
from pathlib import Path

import pytest

STEPS = 6
WORKFLOW = f"""
import time
from pathlib import Path
from flowstone import Flow, workflow

def effect(number: int) -> int:
    time.sleep(0.04)
    with Path("ledger").open("a") as ledger:
        ledger.write(f"{{number}}\\n")
    return number

@workflow
async def counted(flow: Flow) -> int:
    for number in range({STEPS}):
        await flow.do(f"effect {{number}}", effect, number)
    return {STEPS}
"""
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.fixture
def counted(project):
    (project.root / "workflows" / "counted.py").write_text(WORKFLOW)
    return project


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_a_run_that_is_stopped_anywhere_goes_on_and_does_nothing_twice(counted, number):
    seed = random.randrange(1_000_000)
    moments = random.Random(seed)
    stopped = 0
    for _ in range(7):
        Path(counted.root / "ledger").unlink(missing_ok=True)
        process = counted.start("run", "counted")
        until = time.monotonic() + 60
        while not (counted.root / "ledger").exists() and process.poll() is None:
            assert time.monotonic() < until
        pause = time.monotonic() + moments.uniform(0, 0.3)
        while time.monotonic() < pause and process.poll() is None:
            pass
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        # The bare signal: it came after the run was put down or had ended. To a shell that is the same code.
        assert process.returncode in (0, CODES[number], -number), (seed, out, err)
        if process.returncode:
            stopped += 1
            went_on = counted.flow("resume", "@last:counted")
            assert went_on.code == 0, (seed, went_on)
        assert counted.flow("output", "@last:counted").out == f"{STEPS}\n", seed
        assert (counted.root / "ledger").read_text().split() == [str(step) for step in range(STEPS)], seed
    assert stopped, seed
