"""README.md and engine/README.md are true: the session is typed on a terminal and compared, tables and names are the code's."""

import ast
import os
import pty
import re
import shlex
import shutil
import sqlite3
import struct
import subprocess
import sys
import termios
from contextlib import closing, suppress
from fcntl import ioctl
from pathlib import Path
from typing import NamedTuple

import pytest

from flowstone.journal.states import TRANSITIONS
from flowstone_cli import exit_codes
from flowstone_cli.app import VERBS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAP = (ROOT / "engine" / "README.md").read_text(encoding="utf-8")


class Typed(NamedTuple):
    """A command of a console block, what the README shows after it, and the exit code that it notes."""

    command: str
    shown: str
    code: int


def console_blocks() -> list[str]:
    return re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def typed(block: str) -> list[Typed]:
    """The commands of a block. A final ` # exit N` in what is shown is the README's own note."""
    found = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        note = re.search(r"[ ]*# exit (\d+)$", shown.rstrip("\n"))
        if note:
            shown = shown.rstrip("\n")[: note.start()]
        found.append(Typed(command, shown, int(note[1]) if note else 0))
    return found


def without_installing(command: str) -> str:
    """The part of a command that .ci/run does not prove better: what comes after the installation."""
    return re.sub(r"^(python3 -m venv .* pip install \S+ \S+ && |uv run )", "", command)


class Terminal:
    """A terminal in a project's folder, where commands are typed one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "workflows", folder / "workflows", ignore=shutil.ignore_patterns("__pycache__"))
        (bin_ := folder / "bin").mkdir()
        paths = os.pathsep.join(str(ROOT / part) for part in ("engine", "cli"))
        flow = f'#!/bin/sh\nPYTHONPATH={shlex.quote(paths)} exec {shlex.quote(sys.executable)} -m flowstone_cli "$@"\n'
        (bin_ / "flow").write_text(flow)
        (bin_ / "flow").chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLOW_", "XDG_")) and name != "CI"}
        self.environment = {**kept, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "TERM": "xterm", "NO_COLOR": "1"}

    def type(self, command: str) -> tuple[str, int]:
        """What stands on the screen after the command, and its exit code."""
        ours, its = pty.openpty()
        ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
        process = subprocess.Popen(
            ["bash", "-c", f"{command}; exit $?"], cwd=self.folder, env=self.environment, stdin=its, stdout=its, stderr=its
        )
        os.close(its)
        written = b""
        with suppress(OSError):  # EIO: all who could write there have ended
            while piece := os.read(ours, 4096):
                written += piece
        os.close(ours)
        code = process.wait(timeout=60)
        return on_screen(written.decode()), code

    def run_ids(self) -> list[str]:
        """The runs of the folder, oldest first."""
        db = self.folder / ".flow" / "flow.db"
        if not db.exists():
            return []
        with closing(sqlite3.connect(db)) as connection:
            return [row[0] for row in connection.execute("select id from runs order by seq")]


def on_screen(written: str) -> str:
    """What a terminal shows in the end: lines are drawn over where the cursor goes back."""
    lines: list[str] = [""]
    row = column = 0
    for text, control, amount, letter in re.findall(r"([^\r\n\x1b]+)|([\r\n])|\x1b\[([?\d;]*)([A-Za-z])", written):
        if text:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
            column += len(text)
        elif control == "\n":  # the terminal writes \r before it
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif control == "\r" or letter == "G":
            column = 0
        elif letter == "A":
            row = max(0, row - int(amount or 1))
        elif letter == "B":
            row = min(len(lines) - 1, row + int(amount or 1))
        elif letter in ("K", "J"):
            lines[row] = "" if amount == "2" else lines[row][:column]
            if letter == "J":
                del lines[row + 1 :]
        else:
            assert letter in "mhl", f"this test knows no ESC [{amount}{letter}"
    return "\n".join(lines)


def shown_ids() -> list[str]:
    """The run ids of the README, in the order in which they appear; short ones and whole ones are one."""
    found: list[str] = []
    for run_id in re.findall(r"(?:hello|backup|deploy) ([a-hjkmnp-tv-z][0-9a-hjkmnp-tv-z]{5,11})\b", "".join(console_blocks())):
        known = [one for one in found if one.startswith(run_id) or run_id.startswith(one)]
        if not known:
            found.append(run_id)
        elif len(run_id) > len(known[0]):
            found[found.index(known[0])] = run_id
    return found


def masked(text: str, ids: list[str], folder: str) -> str:
    """What is compared: without ids, times, sizes, and the cells of bars."""
    for run_id in ids:
        text = re.sub(rf"\b{run_id[:6]}[0-9a-z]{{0,6}}\b", "RUN", text)
    text = text.replace(folder, "FOLDER")
    text = re.sub(r"^(▸ \w+).*Killed.*$", r"\1\nKilled", text, flags=re.MULTILINE)
    text = re.sub(r"^(▸ \w+) .*$", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^.*\bKilled\b.*$", "Killed", text, flags=re.MULTILINE)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?Z|\d{8}-\d{6}", "INSTANT", text)
    text = re.sub(r"pid \d+", "pid PID", text)
    text = re.sub(r"by \w+$", "by USER", text, flags=re.MULTILINE)
    text = re.sub(r'"bytes": \d+', '"bytes": SIZE', text)
    text = re.sub(r"  \d+ cuts? hides? \S+", "", text)
    text = re.sub(r"\+?\b\d+(\.\d+)?( ms|ms|s|m\d+s|d\d+h|d|h\d*m?)( ago)?(?![\w.])", "TIME", text)
    cells = "█▏▎▍▌▋▊▉▐─┬┄│/!·✓✗"
    bars = re.compile(rf"[{cells}][{cells} ]*( \w+)?$")
    lines = (bars.sub("", line.rstrip()).split() for line in text.splitlines())
    axis = re.compile(r"(0|TIME|/+|[─┬ ]+|\+)+")
    return "\n".join(" ".join(line) for line in lines if line and not axis.fullmatch(" ".join(line)))


def test_what_the_readme_shows_is_what_the_terminal_shows(tmp_path):
    terminal = Terminal(tmp_path)
    ids = shown_ids()
    for name, content, block in re.findall(
        r"(?:`(workflows/\w+\.py)`:\n\n```python\n(.*?)^```$)|(?:^```console\n(.*?)^```$)", README, re.MULTILINE | re.DOTALL
    ):
        if name:
            (tmp_path / name).write_text(content, encoding="utf-8")
        for one in typed(block):
            command = without_installing(one.command)
            if command.startswith(("pip ", "pytest")):  # .ci/run types these
                continue
            for run_id, real in zip(ids, terminal.run_ids(), strict=False):
                command = re.sub(rf"\b{run_id[:6]}\b", real, command)
            shown, code = terminal.type(command)
            expected = masked(one.shown, ids, "/home/ana/flowstone")
            assert masked(shown, terminal.run_ids(), str(tmp_path)) == expected, f"$ {command}\n{shown}"
            assert code in ((137, -9) if "Killed" in one.shown else (one.code,)), f"$ {command}\n{shown}"


def test_the_example_of_writing_workflows_runs(tmp_path):
    terminal = Terminal(tmp_path)
    section = README.partition("\n## Writing workflows\n")[2]
    (tmp_path / "workflows" / "fulfil.py").write_text(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], encoding="utf-8")
    shown, code = terminal.type("""flow run fulfil --set id=A-1 --set 'parts=["bolt", "nut"]' --no-wait""")
    assert code == 8, shown
    assert "2 steps done" in shown
    assert "cool off" in shown


def test_the_graph_of_writing_workflows_runs(tmp_path):
    terminal = Terminal(tmp_path)
    section = README.partition("\n## Writing workflows\n")[2]
    (tmp_path / "workflows" / "fulfil.py").write_text(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], encoding="utf-8")
    name, graph = re.search(r"`(workflows/\w+)\.graph\.toml`:\n\n```toml\n(.*?)```", section, re.DOTALL).groups()
    (tmp_path / f"{name}.graph.toml").write_text(graph, encoding="utf-8")
    shown, code = terminal.type("""flow run restock --set 'parts=["bolt", "nut"]'""")
    assert code == 8, shown
    assert "[8, 8] reserved: enough?" in shown
    shown, code = terminal.type("flow approve @last")
    assert code == 0, shown


def test_every_line_that_we_draw_fits_80_cells():
    lines = [line for block in console_blocks() for line in block.splitlines()]
    assert [line for line in lines if len(line) > 80 and not line.startswith(("$", '  "'))] == []


def test_the_first_command_runs_the_main_job_and_is_given_for_pip_and_for_uv():
    first, second = (one.command for one in typed(console_blocks()[0]))
    assert without_installing(first) == without_installing(second) == "flow run backup --input workflows/backup.json"


def table(heading: str) -> list[list[str]]:
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)[1:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows if not row.startswith("-")]


def test_the_exit_codes_are_those_of_the_code():
    assert table("Exit codes") == [[str(code), name, when] for code, name, when in exit_codes.TABLE]


def test_every_verb_is_in_the_table_of_commands_and_no_other():
    assert [re.match(r"`flow ([a-z]+)", row[0])[1] for row in table("Commands")] == list(VERBS)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_every_link_leads_to_a_file(path):
    assert (ROOT / path).exists()


def functions_of(path: Path) -> set[str]:
    """`f`, `C`, `C.m` for everything defined at the top of a file."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{one.name}" for one in inner}
    return found


