"""What a run costs, counted, not timed: syncs and rows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flowstone import Flow, workflow
from flowstone.testing.throwaway import Throwaway

REPOSITORY = Path(__file__).parents[2]

WORKFLOWS = """
import asyncio
from flowstone import Flow, workflow

async def one(i: int) -> int:
    return i

@workflow
async def sequence(flow: Flow, steps: int) -> int:
    for i in range(steps):
        await flow.do("one", one, i)
    return steps

@workflow
async def together(flow: Flow, steps: int) -> int:
    return len(await asyncio.gather(*[flow.do("one", one, i) for i in range(steps)]))
"""


async def one(number: int) -> int:
    return number


@workflow
async def sequence(flow: Flow, steps: int) -> int:
    for number in range(steps):
        await flow.do("one", one, number)
    return steps


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "counted.py").write_text(WORKFLOWS)
    return tmp_path


MANY_RUNS = """
import sys
from pathlib import Path
from flowstone.testing.throwaway import Throwaway
sys.path.insert(0, "workflows")
from counted import sequence
flow = Throwaway(Path.cwd(), sequence)
for _ in range(int(sys.argv[1])):
    assert flow.run("sequence", {"steps": 3}).status == "completed"
"""


def syncs(project: Path, *arguments: str) -> int:
    """How often a process of Python with these arguments syncs a file, told by strace."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    trace = project / "trace"
    command = ["strace", "-f", "-e", "trace=fdatasync,fsync", "-o", str(trace), sys.executable, *arguments]
    path = os.pathsep.join(str(REPOSITORY / part) for part in ("engine", "cli"))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return len(re.findall(r"(?:fdatasync|fsync)\(\d+", trace.read_text()))


def syncs_of_run(project: Path, workflow: str, steps: int) -> int:
    """How often `flow run` syncs a file."""
    return syncs(project, "-m", "flowstone_cli", "run", workflow, "--set", f"steps={steps}")


def test_a_sequential_step_costs_exactly_one_sync(project: Path) -> None:
    syncs_of_run(project, "sequence", 1)  # makes the database
    assert syncs_of_run(project, "sequence", 15) - syncs_of_run(project, "sequence", 5) == 10


def test_a_run_of_three_steps_costs_at_most_five_syncs(project: Path) -> None:
    syncs(project, "-c", MANY_RUNS, "1")  # makes the database
    few, more = (syncs(project, "-c", MANY_RUNS, count) for count in ("1", "3"))
    assert more - few == 2 * 5  # before SQLite's own checkpoint, which syncs too, every thousand pages


def test_results_that_come_together_are_synced_together(project: Path) -> None:
    syncs_of_run(project, "together", 1)
    assert syncs_of_run(project, "together", 200) <= 50


def test_a_step_that_succeeds_writes_two_events(tmp_path: Path) -> None:
    flow = Throwaway(tmp_path, sequence)
    few, many = flow.run("sequence", {"steps": 3}), flow.run("sequence", {"steps": 13})
    assert (few.events, many.events) == (9, 29)
    assert flow.kinds(few.id)[2:4] == ["step.started one~1", "step.succeeded one~1"]
    flow.close()
