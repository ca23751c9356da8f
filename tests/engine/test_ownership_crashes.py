"""kill -9 at random points, in real processes: every run ends, no acknowledged result is lost or computed again."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flowstone import Flow, current_step, workflow
from flowstone.clock import SystemClock
from flowstone.journal.states import SETTLED, Status
from flowstone.testing.throwaway import Throwaway
from support.engines import output_of

ROOT = Path(__file__).parents[2]
STEPS = 12

PROGRAM = """
import asyncio, importlib.util, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("crashes", sys.argv[1])
crashes = importlib.util.module_from_spec(spec)
sys.modules["crashes"] = crashes
spec.loader.exec_module(crashes)
crashes.go_on(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
"""


NOTED: list[str] = []
LIFE = [0, 0.0]
"""After so many effects of its own a process has so many seconds to live; 0: without end."""


def note(folder: Path, line: str) -> None:
    """An effect in the outside world, in a file of its own."""
    with (folder / "effects").open("a") as file:
        file.write(line + "\n")
    NOTED.append(line)
    if len(NOTED) == LIFE[0]:
        threading.Thread(target=die, daemon=True).start()


def die() -> None:
    """By itself, so that it dies in the middle of its work however slow the test is."""
    threading.Event().wait(LIFE[1])
    os.kill(os.getpid(), signal.SIGKILL)


async def effect(folder: str, number: int) -> int:
    note(Path(folder), f"began {current_step().key} {current_step().invocation_id}")
    await asyncio.sleep(0.002)
    return number * number


@workflow(name="crashing")
async def crashing(flow: Flow, folder: str) -> list[Any]:
    async def branch(number: int) -> list[int]:
        return [await flow.do("first", effect, folder, number), await flow.do("second", effect, folder, number + 100)]

    side_by_side = await asyncio.gather(*[branch(number) for number in range(STEPS)])
    await flow.sleep("nap", "5ms")
    return [*side_by_side, await flow.do("last", effect, folder, 7)]


def observe(folder: Path, events: Any) -> None:
    for event in events:
        if event.kind == "step.succeeded":
            note(folder, f"told {event.step}")


def go_on(folder: Path, run_id: str, effects: int, seconds: float) -> None:
    """What a process does: take the run up and bring it to its end, unless it dies before."""
    LIFE[:] = effects, seconds
    engine = Throwaway(folder, crashing, clock=SystemClock())
    engine.observers.append(lambda events: observe(folder, events))
    engine.drive(run_id, park_after=None)
    engine.close()


def expected() -> list[Any]:
    return [*[[number**2, (number + 100) ** 2] for number in range(STEPS)], 49]


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_points_a_run_ends_with_every_told_result_computed_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    starter = Throwaway(tmp_path, crashing, clock=SystemClock())
    run_id = starter.engine.start("crashing", {"folder": str(tmp_path)}).row.id
    starter.vanish()
    kills = 0
    for _ in range(40):
        life = [str(chance.randint(1, 9)), str(chance.uniform(0, 0.004))] if kills < 6 else ["0", "0"]
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, __file__, str(tmp_path), run_id, *life],
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'engine'}{os.pathsep}{ROOT / 'tests'}"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        kills += ended.returncode == -signal.SIGKILL
        reader = Throwaway(tmp_path, crashing, clock=SystemClock())
        row = reader.store.run(run_id)
        reader.close()
        if row.status in SETTLED:
            break
    reader = Throwaway(tmp_path, crashing, clock=SystemClock())
    try:
        assert kills > 2
        assert output_of(reader, row) == expected()
        check_journal(reader, run_id)
        check_effects(tmp_path)
    finally:
        reader.close()


def effects(folder: Path) -> list[str]:
    return (folder / "effects").read_text().splitlines() if (folder / "effects").exists() else []


def check_journal(engine: Throwaway, run_id: str) -> None:
    events = engine.events(run_id)
    assert [event.n for event in events] == list(range(len(events)))
    assert engine.ledger(run_id).status is Status.COMPLETED
    succeeded = Counter(event.step for event in events if event.kind == "step.succeeded")
    assert set(succeeded.values()) == {1}
    ends = Counter((event.step, event.attempt) for event in events if event.kind in ("step.succeeded", "step.interrupted"))
    assert set(ends.values()) == {1}
    claims = [json.loads(event.text)["epoch"] for event in events if event.kind == "run.claimed"]
    assert claims == list(range(1, len(claims) + 1))


def check_effects(folder: Path) -> None:
    """No step begins again once its result was told; every attempt of a step has the same invocation id."""
    told: set[str] = set()
    ids: dict[str, set[str]] = {}
    for line in effects(folder):
        verb, key, *rest = line.split()
        if verb == "told":
            told.add(key)
        else:
            assert key not in told, f"{key} was computed again"
            ids.setdefault(key, set()).update(rest)
    assert all(len(one) == 1 for one in ids.values())
