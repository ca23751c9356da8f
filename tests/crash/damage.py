"""Nonsense in a stored journal or row, its checksum right: `python tests/crash/damage.py [PART]`. Prints what is told wrongly.

Every field of every kind of event is taken away or replaced, each in turn, and every verb is tried on the run: the exit code is a
listed one, never 70, and what is told is a sentence. PART: only each so many-th.
"""

import itertools
import json
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[1]))

from crash import judge
from crash.judge import Violation, holds
from crash.warm import Ended, Warm
from flowstone.journal.events import Event
from flowstone.ports import RunRow

HISTORIES = Path(__file__).parents[1] / "histories"
WORKFLOWS = """
import os, threading
from pathlib import Path
from pydantic import BaseModel
from flowstone import Flow, step, workflow

ROOT = Path(__file__).parents[1]

def hold(tag: str) -> str:
    (ROOT / tag).touch()
    while not (ROOT / "go").exists():
        threading.Event().wait(0.01)
    return tag

@step(repeatable=False)
def pay(tag: str) -> str:
    return hold(tag)

def undone(done) -> None: ...

class Size(BaseModel):
    size: int

@workflow
async def held(flow: Flow) -> str:
    flow.log.warning("begun")
    print("printed")
    await flow.do("pay", pay, "pay", undo=undone)
    answer = await flow.approval("ok", schema=Size, expiry="1d")
    await flow.sleep("nap", "30d")
    return "done"

@workflow
async def cousin(flow: Flow) -> str:
    await flow.suspend("word")
    return "cousin"

@workflow
async def family(flow: Flow) -> str:
    return await flow.do("cousin", cousin)

@workflow
async def racing(flow: Flow) -> str:
    await flow.race({"fast": flow.do("fast", len, "abc"), "slow": flow.sleep("slow", "1d")})
    await flow.suspend("later")
    return "raced"
"""
LISTED = {0, 1, 2, 3, 4, 8, 65, 66, 69, 73, 74, 75, 76, 77, 78, 124}
"""Exit codes that may come of it; 70 would be a bug of ours."""
GOING = -1
"""What stands for the code of a command that goes on waiting, as the damage may have told it to."""
PATIENCE = 20
VERBS = (
    ("status", "RUN"),
    ("status", "RUN", "--json"),
    ("timeline", "RUN"),
    ("timeline", "RUN", "--json"),
    ("timeline", "RUN", "--all"),
    ("state", "RUN"),
    ("diff", "RUN", "OTHER"),
    ("output", "RUN"),
    ("export", "RUN"),
    ("export", "RUN", "--format", "html"),
    ("export", "RUN", "--format", "mermaid"),
    ("export", "RUN", "--format", "chrome"),
    ("logs", "RUN", "STEP"),
    ("runs",),
    ("runs", "--json", "--all"),
    ("doctor",),
    ("check", "RUN"),
    ("check", "--all"),
    ("audit", "RUN"),
    ("audit", "--json"),
    ("logs", "RUN", "--json"),
    ("logs", "RUN"),
    ("wait", "RUN", "--timeout", "100ms"),
    ("resume", "RUN"),
    ("retry", "RUN"),
    ("fork", "RUN", "--from", "STEP"),
    ("approve", "RUN"),
    ("reject", "RUN", "--comment", "no"),
    ("resolve", "RUN", "STEP", "--retry", "--reason", "why"),
    ("cancel", "RUN"),
    ("recover",),
    ("delete", "RUN", "--yes"),
)
INSTEAD: tuple[Any, ...] = (None, 5, -1, 10**30, float("inf"), "x", "", [], {}, [5], [[]], {"x": 1}, True)
"""What a field is replaced by."""
BODIES = ("", "{", "5", "null", '"x"', "[]", "{}", "[" * 100_000, '{"x":' * 5_000, '{"kind":' + "9" * 5_000 + "}", "NaN")
"""What a whole body is replaced by."""
COLUMNS: dict[str, tuple[Any, ...]] = {
    "kind": ("", "no.kind", "run.created", "run.completed", "step.failed", "gate.opened"),
    "step": (None, "", "other", "\x1b[31m"),
    "attempt": (None, 0, -1, 2**62),
    "at": (-1, 0, 2**62, -(2**62)),
}
"""What a column of an event is replaced by."""
ROW: dict[str, tuple[Any, ...]] = {
    "status": ("", "weird", "completed", "running", "suspended", "failed"),
    "waiting": ("", "{", "5", "null", "{}", "[5]", "[{}]", '[{"kind":"sleep"}]', "[" * 100_000),
    "error": ("", "{", "5", "null", "[]", '{"type":5}', '{"undo":5}'),
    "steps": (-1, 2**62),
    "done": (-1,),
    "events": (-1, 0, 1, 2**62),
    "mail": (-1, 2**62),
    "epoch": (-1, 2**62),
    "created_at": (-1, 2**62),
    "updated_at": (-1, 2**62),
    "finished_at": (-1, 2**62, None),
    "owner": ("", "x", "\x1b[31m"),
    "current_step": ("", "no", "\x1b[31m"),
    "workflow": ("", "no"),
    "version": ("", "no"),
    "parent_run": ("", "nobody"),
    "parent_step": ("", "no"),
}
"""What a column of a run's row is replaced by."""
BESIDE: dict[str, dict[str, tuple[Any, ...]]] = {
    "audit": {
        "by": ("", "{", "5", "[]", "{}", '{"user":5}', '{"user":{}}'),
        "at": (-1, 2**62, -(2**62)),
        "action": ("",),
        "n": (-1, 2**62),
    },
    "log": {
        "stream": ("", "x"),
        "at": (-1, 2**62, -(2**62)),
        "step": ("", "no"),
        "attempt": (-1, 2**62),
        "text": ("", "\x1b[31m"),
    },
    "versions": {"text": ("", "{", "{}", '{"nodes":5}', "def (", "\x00"), "workflow": ("",), "at": (-1, 2**62)},
}
"""What a column of what stands beside the journal is replaced by, in all rows."""


