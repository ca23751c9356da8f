"""Workflows for tests of the acting verbs, whose effects are counted in a file, and a project that has them.

Steps that hold go on when the test lets them; nothing here takes longer than it must.
"""

import re
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowstone.clock import SystemClock
from flowstone.journal.events import Event
from flowstone.ports import AuditEntry, RunRow
from flowstone.storage.sqlite.store import SqliteStore

SECONDS = 40
"""How long a test waits for something that must happen."""

WORKFLOWS = """
import asyncio, os, time
from pathlib import Path
from flowstone import Flow, step, workflow

def hit(tag: str) -> str:
    with open("ledger", "a") as file:
        file.write(tag + "\\n")
    return tag

def hold(name: str) -> str:
    hit(f"{name} began")
    print(f"{name} holds", flush=True)
    while not Path(f"let-{name}").exists():
        time.sleep(0.01)
    return hit(name)

async def hold_async(name: str) -> str:
    hit(f"{name} began")
    while not Path(f"let-{name}").exists():
        await asyncio.sleep(0.01)
    return hit(name)

def until_fixed(name: str) -> str:
    hit(name)
    if not Path("fixed").exists():
        raise ValueError("not fixed yet")
    return name

def busy(name: str) -> str:
    hit(name)
    raise OSError("busy")

def die_until_fixed(name: str) -> str:
    hit(name)
    if not Path("fixed").exists():
        os.kill(os.getpid(), 9)
    return name

def unhit(done) -> None:
    hit(f"undo {done.step}")

def hold_unhit(done) -> None:
    hold(f"undo-{done.step}")

def unhit_until_fixed(done) -> None:
    until_fixed(f"undo {done.step}")

@step(repeatable=False)
def pay(amount: int) -> int:
    die_until_fixed("pay")
    return amount

@workflow
async def plain(flow: Flow, name: str = "you") -> str:
    return await flow.do("greet", hit, name)

@workflow
async def holds(flow: Flow, name: str = "a") -> str:
    await flow.do("first", hit, "first")
    return await flow.do("hold", hold, name)

@workflow
async def holds_async(flow: Flow) -> str:
    await flow.do("first", hit, "first", undo=unhit)
    return await flow.do("hold", hold_async, "a")

@workflow
async def fixable(flow: Flow) -> str:
    await flow.do("first", hit, "first")
    await flow.do("second", until_fixed, "second")
    return await flow.do("third", hit, "third")

@workflow
async def gated(flow: Flow, expiry: str | None = None) -> str:
    answer = await flow.approval("ok", expiry=expiry)
    if answer.approved:
        await flow.do("behind", hit, "behind")
    return answer.status

@workflow
async def gate_then_hold(flow: Flow) -> str:
    await flow.approval("ok")
    return await flow.do("hold", hold, "a")

@workflow
async def hold_then_gate(flow: Flow) -> str:
    await flow.do("hold", hold, "a")
    await flow.approval("deploy")
    return await flow.do("behind", hit, "behind")

@workflow
async def beside(flow: Flow) -> list:
    return await asyncio.gather(flow.do("slow", hold, "slow"), asked(flow))

async def asked(flow: Flow) -> str:
    answer = await flow.approval("ok")
    return await flow.do("behind", hit, answer.status)

@workflow
async def naps(flow: Flow, duration: str) -> str:
    await flow.do("first", hit, "first", undo=unhit)
    await flow.sleep("nap", duration)
    return await flow.do("last", hit, "last")

@workflow
async def retries(flow: Flow) -> str:
    return await flow.do("call", busy, "call", retries=3, retry_delay="1h")

@workflow
async def undoes(flow: Flow) -> None:
    await flow.do("a", hit, "a", undo=hold_unhit)
    await flow.do("b", until_fixed, "b")

@workflow
async def undo_fails(flow: Flow) -> None:
    await flow.do("a", hit, "a", undo=unhit_until_fixed)
    await flow.do("b", until_fixed, "b")

@workflow
async def gated_undo_fails(flow: Flow) -> None:
    await flow.do("a", hit, "a", undo=unhit_until_fixed)
    await flow.approval("ok")

@workflow
async def dies(flow: Flow) -> str:
    await flow.do("first", hit, "first")
    return await flow.do("die", die_until_fixed, "die")

@workflow
async def pays(flow: Flow) -> int:
    return await flow.do("pay", pay, 7)

@workflow
async def parent(flow: Flow) -> str:
    answer = await flow.do("kid", gated)
    return await flow.do("after", hit, f"after {answer}")
"""


