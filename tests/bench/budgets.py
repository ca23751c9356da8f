"""Measures the budgets as ratios within one run, on the disk of the folder given (default: a temporary one).

    python tests/bench/budgets.py [FOLDER]

Each line: what, the budget, what was measured. No test: a machine that is busy measures itself.
"""

import asyncio
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from flowstone import Flow, workflow
from flowstone.clock import SystemClock
from flowstone.testing.throwaway import Throwaway

ROUNDS = 5
STEPS = 300


async def one(number: int) -> int:
    return number


async def large(number: int) -> str:
    return "x" * 100_000


@workflow
async def sequence(flow: Flow, steps: int) -> int:
    for number in range(steps):
        await flow.do("one", one, number)
    return steps


@workflow
async def together(flow: Flow, steps: int) -> int:
    return len(await asyncio.gather(*[flow.do("one", one, number) for number in range(steps)]))


@workflow
async def parked(flow: Flow, steps: int) -> int:
    for number in range(steps):
        await flow.do("one", one, number)
    await flow.suspend("here")
    return steps


@workflow
async def heavy(flow: Flow, steps: int) -> int:
    for number in range(steps):
        await flow.do("large", large, number)
    return steps


class Bare:
    """The same bytes written with nothing around them."""

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / "bare.db", isolation_level=None)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("create table if not exists journal (id integer primary key, kind text, body text)")

    def commit(self, rows: Iterable[str], *, sync: bool) -> None:
        self._database.execute(f"pragma synchronous = {'full' if sync else 'normal'}")
        self._database.execute("begin immediate")
        self._database.executemany("insert into journal (kind, body) values ('step', ?)", [(row,) for row in rows])
        self._database.execute("commit")


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def ratio(ours: Callable[[], object], bare: Callable[[], object]) -> float:
    """The median ratio over rounds in which both were measured next to each other."""
    ours()
    return statistics.median(seconds(ours) / seconds(bare) for _ in range(ROUNDS))


def report(what: str, budget: str, measured: str) -> None:
    print(f"{what:<58}{budget:>12}{measured:>12}")


def main(folder: Path) -> None:
    flow = Throwaway(folder, sequence, together, parked, heavy, clock=SystemClock())
    bare = Bare(folder)
    mark, result = "m" * 330, "r" * 20

    def pairs() -> None:
        for _ in range(STEPS):
            bare.commit([mark], sync=False)
            bare.commit([result], sync=True)

    measured = ratio(lambda: flow.run("sequence", {"steps": STEPS}), pairs)
    report("a sequential step / commit without sync + commit with sync", "1.5", f"{measured:.2f}")

    def grouped() -> None:
        for _ in range(10):
            bare.commit([mark] * 100, sync=False)
            bare.commit([result] * 100, sync=True)

    measured = ratio(lambda: flow.run("together", {"steps": 1000}), grouped)
    report("1,000 parallel steps / 10 grouped commits of the same rows", "3", f"{measured:.2f}")

    def short_runs() -> None:
        for _ in range(100):
            flow.run("sequence", {"steps": 3})

    def short_commits() -> None:
        for _ in range(100):
            bare.commit([mark] * 2, sync=True)
            for _ in range(3):
                bare.commit([mark], sync=False)
                bare.commit([result], sync=True)
            bare.commit([result], sync=True)

    report("runs of 3 steps / the same rows as bare commits", "2", f"{ratio(short_runs, short_commits):.2f}")

    def heavy_commits() -> None:
        for _ in range(100):
            bare.commit([mark], sync=False)
            bare.commit(["x" * 100_000], sync=True)

    measured = ratio(lambda: flow.run("heavy", {"steps": 100}), heavy_commits)
    report("100 results of 100 kB / the bare write", "1.2", f"{measured:.2f}")

    row = flow.run("parked", {"steps": 10_000})
    flow.close()

    def replay() -> None:
        again = Throwaway(folder, sequence, together, parked, heavy, clock=SystemClock())
        again.engine.check(row.id)
        again.close()

    report("10,000 steps from opening the file to the frontier", "0.2 s", f"{min(seconds(replay) for _ in range(ROUNDS)):.2f} s")
    for command, budget in (
        (["status", row.id], "0.10 s"),
        (["runs"], "0.10 s"),
        (["timeline", row.id], "0.25 s"),
        (["timeline", row.id, "--all"], "0.70 s"),
    ):
        line = [sys.executable, "-m", "flowstone_cli", *command, "--db", str(folder / "flow.db")]
        took = statistics.median(
            seconds(lambda line=line: subprocess.run(line, check=True, capture_output=True)) for _ in range(ROUNDS)
        )
        report(f"flow {command[0]} {' '.join(command[2:])} (20,000 events in the run)", budget, f"{took:.2f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as made:
        main(Path(made))