class Damage(NamedTuple):
    """One change of a database."""

    run: str
    what: str
    statement: str
    values: tuple[Any, ...]


@dataclass
class Ground:
    """A project with runs of all kinds, from which a damaged one is copied for each command."""

    root: Path
    runs: list[tuple[RunRow, list[Event]]]

    def damages(self) -> Iterator[Damage]:
        """Every change: each field of each kind of event, where it is first found; each column of a row in each state."""
        seen: dict[tuple[str, ...], int] = {}

        def first(*place: str, times: int = 1) -> bool:
            seen[place] = seen.get(place, 0) + 1
            return seen[place] <= times

        for row, events in self.runs:
            for event in events:
                own = event.step is not None and event.step.endswith((":undo", ":on_error"))
                kind = f"{event.kind}{' of its own' * own}"
                for body in BODIES if first(kind) else ():
                    yield _body(row, event, f"{kind}: {body[:30]}", body)
                for column, values in COLUMNS.items() if first(kind, "columns") else ():
                    for value in values:
                        yield Damage(
                            row.id,
                            f"{kind}: {column} {value!r}",
                            f"update journal set {column} = ? where run_id = ? and n = ?",
                            (value, row.id, event.n),
                        )
                body = event.body()
                for path in _paths(body):
                    if first(kind, *path):
                        for value in (_GONE, *INSTEAD):
                            told = "gone" if value is _GONE else repr(value)
                            yield _body(row, event, f"{kind}: {'.'.join(path)} {told}", json.dumps(_with(body, path, value)))
                if first(kind, "missing"):
                    statement = "delete from journal where run_id = ? and n = ?"
                    yield Damage(row.id, f"{kind}: missing", statement, (row.id, event.n))
            for column, values in (
                ROW.items() if first("row", row.status, str(row.owner is None), str(row.waiting == "[]")) else ()
            ):
                for value in values:
                    yield Damage(
                        row.id,
                        f"row ({row.status}): {column} {str(value)[:30]!r}",
                        f"update runs set {column} = ? where id = ?",
                        (value, row.id),
                    )

    def beside(self) -> Iterator[Damage]:
        """The changes of what stands beside the journals, each for a run of a graph and for one that has printed."""
        runs = [next(row.id for row, _ in self.runs if row.workflow == name) for name in ("walked", "held")]
        for (table, columns), run in itertools.product(BESIDE.items(), runs):
            for column, values in columns.items():
                for value in values:
                    yield Damage(run, f"{table}: {column} {value!r}", f"update {table} set {column} = ?", (value,))

    def damaged(self, damage: Damage, root: Path) -> bool:
        """Make a copy of the project, with the damage; False if the database itself does not take it."""
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.root, root)
        with closing(sqlite3.connect(judge.database(root), isolation_level=None)) as connection:
            try:
                changed = connection.execute(damage.statement, damage.values).rowcount
            except sqlite3.IntegrityError:
                return False
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        holds(changed >= 1, f"nothing was damaged by {damage}")
        return True

    def words(self, verb: tuple[str, ...], run: str) -> tuple[str, ...]:
        """A verb's command on a run."""
        events = next(events for row, events in self.runs if row.id == run)
        step = next((event.step for event in events if event.step), "step") or "step"
        other = next(row.id for row, _ in self.runs if row.id != run)
        return tuple({"RUN": run, "OTHER": other, "STEP": step}.get(word, word) for word in verb)


