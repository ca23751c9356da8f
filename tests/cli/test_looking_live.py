"""The live view: what it draws, what it writes for that, and how it leaves the terminal."""

import io
import json
import os
import re
import signal
import threading
import time

import pytest

from flowstone.clock import SystemClock
from flowstone.journal.events import Event, Kind
from flowstone.journal.words import lasting_words
from flowstone.testing.clock import ManualClock
from flowstone_cli.clean import cells
from flowstone_cli.progress import Progress
from flowstone_cli.render.live import Live
from flowstone_cli.render.region import Region
from flowstone_cli.terminal import Stream, stream
from support.screens import Screen, needs_tmux

SECOND = 1_000_000
START = 1_795_000_000 * SECOND
WORKFLOWS = """
import asyncio, subprocess, sys, time
from flowstone import Flow, step, workflow

TRIES = []

async def flaky() -> str:
    TRIES.append(1)
    if len(TRIES) == 1:
        raise OSError("upstream busy")
    return "ok"

@step
async def quote(carrier: str) -> str:
    print(f"asking {carrier}")
    subprocess.run(["sh", "-c", f"echo child of {carrier} >&2"], check=True)
    await asyncio.sleep(30)
    return carrier

@workflow
async def quotes(flow: Flow) -> None:
    await flow.do("reserve", flaky, retry_delay="1ms")
    await flow.map("quotes", quote, ["ups", "dhl"])

async def nap() -> None:
    await asyncio.sleep(60)

@workflow
async def naps(flow: Flow) -> None:
    await flow.do("nap", nap)
"""


def window(width: int = 80, *, ascii_only: bool = False) -> Stream:
    return Stream(io.StringIO(), "stderr", terminal=True, color=False, width=width, ascii=ascii_only)


class Journal:
    """Events of a run that are made one after the other."""

    def __init__(self) -> None:
        self.at, self.n = START, 0
        self.live = Live("deploy k7f2qd", "Ctrl-C stops the run, twice at once")
        self.stays = ""
        self.add("run.created", None)

    def add(self, kind: str, step: str | None, *, after: float = 0, attempt: int = 1, **body: object) -> None:
        self.at += round(after * SECOND)
        self.stays += self.live.take(Event(self.n, self.at, kind, step, attempt, json.dumps(body)), window())
        self.n += 1

    def drawn(self, most: int = 12, *, width: int = 80, after: float = 0, said: str = "", ascii_only: bool = False) -> list[str]:
        return self.live.lines(self.at + round(after * SECOND), window(width, ascii_only=ascii_only), most, said)


def test_what_runs_ends_waits_and_is_retried_is_shown_with_its_time():
    run = Journal()
    run.add("step.started", "validate")
    run.add("step.succeeded", "validate", after=0.012)
    run.add("step.started", "reserve stock")
    run.add(
        "step.failed",
        "reserve stock",
        after=0.04,
        error={"type": "OSError", "message": "busy"},
        final=False,
        next_attempt_at=run.at + 1_900_000,
    )
    run.add("sleep.started", "sleep:cool off", wake_at=run.at + 600 * SECOND)
    run.add("gate.opened", "approve:manager", deadline=run.at + 3 * 86_400 * SECOND)
    run.add("step.started", "charge card")
    assert run.drawn(after=0.45) == [
        "deploy k7f2qd                    0.5s   1 done, 1 running, 1 retrying, 1 waiting",
        "✓ validate                     12ms",
        "↻ reserve stock                      try 2 in 1.4s: OSError: busy",
        "◇ sleep: cool off                    due in 10m00s",
        "◆ approve: manager                   waits for an answer, expires in 3d00h",
        "▸ charge card                  0.5s",
        "Ctrl-C stops the run, twice at once",
    ]
    assert run.stays.startswith("↻ reserve stock                40ms  try 1 failed, next in 1.86s: OSError: busy")


