"""A terminal that is really there: bash in tmux, typed into and read from like a person does."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds after which what was waited for is not going to come."""

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def flow_command(folder: Path) -> None:
    """Put this tree's `flow` into `folder`, with the Python that runs the tests."""
    folder.mkdir(exist_ok=True)
    paths = os.pathsep.join(str(ROOT / part) for part in ("engine", "cli"))
    command = folder / "flow"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(paths)} exec {shlex.quote(sys.executable)} -m flowstone_cli "$@"\n')
    command.chmod(0o755)


class Screen:
    """A window of tmux with a shell in `folder`; `flow` is this tree's."""

    def __init__(self, folder: Path, *, columns: int = 80, rows: int = 40, env: Mapping[str, str] | None = None) -> None:
        self._socket = folder / "tmux"
        flow_command(folder / "bin")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLOW_", "TMUX")) and name != "CI"}
        wanted = {"FLOW_USER": "ana", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "HOME": str(folder), **(env or {})}
        self._env = {**kept, **wanted, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        self._env.pop("COLUMNS", None)
        self._env.pop("LINES", None)
        self._tmux(
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            str(columns),
            "-y",
            str(rows),
            "-c",
            str(folder),
            "PS1='$ ' exec bash --norc -i",
        )
        self.wait_for(r"^\$ *$")

    def close(self) -> None:
        """End the shell and all that runs in it."""
        self._tmux("kill-server", check=False)

    def type(self, line: str) -> None:
        """Type a line and the return key."""
        self._tmux("send-keys", "-l", line)
        self.keys("Enter")

    def keys(self, *names: str) -> None:
        """Press keys by their tmux names: C-c, C-z, Enter."""
        self._tmux("send-keys", *names)

    def resize(self, columns: int, rows: int = 40) -> None:
        """Make the window another size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def resize_at_prompt(self, columns: int, rows: int = 40) -> None:
        """Make the window another size while no command runs, and wait until the terminal knows it: tmux tells it later."""
        self.resize(columns, rows)
        pause, end = threading.Event(), time.monotonic() + PATIENCE
        while self.run("stty size").strip() != f"{rows} {columns}":
            assert time.monotonic() < end, f"the terminal never was {columns} columns wide"
            pause.wait(0.05)

    def text(self, *, history: bool = False) -> str:
        """What stands on the screen; with `history` also what has left it at the top."""
        lines = self._tmux("capture-pane", "-p", *(("-S", "-") if history else ())).split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip("\n")

    def cursor(self) -> tuple[int, int, bool]:
        """Column and row of the cursor, and whether it can be seen."""
        column, row, seen = self._tmux("display", "-p", "#{cursor_x} #{cursor_y} #{cursor_flag}").split()
        return int(column), int(row), seen == "1"

    def wait_for(self, pattern: str) -> str:
        """The screen, as soon as the pattern is on it; `^` and `$` are ends of lines."""
        pause, end = threading.Event(), time.monotonic() + PATIENCE
        while not re.search(pattern, shown := self.text(), re.MULTILINE):
            if time.monotonic() > end:
                raise AssertionError(f"{pattern} never came:\n{shown}")
            pause.wait(0.05)
        return shown

    def run(self, line: str) -> str:
        """Type a command on an empty screen; what it has shown when the next prompt comes."""
        self.clear()
        self.type(line)
        return self.ended()

    def clear(self) -> None:
        """Empty the screen."""
        self.type("clear")
        self.wait_for(r"\A\$\Z")

    def ended(self) -> str:
        """What the last command has shown, when the next prompt comes."""
        shown = self.wait_for(r"\A\$ .+\n(.*\n)*\$\Z")
        return shown.partition("\n")[2].rpartition("\n")[0] if shown.count("\n") > 1 else ""

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the command that the shell waits for."""
        shell = self._tmux("display", "-p", "#{pane_pid}").strip()
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", shell], capture_output=True, text=True, check=True).stdout
        os.kill(int(children.split()[-1]), number)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        command = ["tmux", "-S", str(self._socket), "-u", *arguments]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0 or not check, f"{arguments}: {done.stderr}"
        return done.stdout