_GONE = object()


def _paths(body: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The fields of a body, and of the objects in it (not those in an author's values)."""
    for name, value in body.items():
        yield (name,)
        if isinstance(value, dict) and name not in ("input", "output", "result", "value", "data", "schema"):
            for inner in value:
                yield name, inner


def _with(body: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    name, *rest = path
    if rest:
        return body | {name: _with(body[name], tuple(rest), value)}
    return {key: one for key, one in body.items() if key != name} if value is _GONE else body | {name: value}


def _body(row: RunRow, event: Event, what: str, text: str) -> Damage:
    statement = "update journal set body = ?, crc = ? where run_id = ? and n = ?"
    return Damage(row.id, what, statement, (text, zlib.crc32(text.encode()), row.id, event.n))


def ground(warm: Warm, root: Path) -> Ground:
    """Make the project: the recorded histories, and what real commands add that is in none of them."""
    from histories.record import DATABASE

    shutil.copytree(HISTORIES / "workflows", root / "workflows", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "workflows" / "more.py").write_text(WORKFLOWS)
    (root / ".flow").mkdir(mode=0o700)
    shutil.copy(DATABASE, judge.database(root))
    cut_off = warm.start(root, "run", "held")
    while not (root / "pay").exists():
        signal.sigtimedwait([], 0.01)
    cut_off.signal(signal.SIGKILL)
    cut_off.wait()
    (root / "go").touch()
    work = root / "workflows" / "more.py"
    for words, code in (
        (("resume", "@last:held"), 8),
        (("resolve", "@last:held", "pay", "--failed", "--reason", "seen"), 1),
        (("run", "held"), 8),
        (("cancel", "@last:held", "--reason", "enough"), 3),
        (("run", "held"), 8),
        (("approve", "@last:held", "ok", "--set", "size=3", "--comment", "well"), 8),
        (("run", "racing"), 8),
        (("run", "family"), 8),
        (("resume", "@last:cousin"), 0),
        (("run", "family"), 8),
    ):
        ended = warm.flow(root, *words)
        holds(ended.code in (code, 0), f"flow {' '.join(words)}: {ended}")
    work.write_text(work.read_text().replace('return "raced"', 'return "raced!"'))
    warm.flow(root, "resume", "@last:racing")
    with closing(sqlite3.connect(judge.database(root))) as connection:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    return Ground(root, judge.read(root))


def tried(warm: Warm, made: Ground, damage: Damage, verb: tuple[str, ...], root: Path) -> str | None:
    """What is wrong with how a command tells the damage; None if nothing is."""
    if not made.damaged(damage, root):
        return None
    command = warm.start(root, *made.words(verb, damage.run))
    if not command.over.wait(PATIENCE):
        command.signal(signal.SIGTERM)
        command.wait()
        return "it hangs"
    return wrong_with(command.wait())


def wrong_with(ended: Ended) -> str | None:
    """What is wrong with the end of a command that met damage."""
    if ended.code not in LISTED:
        return f"exit {ended.code}: {ended.err[-300:]}"
    if "Traceback" in ended.err.replace('"trace', "") or "bug" in ended.err:
        return f"no sentence: {ended.err[-300:]}"
    if ended.code == 74 and not re.search(r"\b(event \d+|row|audit|output \d+)\b.* of run \w+ is damaged", ended.err + ended.out):
        return f"exit 74 without naming it: {ended.err[-300:]}"
    return None


def main(part: int) -> int:
    """Try all, print what was wrong."""
    count, bad = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        warm = Warm(Path(folder))
        try:
            made = ground(warm, Path(folder) / "ground")
            cases = itertools.product(itertools.chain(made.beside(), made.damages()), VERBS)
            for damage, verb in itertools.islice(cases, 0, None, part):
                count += 1
                try:
                    wrong = tried(warm, made, damage, verb, Path(folder) / "project")
                except Violation as violation:
                    wrong = str(violation)
                if wrong is not None:
                    bad += 1
                    print(f"{damage.what} | flow {' '.join(verb)} | {wrong}", flush=True)
        finally:
            warm.close()
    print(f"{count} commands, {bad} not as they should be")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
