"""Answers that race each other and the deadline of their gate: `python tests/crash/races.py [ROUNDS [SEED]]`. Prints figures."""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from threading import Event

sys.path.append(str(Path(__file__).parents[1]))

from crash import judge
from crash.judge import Violation, holds
from crash.warm import Command, Warm

SOURCE = """
from flowstone import Flow, workflow

@workflow
async def gated(flow: Flow) -> str:
    return (await flow.approval("ok", expiry="400ms")).status
"""
SPREAD = 0.15
"""Seconds before and after the deadline within which commands begin to answer."""


def project(root: Path) -> Path:
    """A folder with the workflow."""
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "work.py").write_text(SOURCE)
    return root


def race(warm: Warm, root: Path, random: Random) -> str:
    """One run: two who approve, one who rejects, one who sweeps, all about the deadline. Its one outcome. Raises Violation."""
    started = warm.flow(root, "run", "gated", "--no-wait")
    holds(started.code == 8, f"exit {started.code}: {started.err}")
    row, events = judge.read(root)[-1]
    deadline = events[-2].body()["deadline"] if events[-2].kind == "gate.opened" else events[-1].body()["deadline"]
    wishes = {
        ("approve", row.id, "ok"): "approved",
        ("approve", row.id, "ok", "--comment", "x"): "approved",
        ("reject", row.id, "ok"): "rejected",
    }
    starts = [(deadline / 1e6 + random.uniform(-SPREAD, SPREAD) - 0.05, words) for words in (*wishes, ("recover",))]
    commands: dict[tuple[str, ...], Command] = {}
    for instant, words in sorted(starts):
        Event().wait(max(0.0, instant - time.time()))
        commands[words] = warm.start(root, *words)
    codes = {words: command.wait() for words, command in commands.items()}
    Event().wait(max(0.0, deadline / 1e6 - time.time()))
    warm.flow(root, "recover")
    row, events = next(found for found in judge.read(root) if found[0].id == row.id)
    ledger = judge.consistent(row, events)
    closed = [event.body()["outcome"] for event in events if event.kind == "gate.closed"]
    answered = sum(event.kind == "gate.answered" for event in events)
    told = f"codes {[(words[0], ended.code) for words, ended in codes.items()]}, outcome {closed}, {row.status}"
    holds(row.status == "completed" and closed == [ledger.output], told)
    holds(answered == (closed != ["expired"]), f"{answered} answers: {told}")
    for words, wish in wishes.items():
        code = codes[words].code
        holds(code in (0, 75), f"{told}: {codes[words].err}")
        # A same answer again is no harm (0), unless it says something of its own.
        holds(code == 75 or wish == closed[0], told)
    wanted = [codes[words].code for words, wish in wishes.items() if wish == closed[0]]
    holds(closed == ["expired"] or 0 in wanted, told)
    return str(closed[0])


def main(rounds: int, seed: int) -> int:
    """Race so often, print what came of it."""
    random, outcomes, begun = Random(seed), Counter[str](), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        warm, root = Warm(Path(folder)), project(Path(folder) / "project")
        try:
            for _ in range(rounds):
                outcomes[race(warm, root, random)] += 1
        except Violation as violation:
            print(f"seed {seed}: {violation}")
            return 1
        finally:
            warm.close()
    print(f"seed {seed}: {rounds} rounds {dict(outcomes)}, 0 violations, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*[*given, *(200, 1)[len(given) :]][:2]))
