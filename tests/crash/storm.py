"""Processes that run, resume, approve, cancel and sweep one database, killed and stopped at random, while the clock is set.

    python tests/crash/storm.py [KILLS [SEED]]

Each step notes `RUN EPOCH STEP ATTEMPT` when it begins: the witness that no two executions of a run overlap. Prints figures.
The clock of all processes is set back and forward meanwhile (clock.py), where gcc is there.
"""

import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

sys.path.append(str(Path(__file__).parents[1]))

from crash import judge
from crash.clock import DAY, HOUR, SECOND, SetClock, refusal
from crash.judge import Violation, holds
from crash.warm import Command, Ended, Warm
from flowstone.journal.states import SETTLED

SOURCE = """
import os, threading
from flowstone import Flow, current_step, workflow

def note(tag: str) -> str:
    step = current_step()
    end = os.open("effects", os.O_WRONLY | os.O_APPEND)
    os.write(end, f"{step.run_id} {step.epoch} {step.key} {step.attempt}\\n".encode())
    threading.Event().wait(0.004)
    os.write(end, f"{step.run_id} {step.epoch} {step.key} -\\n".encode())
    os.close(end)
    return tag

def unnote(done) -> None:
    note("")

def breaks(tag: str) -> None:
    note(tag)
    raise ValueError("broken")

@workflow
async def steps(flow: Flow) -> str:
    for tag in "abcd":
        await flow.do(tag, note, tag)
    return "done"

@workflow
async def gate(flow: Flow) -> str:
    await flow.do("a", note, "a", undo=unnote)
    answer = await flow.approval("ok")
    await flow.do("b", note, "b")
    return "done"

@workflow
async def saga(flow: Flow) -> None:
    await flow.do("a", note, "a", undo=unnote)
    await flow.do("b", note, "b", undo=unnote)
    await flow.do("c", breaks, "c")

def breaks_at_first(tag: str) -> str:
    note(tag)
    if current_step().attempt % 2:
        raise RuntimeError("not yet")
    return tag

@workflow
async def timed(flow: Flow) -> str:
    await flow.do("a", breaks_at_first, "a", retries=30, retry_delay="20ms")
    answer = await flow.approval("ok", expiry="2h")
    await flow.sleep("nap", "2ms")
    await flow.do("b", note, "b")
    return answer.status

@workflow
async def inner(flow: Flow) -> str:
    await flow.do("inside", note, "inside")
    return "done"

@workflow
async def child(flow: Flow) -> str:
    await flow.do("a", note, "a")
    await flow.sleep("nap", "2ms")
    return await flow.do("kid", inner)
"""
COMPLETES = ("steps", "gate", "timed", "inner", "child")
ENDS = {"saga": {"failed"}} | {name: {"completed"} for name in COMPLETES}
"""How a run ends, unless it was cancelled."""
EXPECTED = {0, 1, 2, 3, 4, 8, 66, 75}
"""Exit codes of commands that meet each other: never 70, 74 or 76."""
ACTORS = 5
LINE = 19
"""Bytes of a mark, about."""
STEPS = (-365 * DAY, -DAY, -HOUR, -SECOND, -SECOND // 50, SECOND // 50, SECOND, HOUR, DAY, 365 * DAY)
"""By how much the clock is set back or forward at once."""
FURTHEST = 1000 * DAY
"""How far it gets from the system's."""


@dataclass
class Storm:
    """One database under attack, until so many commands were killed."""

    root: Path
    warm: Warm
    kills: int
    seed: int
    clock: SetClock | None = None
    """What the processes go by; None if it cannot be set."""
    killed: int = 0
    stopped: int = 0
    stepped: int = 0
    commands: Counter[str] = field(default_factory=Counter)
    told: set[str] = field(default_factory=set)
    """Runs whose command came to its end."""
    broken: list[str] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Make the project, and let the actors act until enough were killed."""
        (self.root / "workflows").mkdir(parents=True)
        (self.root / "workflows" / "work.py").write_text(SOURCE)
        (self.root / "effects").touch()
        holds(self.warm.flow(self.root, "run", "steps").code == 0, "flow run does not work here")
        actors = [threading.Thread(target=self._act, args=(Random(self.seed * 100 + number),)) for number in range(ACTORS)]
        for actor in actors:
            actor.start()
        if self.clock is not None:
            self._step(self.clock, actors)
        for actor in actors:
            actor.join()

    def _step(self, clock: SetClock, actors: list[threading.Thread]) -> None:
        """Set the clock, again and again, for as long as the actors act."""
        random, pause = Random(self.seed), threading.Event()
        while any(actor.is_alive() for actor in actors):
            pause.wait(random.random() * 0.2)
            ahead = clock.ahead + random.choice(STEPS)
            clock.set(max(-FURTHEST, min(FURTHEST, ahead)))
            self.stepped += 1

    def _act(self, random: Random) -> None:
        while self.killed < self.kills and not self.broken:
            try:
                self._command(random, self._words(random))
            except Exception as error:  # an actor that is gone must not let the storm pass
                self.broken.append(f"{type(error).__name__}: {error}")

    def _words(self, random: Random) -> tuple[str, ...]:
        verb = random.choices(("run", "resume", "recover", "approve", "cancel", "status"), (35, 20, 20, 15, 3, 7))[0]
        if verb == "run":
            return ("run", random.choice(("steps", "gate", "saga", "child", "timed")))
        if verb == "recover":
            return ("recover",)
        unfinished = [row for row, _ in self._read() if row.status not in SETTLED and row.parent_run is None]
        if not unfinished:
            return ("recover",)
        run = random.choice(unfinished)
        return (verb, run.id, *{"approve": ("ok",), "cancel": ("--reason", "storm")}.get(verb, ()))

    def _read(self) -> list[tuple[judge.RunRow, list[judge.Event]]]:
        with self.turn:  # one reader at a time is enough for this machine
            return judge.read(self.root)

    def _command(self, random: Random, words: tuple[str, ...]) -> None:
        command = self.warm.start(self.root, *words)
        fate = random.random()
        if fate < 0.75:
            self._until_work(command, random)
            if fate < 0.15 and not command.over.is_set():
                command.signal(signal.SIGSTOP)
                command.over.wait(random.random() * 0.3)
                command.signal(signal.SIGCONT)
                self._until_work(command, random)
                self.stopped += 1
            command.signal(signal.SIGKILL)
        self._told(words, command.wait())

    def _until_work(self, command: Command, random: Random) -> None:
        """Until somebody has made some more marks, or for a moment: on a slow machine too the kill then falls into the work."""
        marks = self.root / "effects"
        aim, until = marks.stat().st_size + random.randrange(8) * LINE, time.monotonic() + random.random() * 0.5
        while marks.stat().st_size < aim and time.monotonic() < until and not command.over.wait(0.002):
            pass

    def _told(self, words: tuple[str, ...], ended: Ended) -> None:
        with self.turn:
            self.commands[words[0]] += 1
            if ended.code < 0:
                self.killed += 1
                return
            if ended.code not in EXPECTED:
                self.broken.append(f"flow {' '.join(words)}: exit {ended.code}: {ended.err}")
            if words[0] == "run":
                self.told |= {word.removeprefix("id=") for word in ended.err.split() if word.startswith("id=")}

    def end(self) -> None:
        """Bring every run to its end as a person would, and judge. At the end of all times nothing is still to come."""
        if self.clock is not None:
            self.clock.set(2 * FURTHEST)
        for turn in range(6):
            for row, events in self._read():
                judge.consistent(row, events)
                if row.status in SETTLED or row.parent_run is not None:
                    continue
                asks = '"approval"' in row.waiting and turn % 2 == 0  # else its deadline may have passed
                words = ("approve", row.id, "ok") if asks else ("resume", row.id)
                ended = self.warm.flow(self.root, *words)
                holds(ended.code in EXPECTED, f"flow {' '.join(words)}: exit {ended.code}: {ended.err}")
        self._judge()

    def _judge(self) -> None:
        runs = judge.read(self.root)
        cancelled = {row.id for row, _ in runs if row.status == "cancelled"}
        for row, events in runs:
            ledger = judge.consistent(row, events)
            asked = ledger.cancel_request is not None or row.parent_run in cancelled
            wanted = ENDS[row.workflow] | ({"cancelled"} if asked else set())
            holds(row.status in wanted, f"run {row.id} of {row.workflow} is {row.status} at last: {row.error}")
        holds(self.told <= {row.id for row, _ in runs}, "a run that was told is lost")
        newest: dict[str, int] = {}
        begun: Counter[tuple[str, ...]] = Counter()
        for line in (self.root / "effects").read_text().splitlines():
            run, epoch, step, attempt = line.split()
            holds(int(epoch) >= newest.get(run, 0), f"two executions of {run} overlap: epoch {epoch} after {newest.get(run)}")
            newest[run] = int(epoch)
            begun[run, step, attempt] += attempt != "-"
        holds(max(begun.values()) == 1, f"an attempt was made twice: {begun.most_common(1)}")
        recorded = {
            (row.id, event.step, str(event.attempt)) for row, events in runs for event in events if event.kind == "step.started"
        }
        holds(set(+begun) <= recorded, "an attempt was made and never recorded")

    def figures(self) -> str:
        """What was done."""
        runs = judge.read(self.root)
        ends = Counter(row.status.value for row, _ in runs)
        again = sum(event.kind == "step.interrupted" for _, events in runs for event in events)
        return (
            f"seed {self.seed}: {self.killed} kills, {self.stopped} stops, {self._steps()}, "
            f"{sum(self.commands.values())} commands, {len(runs)} runs {dict(ends)}, {again} attempts cut off"
        )

    def _steps(self) -> str:
        return f"the clock not set ({refusal()})" if self.clock is None else f"{self.stepped} steps of the clock"


def rage(root: Path, folder: Path, kills: int, seed: int) -> Storm:
    """A whole storm. Raises Violation."""
    clock = None if refusal() else SetClock(folder)
    warm = Warm(folder, None if clock is None else clock.environment)
    try:
        storm = Storm(root, warm, kills, seed, clock)
        storm.begin()
        if storm.broken:
            raise Violation("\n".join(storm.broken))
        storm.end()
        return storm
    finally:
        warm.close()


def main(kills: int, seed: int) -> int:
    """Rage, print what came of it."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            storm = rage(Path(folder) / "project", Path(folder), kills, seed)
        except Violation as violation:
            print(f"seed {seed}: {violation}")
            return 1
        print(f"{storm.figures()}, 0 violations, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*[*given, *(600, 1)[len(given) :]][:2]))