def traced() -> set[tuple[str, str]]:
    """What engine/README.md says lies where: `file.py` `name`."""
    after = re.findall(r"`([\w/]+\.py)` `(\w+(?:\.\w+)?)`", MAP)
    before = [(path, name) for name, path in re.findall(r"`(\w+(?:\.\w+)?)` in `([\w/]+\.py)`", MAP)]
    return {(path, name) for path, name in [*after, *before] if not name.endswith(".py") and name.upper() != name}


def place(path: str) -> Path:
    roots = (ROOT, ROOT / "engine" / "flowstone", ROOT / "cli" / "flowstone_cli")
    return next((root / path for root in roots if (root / path).is_file()), ROOT / path)


@pytest.mark.parametrize(("path", "name"), sorted(traced()))
def test_what_the_map_of_the_engine_names_is_where_it_says(path, name):
    names = functions_of(place(path))
    assert name in names | {one.partition(".")[2] for one in names}


def test_the_states_in_the_map_are_those_of_the_code():
    rows = re.findall(r"^\| (\w+) \| ([\w, ]+) \| (\w+) \|$", MAP.partition("## States of a run")[2], re.MULTILINE)
    assert [row for row in rows if row[0] != "verb"] == [
        (verb, ", ".join(sorted(before)), after) for verb, (before, after) in TRANSITIONS.items()
    ]


def test_the_map_names_every_room():
    inside = (ROOT / "engine" / "flowstone").iterdir()
    rooms = {path.name for path in inside if path.suffix == ".py" or any(path.glob("**/*.py"))} - {"__init__.py"}
    named = set(re.findall(r"`(\w+(?:/|\.py))`", MAP.partition("## Rooms")[2].partition("\n## ")[0]))
    assert {f"{room}/" if "." not in room else room for room in rooms} - named == set()