def test_a_second_try_says_what_was_wrong_with_the_first():
    run = Journal()
    run.add("step.started", "reserve")
    run.add("step.failed", "reserve", error={"type": "OSError", "message": "busy"}, final=False, next_attempt_at=run.at + 50_000)
    run.add("step.started", "reserve", attempt=2, after=0.05)
    assert "▸ reserve                      0.0s  try 2 (try 1: OSError: busy)" in run.drawn()
    run.add("step.succeeded", "reserve", after=0.1)
    assert "✓ reserve                     150ms  try 2 (try 1: OSError: busy)" in run.drawn(), "with the wait between them"


def test_items_of_a_map_stand_under_one_line_that_counts_them():
    run = Journal()
    for item in ("dhl", "ups", "dpd"):
        run.add("step.started", f"quotes[{item}]")
    run.add("step.succeeded", "quotes[ups]", after=0.07)
    assert run.drawn()[1:5] == [
        "▸ quotes  3×                   0.1s  1 done, 2 running",
        "▸ ├─ quotes[dhl]               0.1s",
        "✓ ├─ quotes[ups]               70ms",
        "▸ └─ quotes[dpd]               0.1s",
    ]


def test_where_there_is_not_room_for_all_what_matters_now_is_shown():
    run = Journal()
    for number in range(1000):
        run.add("step.started", f"s{number}")
        if number % 2:
            run.add("step.succeeded", f"s{number}")
    run.add("step.failed", "s8", error={"type": "OSError", "message": "busy"}, final=True, next_attempt_at=None)
    run.add("gate.opened", "approve:manager", deadline=None)
    lines = run.drawn(8)
    assert len(lines) == 8
    assert lines[0].endswith("500 done, 499 running, 1 waiting, 1 failed")
    assert [line.split()[1] for line in lines[1:6]] == ["s0", "s2", "s4", "s8", "approve:"]
    assert lines[6] == "… 996 more"


@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_line_fits_and_the_height_is_kept(ascii_only):
    run = Journal()
    for number in range(40):
        run.add("step.started", f"quotes[日本語 {number}]")
        run.add("step.started", f"step \x1b[31m {'long ' * number}")
    for width in range(20, 241, 7):
        for most in (1, 2, 3, 4, 5, 8, 16):
            lines = run.drawn(most, width=width, said="│ x", ascii_only=ascii_only)
            assert len(lines) <= most
            assert all(cells(line) <= width and "\x1b" not in line for line in lines)


def test_time_that_goes_on_is_told_ever_more_coarsely():
    told = [lasting_words(round(seconds * SECOND)) for seconds in (0, 0.04, 2.04, 9.96, 10.9, 59.9, 187, 7261)]
    assert told == ["0.0s", "0.0s", "2.0s", "10s", "11s", "1m00s", "3m07s", "2h01m"]


def test_only_lines_that_differ_are_written_and_nothing_if_none_does():
    region = Region()
    region.drawn(["one", "two", "three"], 80)
    assert region.drawn(["one", "two", "three"], 80) == ""
    text = region.drawn(["one", "2", "three"], 80)
    assert "2" in text
    assert "one" not in text
    assert "three" not in text
    assert text.startswith("\x1b[?2026h")
    assert "\x1b[?25" not in text, "the cursor is never hidden, so that kill -9 cannot leave it so"


class Terminal:
    """A pseudo-terminal and all that was written to it."""

    def __init__(self, rows: int = 50, columns: int = 80) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.file = open(theirs, "w")  # noqa: PTH123, SIM115
        self.stream = stream(self.file, "stderr", color="never", env={"TERM": "xterm"})
        self.writes: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def tell(self, text: str) -> None:
        self.writes.append(text)
        self.stream.write(text)

    def _read(self) -> None:
        try:
            while os.read(self.ours, 65536):
                pass
        except OSError:
            return


