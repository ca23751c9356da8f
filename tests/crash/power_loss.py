"""Power losses at random points of recorded commands: `python tests/crash/power_loss.py [STATES [SEED]]`. Prints figures.

What a command had told the world, or its body, before the loss must be on every disk that could be left.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

sys.path.append(str(Path(__file__).parents[1]))

from crash import judge
from crash.judge import Violation, holds
from crash.shapes import SOURCE
from crash.simulator import Deed, Disk, deeds, rebuilt
from crash.warm import REPOSITORY, Warm
from flowstone.identity import invocation_id

COMMANDS = (
    ("run", "three"),
    ("run", "together"),
    ("run", "gate"),
    ("approve", "@last", "ok"),
    ("run", "saga"),
    ("run", "large"),
    ("run", "gated_saga"),
    ("cancel", "@last", "--reason", "enough"),
    ("run", "child"),
)
LARGE = """

def big(tag: str) -> str:
    hit(tag)
    return tag * 700_000

@workflow
async def large(flow: Flow) -> None:
    for tag in ("a", "b", "c", "d", "e", "f", "g", "h"):
        await flow.do(tag, big, tag)
"""
"""More than SQLite leaves in its WAL before it moves it into the file."""
RECOVERED = 10
"""Of so many states, at most, the runs are brought to their end too."""
_ENDED = re.compile(rb"^\S+ run (\w+) id=(\w+)", re.MULTILINE)
_SUCCEEDED = re.compile(rb"^\S+ (\w+) succeeded", re.MULTILINE)


def refusal() -> str | None:
    """Why nothing can be recorded here; None if it can."""
    return None if shutil.which("gcc") else "gcc is not installed"


@dataclass
class Record:
    """What some commands wrote, and how it all stood at last."""

    folder: Path
    deeds: list[Deed] = field(default_factory=list)
    runs: dict[int, str] = field(default_factory=dict)
    """By the number of the command: the run that it acted on."""
    before: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By invocation id: its run, and the number of its first attempt's mark: what is recorded before it was told to the body."""
    completions: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """By run: the number at which each step succeeded."""


def recorded(folder: Path) -> Record:
    """Compile the recorder, and let commands be recorded."""
    library, log, root = folder / "recorder.so", folder / "record", folder / "project"
    subprocess.run(
        ["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(Path(__file__).with_name("recorder.c")), "-ldl", "-lpthread"],
        check=True,
    )
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "work.py").write_text(SOURCE + LARGE)
    (root / "effects").touch()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("FLOW_", "XDG_"))},
        "PYTHONPATH": os.pathsep.join(str(REPOSITORY / room) for room in ("engine", "cli")),
        "LD_PRELOAD": str(library),
        "FLOW_RECORD": str(log),
        "FLOW_RECORD_ROOT": str(root / ".flow"),
        "FLOW_RECORD_TOLD": str(root),
    }
    record = Record(root)
    for number, words in enumerate(COMMANDS):
        with (root / f"out-{number}").open("wb") as out, (root / f"err-{number}").open("wb") as err:
            done = subprocess.run(
                [sys.executable, "-m", "flowstone_cli", *words], cwd=root, env=environment, stdout=out, stderr=err, check=False
            )
        holds(
            done.returncode in (0, 1, 3, 8),
            f"flow {' '.join(words)}: exit {done.returncode}: {(root / f'err-{number}').read_text()}",
        )
        record.runs[number] = [row.id for row, _ in judge.read(root) if row.parent_run is None][-1]
    record.deeds = list(deeds(log.read_bytes()))
    for row, events in judge.read(root):
        for event in events:
            if event.kind == "step.started" and event.step is not None:
                record.before.setdefault(str(invocation_id(row.id, event.step)), (row.id, event.n))
            if event.kind == "step.succeeded" and event.step is not None:
                record.completions[row.id][event.step] = event.n
    return record