def until(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    """Wait for something that must happen, and give it; the test fails if it does not."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not (found := condition()):
        assert time.monotonic() < deadline, f"in {seconds:g} s: {what}"
        pause.wait(0.02)
    return found


def has_open(pid: int, name: str) -> bool:
    """Whether a process has a file of that name open: it is then past its start."""
    try:
        return any(descriptor.readlink().name == name for descriptor in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


@dataclass(frozen=True)
class Scene:
    """A project (see conftest.Project) with these workflows."""

    project: Any

    @property
    def root(self) -> Path:
        return self.project.root

    def flow(self, *arguments: str, **more: Any) -> Any:
        """Run the command to its end."""
        return self.project.flow(*arguments, **more)

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        """The command, running."""
        return self.project.start(*arguments, **options)

    def run(self, *arguments: str) -> str:
        """Start a run, and give its id once the command has ended."""
        result = self.flow("run", *arguments, "--json")
        assert result.out, result.err
        return str(result.document["id"])

    def run_to(self, tag: str, *arguments: str) -> "tuple[subprocess.Popen[str], str]":
        """Start a run in a process of its own; gives both once the run has made that mark."""
        before = self.hits(tag)
        process = self.start("run", *arguments)
        until(lambda: self.hits(tag) > before or process.poll() is not None, f"{tag} in the ledger")
        assert process.poll() is None, process.communicate()
        newest = self.rows()[0]
        return process, newest.id

    def hits(self, tag: str) -> int:
        """How often a mark was made."""
        file = self.root / "ledger"
        return file.read_text().splitlines().count(tag) if file.exists() else 0

    def let(self, name: str) -> None:
        """Let a step that holds go on."""
        (self.root / f"let-{name}").touch()

    def fix(self) -> None:
        """What failed works from now on."""
        (self.root / "fixed").touch()

    def stop(self, process: "subprocess.Popen[str]", number: int) -> None:
        """Send a signal and wait until the process has taken it."""
        process.send_signal(number)
        assert process.stderr is not None
        assert any("stopping: " in line for line in process.stderr)

    def kill(self, process: "subprocess.Popen[str]") -> None:
        """kill -9."""
        process.kill()
        process.communicate(timeout=SECONDS)

    def ended(self, process: "subprocess.Popen[str]") -> Any:
        """Wait for a command; code, stdout and stderr."""
        out, err = process.communicate(timeout=SECONDS)
        return process.returncode, out, err

    def _read(self, read: Callable[[SqliteStore], Any]) -> Any:
        store = SqliteStore(self.root / ".flow" / "flow.db", SystemClock(), mode="read")
        try:
            return read(store)
        finally:
            store.close()

    def events(self, run: str) -> list[Event]:
        """The journal of a run."""
        return self._read(lambda store: store.events(run))

    def kinds(self, run: str) -> list[str]:
        """The kinds of its events."""
        return [event.kind for event in self.events(run)]

    def at(self, run: str, kind: str) -> int:
        """When the last event of that kind was written, in microseconds."""
        return [event.at for event in self.events(run) if event.kind == kind][-1]

    def rows(self) -> list[RunRow]:
        """All runs, newest first."""
        from flowstone.ports import Filter

        return self._read(lambda store: store.runs(Filter()))

    def row(self, run: str) -> RunRow:
        """A run's row."""
        return self._read(lambda store: store.run(run))

    def audit(self, run: str) -> list[AuditEntry]:
        """Who did what on a run."""
        return self._read(lambda store: store.audit(run))

    def printed(self, run: str) -> str:
        """What its steps have printed, as it was kept."""
        return "".join(piece.text for _, piece in self._read(lambda store: store.logs(run)))


def scene(project: Any) -> Scene:
    """The project, with the workflows of this module."""
    (project.root / "workflows" / "acting.py").write_text(WORKFLOWS)
    (project.root / "workflows" / "examples.py").unlink()
    return Scene(project)


def refused(result: Any, code: int, kind: str) -> dict[str, Any]:
    """A refused command under --json: nothing on stdout, one document with a command to type on stderr."""
    import json

    assert (result.code, result.out) == (code, ""), result.err
    document = json.loads(result.err.strip().splitlines()[-1])
    assert (document["schema"], document["code"], document["kind"]) == ("flow.error/1", code, kind)
    return document


def words(text: str) -> list[str]:
    """The lines of a block, without the blanks between their parts."""
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