@pytest.fixture
def live_terminal(monkeypatch):
    for name in ("CI", "ACCESSIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    yield terminal
    terminal.file.close()
    os.close(terminal.ours)


def started(number: int, at: int) -> Event:
    body = {"kind": "step", "name": "tick", "policy": {"max_attempts": 6}, "input": number}
    return Event(number + 1, at, "step.started", f"tick[{number}]", 1, json.dumps(body))


def test_a_thousand_parallel_steps_cost_little(live_terminal):
    clock = SystemClock()
    progress = Progress(live_terminal.stream, live_terminal.tell, clock, quiet=False)
    progress.begin("thousand k7f2qd", "R", [Event(0, clock.now(), "run.created", None, None, "{}")])
    pause = threading.Event()
    progress.observe("R", [started(number, clock.now()) for number in range(1000)])
    pause.wait(0.5)
    cpu, wall, frames = time.process_time(), time.monotonic(), len(live_terminal.writes)
    pause.wait(3)
    share = (time.process_time() - cpu) / (time.monotonic() - wall)
    written = live_terminal.writes[frames:]
    progress.end()
    assert share <= 0.02
    assert len(written) <= 31
    assert max(map(len, (text.encode() for text in written))) <= 1500


def test_a_terminal_that_takes_nothing_does_not_hold_up_the_engine(live_terminal):
    held, entered = threading.Event(), threading.Event()

    def tell(text: str) -> None:
        entered.set()
        held.wait(10)

    progress = Progress(live_terminal.stream, tell, SystemClock(), quiet=False)
    progress.begin("deploy k7f2qd", "R", [])
    progress.observe("R", [started(0, START)])
    assert entered.wait(10)
    begin = time.monotonic()
    for number in range(1, 5001):
        progress.observe("R", [started(number, START)])
        progress.echo("tick", "out", f"line {number}\n")
    assert time.monotonic() - begin < 2
    progress.end()
    held.set()


@pytest.mark.parametrize("env", [{"CI": "1"}, {"TERM": "dumb"}], ids=str)
def test_plain_lines_where_nothing_may_move(project, env):
    shown = project.terminal("run", "gated", **env).out
    assert re.search(r"^\d+\.\d{3} approve:manager waiting expires=", shown, re.MULTILINE)
    assert "\x1b[?2026h" not in shown


def test_after_a_long_silence_a_plain_line_says_that_the_run_is_alive():
    said, alive = [], threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        if " run alive " in text:
            alive.set()

    plain = Stream(io.StringIO(), "stderr", terminal=False, color=False, width=80, ascii=False)
    progress = Progress(plain, tell, ManualClock(), quiet=False, silence=0.05)
    progress.observe("R", [started(number, START) for number in range(12)])
    assert alive.wait(10)
    progress.end()
    line = next(text for text in said if " run alive " in text)
    assert re.fullmatch(r'\d+\.\d{3} run alive running="?tick\[0\],tick\[1\],.*tick\[9\],and 2 more"?\n', line)


def test_a_new_try_begins_a_new_line_of_output():
    said: list[str] = []
    plain = Stream(io.StringIO(), "stderr", terminal=False, color=False, width=80, ascii=False)
    progress = Progress(plain, said.append, ManualClock(), quiet=False)
    progress.echo("build", "out", "no newline")
    failure = {"error": {"type": "OSError", "message": "busy"}, "final": False, "next_attempt_at": START}
    progress.observe("R", [Event(1, START, Kind.STEP_FAILED, "build", 1, json.dumps(failure))])
    progress.echo("build", "out", "again")
    progress.end()
    assert [said[0], said[-1]] == ["no newline\n", "again\n"]


@pytest.fixture
def screen(project):
    (project.root / "workflows" / "live.py").write_text(WORKFLOWS)
    screen = Screen(project.root, rows=30)
    yield screen
    screen.close()


@needs_tmux
@pytest.mark.parametrize("columns", [40, 80, 140])
def test_the_view_on_a_real_terminal(screen, columns):
    screen.resize(columns, 30)
    screen.type("flow run quotes")
    shown = screen.wait_for(r"▸ └─ quotes\[1\] +1\.\ds")
    lines = shown.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("quotes "))
    view = lines[start:]
    assert re.fullmatch(r"quotes \w{6} +\d\.\ds   1 done, 2 running", view[0])
    assert re.fullmatch(r"✓ reserve +<?\d+ms  try 2 \(tr.*", view[1])
    assert re.fullmatch(r"▸ quotes  2× +\d\.\ds  2 running", view[2])
    assert view[5].startswith("│ ")
    assert view[6] == "Ctrl-C stops the run, twice at once"
    assert len(view) == 7 <= 10
    assert lines[start - 4].startswith("↻ reserve ")
    assert sum("child of" in line for line in lines) == 2
    column, row, seen = screen.cursor()
    assert (column, row, seen) == (0, len(lines), True)
    screen.keys("C-c")
    shown = screen.wait_for(r"next +flow resume")
    assert "Ctrl-C stops" not in shown
    assert screen.cursor()[2]


