"""A process that has `flow` loaded and forks a child for each command: many commands, and many deaths, at little cost.

Run as a program this file is that process. A child is the command line from its `main` on: only the imports are spared.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 120.0
NICE = 13
"""What a traced child waits to be told by the tracer before it begins."""


class Ended(NamedTuple):
    """What a command left behind."""

    code: int
    """Its exit code; minus the signal that killed it."""
    out: str
    err: str


class Command:
    """A running command."""

    def __init__(self, out: Path, err: Path) -> None:
        self.pid = 0
        self._out, self._err = out, err
        self._code = 0
        self.known, self.over = threading.Event(), threading.Event()

    def ended(self, code: int) -> None:
        """Its end was seen."""
        self._code = code
        self.over.set()

    def signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if not self.over.is_set():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def told(self) -> str:
        """What it has written to stderr so far."""
        return self._err.read_bytes().decode(errors="backslashreplace")

    def wait(self) -> Ended:
        """Wait for its end."""
        if not self.over.wait(PATIENCE):
            self.signal(signal.SIGKILL)
            raise AssertionError(f"process {self.pid} does not end: {self._err.read_text(errors='replace')}")
        texts = [file.read_bytes().decode(errors="backslashreplace") for file in (self._out, self._err)]
        self._out.unlink()
        self._err.unlink()
        return Ended(self._code, *texts)


class Warm:
    """Starts commands. Close it when done."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        """`folder` holds the outputs of commands until they are read; `env` is for what is preloaded."""
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(str(REPOSITORY / room) for room in ("engine", "cli")),
                **(env or {}),
            },
        )
        self._waiting: list[Command] = []
        self._running: dict[int, Command] = {}
        self._asking = threading.Lock()
        self._count = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, root: Path, *words: str, traced: bool = False, env: Mapping[str, str] | None = None) -> Command:
        """`flow WORDS` in the folder `root`. A traced one begins when its tracer answers `getpriority` with 20 - NICE."""
        assert self._process.stdin is not None
        with self._asking:
            self._count += 1
            out, err = self._folder / f"out-{self._count}", self._folder / f"err-{self._count}"
            for file in (out, err):
                file.touch()
            command = Command(out, err)
            self._waiting.append(command)
            asked = {
                "words": words,
                "root": str(root),
                "out": str(out),
                "err": str(err),
                "traced": traced,
                "env": dict(env or {}),
            }
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        assert command.known.wait(PATIENCE)
        return command

    def flow(self, root: Path, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        """A whole `flow WORDS`."""
        return self.start(root, *words, env=env).wait()

    def close(self) -> None:
        """End the process; its children are left alone."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "code" in told:
                self._running.pop(told["pid"]).ended(told["code"])
            else:
                command = self._waiting.pop(0)
                command.pid = told["pid"]
                self._running[command.pid] = command
                command.known.set()


def _serve() -> None:
    import asyncio  # noqa: F401
    import importlib
    import pkgutil
    import selectors

    import sqlite_utils  # noqa: F401

    import flowstone
    import flowstone_cli
    from flowstone_cli.__main__ import main

    for package in (flowstone, flowstone_cli):  # all: what an attacked command would load is no write of its own
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__") and "templates" not in module.name:
                importlib.import_module(module.name)

    sys.dont_write_bytecode = True
    ours, theirs = os.pipe()
    for end in (ours, theirs):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(theirs)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(ours, selectors.EVENT_READ)
    unread = b""
    while True:
        ready = {key.fd for key, _ in selector.select()}
        if ours in ready:
            os.read(ours, 4096)
            _reap()
        if 0 not in ready:
            continue
        data = os.read(0, 65536)
        if not data:
            os._exit(0)
        *lines, unread = (unread + data).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            streams = _streams(asked)  # before the fork: a tracer that attaches early is to see the command's own calls only
            child = os.fork()
            if child == 0:
                _become(asked, streams, ours, theirs)
                main()
            for stream in streams:
                os.close(stream)
            _tell(pid=child)


def _reap() -> None:
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if child == 0:
            return
        _tell(pid=child, code=os.waitstatus_to_exitcode(status))


def _tell(**fields: Any) -> None:
    os.write(1, json.dumps(fields).encode() + b"\n")


def _streams(asked: dict[str, Any]) -> list[int]:
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return [os.open(os.devnull, os.O_RDONLY), os.open(asked["out"], writing, 0o600), os.open(asked["err"], writing, 0o600)]


def _become(asked: dict[str, Any], streams: list[int], *ends: int) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for end in ends:
        os.close(end)
    os.chdir(asked["root"])
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    os.environ.clear()
    os.environ.update({**kept, "HOME": asked["root"], "FLOW_USER": "ana", **asked["env"]})
    for target, opened in enumerate(streams):
        os.dup2(opened, target)
        os.close(opened)
    if asked["traced"]:
        _await_tracer()
    sys.argv = ["flow", *asked["words"]]


def _await_tracer() -> None:
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER: anybody, where Yama asks for it
    until = time.monotonic() + PATIENCE
    while os.getpriority(os.PRIO_PROCESS, 0) != NICE:
        if time.monotonic() > until:
            os._exit(99)


if __name__ == "__main__":
    _serve()