@dataclass
class Told:
    """What the world knows at an instant."""

    succeeded: set[tuple[str, str]] = field(default_factory=set)
    statuses: dict[str, str] = field(default_factory=dict)

    def hear(self, deed: Deed, record: Record) -> None:
        """One more word: an effect, whose body had all results before it; a line of progress; an output."""
        name = Path(deed.path).name
        if name == "effects":
            run, mark = record.before[deed.data.split()[1].decode()]
            self.succeeded |= {(run, step) for step, n in record.completions[run].items() if n < mark}
            return
        run = record.runs[int(name.split("-")[1])]
        self.succeeded |= {
            (run, step.decode()) for step in _SUCCEEDED.findall(deed.data) if step.decode() in record.completions[run]
        }
        for status, id in _ENDED.findall(deed.data):
            self.statuses[id.decode()] = status.decode()
        if name.startswith("out-"):
            self.statuses[run] = "completed"


def check(root: Path, told: Told) -> None:
    """A disk that could be left holds what was told, and its journals and rows agree."""
    runs = {row.id: (row, events) for row, events in judge.read(root)}
    for row, events in runs.values():
        judge.consistent(row, events)
    had = {(row.id, event.step) for row, events in runs.values() for event in events if event.kind == "step.succeeded"}
    holds(told.succeeded <= had, f"results that were acknowledged are lost: {sorted(told.succeeded - had)}")
    for run, status in told.statuses.items():
        holds(run in runs, f"the run {run} is lost")
        known = {"completed", "failed", "cancelled"} & {status}
        holds(not known or runs[run][0].status in known, f"{run} was told {status}, and is {runs[run][0].status}")


def lose_power(record: Record, folder: Path, states: int, random: Random, warm: Warm | None) -> list[str]:
    """Rebuild and judge so many states; what was broken, in words."""
    points = sorted(random.randrange(len(record.deeds)) for _ in range(states))
    recovered = set(random.sample(range(states), min(RECOVERED, states)))
    disk, told, at, broken = Disk(), Told(), 0, []
    for number, point in enumerate(points):
        for deed in record.deeds[at : point + 1]:
            if deed.op == "T":
                told.hear(deed, record)
            else:
                disk.take(deed)
        at = max(at, point + 1)
        root = folder / "state"
        rebuilt(disk.could_hold(random), record.folder, root)
        try:
            check(root, told)
            if warm is not None and number in recovered:
                _goes_on(root, warm)
        except Violation as violation:
            broken.append(f"after deed {point} of {len(record.deeds)}: {violation}")
        shutil.rmtree(root, ignore_errors=True)
    return broken


def _goes_on(root: Path, warm: Warm) -> None:
    """Work can be done on it, and what was interrupted ends."""
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "work.py").write_text(SOURCE + LARGE)
    (root / "effects").touch()
    for words, codes in ((("recover",), (0, 1)), (("run", "three"), (0,)), (("runs",), (0,)), (("list",), (0,))):
        ended = warm.flow(root, *words)
        holds(ended.code in codes, f"flow {words[0]} then: exit {ended.code}: {ended.err}")
    left = [row.id for row, _ in judge.read(root) if row.status == "running"]
    holds(not left, f"runs that do not go on: {left}")


def main(states: int, seed: int) -> int:
    """Record, lose power so often, print what came of it."""
    if why := refusal():
        print(why)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        record = recorded(Path(folder))
        print(f"seed {seed}, {len(record.deeds)} deeds recorded in {time.monotonic() - begun:.0f} s", flush=True)
        begun, warm = time.monotonic(), Warm(Path(folder))
        broken = lose_power(record, Path(folder), states, Random(seed), warm)
        warm.close()
    print(*broken, sep="\n")
    print(f"{states} power losses, {len(broken)} violations, {time.monotonic() - begun:.0f} s")
    return min(len(broken), 1)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*[*given, *(3000, 1)[len(given) :]][:2]))
