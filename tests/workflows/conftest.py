"""A copy of `workflows/` in a folder of its own, and the real `flow` run there as a process of its own."""

import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


class Fact(NamedTuple):
    """One event as it stands in the file."""

    n: int
    kind: str
    step: str | None
    attempt: int | None
    body: dict[str, Any]


class Project:
    """A folder with `workflows/`, and what happens there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / ".flow" / "flow.db"
        shutil.copytree(ROOT / "workflows", folder / "workflows", ignore=shutil.ignore_patterns("__pycache__"))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A `flow` that goes on while the test does."""
        return subprocess.Popen(
            [sys.executable, "-m", "flowstone_cli", *words],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def flow(self, *words: str, exits: int = 0) -> str:
        """What a `flow` prints on stdout. Its exit code is checked."""
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == exits, f"flow {' '.join(words)} exited {process.returncode}:\n{out}{err}"
        return out

    def json(self, *words: str, exits: int = 0) -> Any:
        """The document that a `flow` prints."""
        return json.loads(self.flow(*words, "--json", exits=exits))

    def on_terminal(self, *words: str) -> str:
        """What a `flow` shows on a terminal of 80 cells."""
        ours, its = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "flowstone_cli", *words],
            cwd=self.folder,
            env=environment(),
            stdin=its,
            stdout=its,
            stderr=its,
        )
        os.close(its)
        shown = b""
        with suppress(OSError):  # EIO: all who could write there have ended
            while piece := os.read(ours, 4096):
                shown += piece
        os.close(ours)
        assert process.wait(timeout=PATIENCE) == 0
        return shown.decode()

    def journal(self) -> list[Fact]:
        """The events of the newest run, read from the file."""
        if not self.db.exists():
            return []
        with closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as connection:
            try:
                rows = connection.execute(
                    "select n, kind, step, attempt, body from journal"
                    " where run_id = (select id from runs order by seq desc limit 1) order by n"
                ).fetchall()
            except sqlite3.OperationalError:  # the file is just being made
                return []
        return [Fact(*row[:4], json.loads(row[4])) for row in rows]

    def kill_when(self, process: subprocess.Popen[str], seen: Callable[[list[Fact]], bool]) -> None:
        """kill -9 as soon as the journal shows it."""
        wait_until(lambda: process.poll() is not None or seen(self.journal()))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def environment() -> dict[str, str]:
    """The variables of a process in a pipe, whatever the test's own are."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLOW_", "XDG_"))}
    return {**kept, "CI": "1", "COLUMNS": "80", "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("engine", "cli"))}


def wait_until(holds: Callable[[], bool], *, every: float = 0.001) -> None:
    """Return when it holds. Fails after a minute."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "nothing happened for a minute"
        time.sleep(every)  # noqa: TID251  other processes are waited for


def started(step: str) -> Callable[[list[Fact]], bool]:
    """Whether the newest event of the step is the start of an attempt."""
    return lambda facts: [fact.kind for fact in facts if fact.step == step][-1:] == ["step.started"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
