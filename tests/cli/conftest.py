"""A project on disk and the command `flow` in a process of its own, with pipes or on a terminal."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
TIMEOUT = 60

WORKFLOWS = '''
import ctypes, os, subprocess, sys
from flowstone import Flow, workflow

def greet(name: str) -> str:
    return f"Hello, {name}"

@workflow
async def hello(flow: Flow, name: str = "you") -> str:
    """Greet somebody."""
    return await flow.do("greet", greet, name)

@workflow
async def gated(flow: Flow) -> str:
    """Ask, then say what was answered."""
    answer = await flow.approval("manager", message="sign off 129.90 EUR", expiry="2d")
    if not answer.approved:
        flow.cancel("not approved")
    return "done"

@workflow
async def pauses(flow: Flow) -> str:
    await flow.suspend("until monday")
    return "went on"

@workflow
async def sleeps(flow: Flow) -> str:
    await flow.sleep("cool off", "3d")
    return "woke"

def breaks() -> None:
    raise ValueError("no \\x1b[31mred\\x1b[0m \\u202e\\x9b here [/tmp] [retry]")

@workflow
async def fails(flow: Flow) -> None:
    await flow.do("break \\u202e \\u65e5\\u672c\\u8a9e [retry]", breaks)

def noisy() -> dict:
    print("from print")
    sys.stdout.flush()
    os.write(1, b"from os.write\\n")
    subprocess.run(["echo", "from a child"], check=True)
    libc = ctypes.CDLL(None)
    libc.puts(b"from C")
    libc.fflush(None)
    print("from stderr", file=sys.stderr)
    return {"answer": 42}

@workflow
async def prints(flow: Flow) -> dict:
    return await flow.do("noisy", noisy)

def hold(path: str) -> None:
    open(path).read()

@workflow
async def holds(flow: Flow, path: str) -> str:
    await flow.do("hold", hold, path)
    return "let go"
'''


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout as one JSON document."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


@dataclass(frozen=True)
class Project:
    """A folder with workflows, and `flow` in it."""

    root: Path
    started: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def environment(self, **more: str) -> dict[str, str]:
        """What the command sees: nothing of the test's own terminal."""
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        paths = os.pathsep.join(str(REPOSITORY / room) for room in ("engine", "cli"))
        return {**kept, "HOME": str(self.root), "PYTHONPATH": paths, "FLOW_USER": "ana", "TERM": "xterm", **more}

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        """The command, running."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
        command = [sys.executable, "-m", "flowstone_cli", *arguments]
        process = subprocess.Popen(command, cwd=self.root, env=self.environment(), text=True, **options)
        self.started.append(process)
        return process

    def end_what_is_left(self) -> None:
        """Kill what a failed test has left running: it would take the time of all tests after it."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def flow(self, *arguments: str | bytes, stdin: str | bytes | None = None, python: tuple[str, ...] = (), **env: str) -> Result:
        """Run the command with pipes."""
        done = subprocess.run(
            [sys.executable, *python, "-m", "flowstone_cli", *arguments],
            cwd=self.root,
            env=self.environment(**env),
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=TIMEOUT,
        )
        return Result(done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="surrogateescape"))

    def shell(self, line: str, **env: str) -> Result:
        """Run a line of bash in which `flow` is the command."""
        script = f'flow() {{ "{sys.executable}" -m flowstone_cli "$@"; }}\n{line}'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.root,
            env=self.environment(**env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def terminal(self, *arguments: str, columns: int = 80, **env: str) -> Result:
        """Run the command on a terminal; `out` is all that it showed."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        command = [sys.executable, "-m", "flowstone_cli", *arguments]
        process = subprocess.Popen(
            command, cwd=self.root, env=self.environment(**env), stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # the other end has closed
                break
            if not data:
                break
            shown += data
        os.close(ours)
        return Result(process.wait(TIMEOUT), shown.decode().replace("\r\n", "\n"), "")

    def run_id(self, *arguments: str) -> str:
        """Start a run and give its id."""
        return str(self.flow("run", *arguments, "--json").document["id"])


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A fresh project."""
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "examples.py").write_text(WORKFLOWS)
    made = Project(tmp_path)
    yield made
    made.end_what_is_left()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a run of each kind, only read by its tests; the ids are @last:hello and so on."""
    root = tmp_path_factory.mktemp("shared")
    (root / "workflows").mkdir()
    (root / "workflows" / "examples.py").write_text(WORKFLOWS)
    project = Project(root)
    for name in ("hello", "gated", "sleeps", "fails", "pauses"):
        project.flow("run", name, "--no-wait")
    return project


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Writes a file."""

    def written(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return written