@needs_tmux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_the_cursor_is_where_it_should_be_after_every_ending(screen, number):
    screen.type("flow run naps")
    screen.wait_for(r"▸ nap +\d\.\ds")
    screen.kill(number)
    shown = screen.wait_for(r"^\$\Z")
    assert screen.cursor() == (2, len(shown.splitlines()) - 1, True)
    assert ("Ctrl-C stops" in shown) == (number == signal.SIGKILL)


@needs_tmux
def test_the_view_survives_another_window_and_a_stop(screen):
    screen.type("flow run naps")
    screen.wait_for(r"▸ nap +\d\.\ds")
    screen.resize(30, 30)
    screen.wait_for(r"^naps \w{6} +\d\.\ds   1 running$")
    screen.resize(100, 30)
    shown = screen.wait_for(r"^naps \w{6} {50,}\d+\.?\d?s   1 running$")
    assert shown.count("▸ nap") == 1
    screen.keys("C-z")
    screen.wait_for(r"Stopped.*\n\$\Z")
    screen.type("echo in between")
    screen.wait_for(r"^in between\n\$\Z")
    screen.type("fg")
    shown = screen.wait_for(r"in between\n\$ fg\nflow run naps.*\nnaps .*\n▸ nap +\d+\.?\d?s\nCtrl-C stops.*\Z")
    assert (shown.count("in between"), shown.count("▸ nap")) == (2, 1)
    screen.keys("C-c", "C-c")
    screen.wait_for(r"^\$\Z")


@needs_tmux
def test_watching_shows_the_same_and_leaves_the_run_alone(screen, project):
    path = project.root / "word"
    os.mkfifo(path)
    run = project.start("run", "holds", "--set-str", f"path={path}")
    writer = os.open(path, os.O_WRONLY)  # returns when the step has opened it
    screen.type("flow watch @last; echo code $?")
    shown = screen.wait_for(r"▸ hold +\d\.\ds")
    assert "Ctrl-C stops watching; the run goes on" in shown
    screen.keys("C-c")
    assert "goes on: flow watch" in screen.wait_for(r"^code 130$")
    screen.clear()
    screen.type("flow watch @last --exit-status; echo code $?")
    screen.wait_for(r"▸ hold +\d+")
    os.close(writer)
    assert re.search(r"✓ completed  holds \w{6} ", screen.wait_for(r"^code 0$"))
    run.communicate(timeout=30)
    assert run.returncode == 0


def test_watching_a_run_that_has_ended_tells_how(project):
    run = project.run_id("fails")
    result = project.flow("watch", run)
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("✗ failed   fails ")
    assert project.flow("watch", run, "--exit-status").code == 1
    assert project.flow("watch", run, "--json").document["phase"] == "failed"
    assert project.flow("watch", run, "-q").err == ""


def test_watching_imports_nothing_heavy(shared):
    result = shared.flow("watch", "@last", python=("-X", "importtime"))
    loaded = {line.rpartition("|")[2].strip() for line in result.err.splitlines() if line.startswith("import time:")}
    assert not loaded & {"pydantic", "pydantic_core", "sqlite_utils", "asyncio", "flowstone.engine", "rich", "jsonschema"}
