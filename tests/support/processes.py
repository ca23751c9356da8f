"""Real processes at work on the runs of a folder: `flow` itself, and an actor that kills itself at an event of a journal.

The actor is this file, run as a program: VERB (run, resume, retry, cancel, drive), what it acts on, after how many events of that
run it kills itself (0: not at all), and the input of a new run.
"""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from flowstone.authoring.loader import Library
from flowstone.clock import SystemClock
from flowstone.engine import Engine
from flowstone.journal.events import Event
from flowstone.journal.ledger import Ledger
from flowstone.settings import load
from flowstone.storage.sqlite.owners import OwnerFiles
from flowstone.storage.sqlite.store import SqliteStore

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 60.0


class Ended(NamedTuple):
    """What a process left behind."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Folder:
    """A project on disk. Its workflows append a line to the file `effects` for each of their effects."""

    root: Path

    def write(self, source: str) -> None:
        """The project's one workflow file."""
        (self.root / "workflows").mkdir(exist_ok=True)
        (self.root / "workflows" / "work.py").write_text(source)

    def start(self, *words: str, module: str = "flowstone_cli") -> "subprocess.Popen[str]":
        """A process that goes on while the test does."""
        paths = os.pathsep.join(str(REPOSITORY / room) for room in ("engine", "cli", "tests"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLOW_", "XDG_"))}
        return subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=self.root,
            env={**kept, "PYTHONPATH": paths, "FLOW_USER": "ana"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def flow(self, *words: str) -> Ended:
        """A whole `flow`."""
        return ended(self.start(*words))

    def act(self, verb: str, target: str, kill_after: int = 0, data: Any = None) -> Ended:
        """A whole actor."""
        return ended(self.start(verb, target, str(kill_after), json.dumps(data), module="support.processes"))

    def effects(self) -> list[str]:
        """What the steps have done, in order."""
        file = self.root / "effects"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """What the database says; nothing while it is being made."""
        file = self.root / ".flow" / "flow.db"
        if not file.exists():
            return []
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=PATIENCE)) as connection:
            try:
                return connection.execute(statement, values).fetchall()
            except sqlite3.OperationalError:
                return []

    def runs(self, workflow: str | None = None) -> list[str]:
        """Ids, oldest first."""
        return [
            row[0] for row in self.rows("select id from runs where ? is null or workflow = ? order by seq", workflow, workflow)
        ]

    def status(self, run: str) -> str:
        """A run's status."""
        return str(self.rows("select status from runs where id = ?", run)[0][0])

    def events(self, run: str) -> list[Event]:
        """A run's journal."""
        return [
            Event(*row)
            for row in self.rows("select n, at, kind, step, attempt, body from journal where run_id = ? order by n", run)
        ]

    def ledger(self, run: str) -> Ledger:
        """Its fold."""
        return Ledger(self.events(run))

    def of_step(self, run: str, step: str) -> list[str]:
        """The events of one step's attempts in short: `started~1`."""
        of_step = [event for event in self.events(run) if event.step == step and event.kind.startswith("step.")]
        return [f"{event.kind.removeprefix('step.')}~{event.attempt}" for event in of_step]


def ended(process: "subprocess.Popen[str]") -> Ended:
    """Wait for its end."""
    out, err = process.communicate(timeout=PATIENCE)
    return Ended(process.returncode, out, err)


def wait_until(holds: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Return when it holds. Fails after that many seconds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"nothing happened for {seconds:g} seconds"
        time.sleep(0.005)  # noqa: TID251  other processes are waited for


def main(verb: str, target: str, kill_after: int, data: Any) -> None:
    """Act, and print the run's id and status."""
    root = Path.cwd()
    settings, clock = load(root, flags={}), SystemClock()
    (root / ".flow").mkdir(exist_ok=True)
    store = SqliteStore(settings.db, clock, mode="create")
    run_id = target

    def observe(_run: str, _events: Sequence[Event]) -> None:
        with closing(sqlite3.connect(f"file:{settings.db}?mode=ro", uri=True)) as connection:
            [(count,)] = connection.execute("select events from runs where id = ?", (run_id,)).fetchall()
        if 0 < kill_after <= count:
            os.kill(os.getpid(), signal.SIGKILL)

    engine = Engine(store, OwnerFiles(settings.db), Library(settings.dir, root), clock, settings, observe=observe)
    if verb == "run":
        run_id = engine.start(target, data).row.id
    elif verb == "cancel":
        engine.cancel(run_id, "enough")
    elif verb != "drive":
        getattr(engine, verb)(run_id)
    observe(run_id, [])
    row = asyncio.run(engine.drive(run_id, verb=verb))
    print(row.id, row.status.value)
    store.close()
    engine.owners.retire()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
