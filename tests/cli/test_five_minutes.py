"""The first five minutes, typed on a real terminal of 80 columns and compared line by line with five_minutes.txt."""

import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flowstone_cli.clean import cells
from support.screens import ROOT, Screen, needs_tmux

STORED = Path(__file__).with_name("five_minutes.txt")
DEPLOY = '''\
import shutil, time
from flowstone import Flow, workflow

def build(version: str) -> str:
    time.sleep(5)
    open("app.txt", "w").write(version)
    return "app.txt"

@workflow
async def deploy(flow: Flow, version: str) -> str:
    """Build, ask, publish."""
    built = await flow.do("build", build, version)
    answer = await flow.approval("publish", expiry="2d")
    if not answer.approved:
        flow.cancel("not approved")
    return await flow.do("publish", shutil.copy, built, "live/app.txt")
'''
JQ = f"""\
#!{sys.executable}
import json, sys
run = json.load(sys.stdin)
print(run["phase"], run["next"], sep="\\n")
"""
TIMES = re.compile(r" *\+?\b\d+(\.\d+)?( ms|ms|s|m\d\ds|h\d\dm|d\d\dh)(?=\W|$)")


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    (tmp_path / "workflows").mkdir()
    shutil.copy(ROOT / "workflows" / "hello.py", tmp_path / "workflows")
    (tmp_path / "workflows" / "deploy.py").write_text(DEPLOY)
    screen = Screen(tmp_path)
    if shutil.which("jq") is None:  # all that the session wants of it
        (tmp_path / "bin" / "jq").write_text(JQ)
        (tmp_path / "bin" / "jq").chmod(0o755)
    yield screen
    screen.close()


def masked(text: str, ids: list[str]) -> str:
    """Without what differs from day to day: ids, process numbers, instants, times, the cells of bars."""
    for run_id in ids:
        text = re.sub(rf"\b{run_id[:6]}[0-9a-z]{{0,6}}\b", "RUN", text)
    text = re.sub(r"pid \d+", "pid PID", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?Z", "INSTANT", text)
    text = re.sub(r"\b\d+s ago", "AGO", text)
    text = re.sub(r"^ {30,}.*[0─].*$", "AXIS", text, flags=re.MULTILINE)
    text = re.sub(r"^([✓✗◆!] .{24} +[\d.]+\w+) .*$", r"\1 BARS", text, flags=re.MULTILINE)
    text = re.sub(r"  \d cuts? hides? \S+", "", text)
    return TIMES.sub(" TIME", text)


def run_ids(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / ".flow" / "flow.db")) as connection:
        return [row[0] for row in connection.execute("select id from runs")]


@needs_tmux
def test_the_first_five_minutes_are_as_told(screen: Screen, tmp_path: Path) -> None:
    played: list[str] = []

    def note(command: str, shown: str) -> None:
        for line in shown.splitlines():
            assert cells(line) <= 80, line
        played.append(f"$ {command}\n{shown}")

    def play(command: str) -> str:
        shown = screen.run(command)
        note(command, shown)
        return shown

    play("flow run hello --set name=Ana")
    play("""echo '{"verson": "1.4"}' > v.json; flow run deploy --input v.json""")
    play("""echo '{"version": "1.4"}' > v.json""")
    screen.clear()
    screen.type("flow run deploy --input v.json")
    screen.wait_for(r"▸ build +2\.\ds")
    screen.kill()
    note("flow run deploy --input v.json", screen.ended())
    shown = play("flow status @last")
    found = re.search(r"flow resume (\w+)", shown)
    assert found is not None
    run = found[1]
    play(f"flow resume {run}")
    play(f'flow approve {run} "looks fine"')
    play(f'flow approve {run} publish --comment "looks fine"')
    play(f"mkdir live && flow retry {run}")
    play(f"flow timeline {run}")
    play(f"flow state {run} --at 9")
    play("flow run deploy --input v.json --json 2>/dev/null | jq -r '.phase, .next'")
    text = masked("\n".join(one.rstrip("\n") for one in played), run_ids(tmp_path)) + "\n"
    if os.environ.get("FLOW_STORE_TEXT"):
        STORED.write_text(text)
    assert text.splitlines() == STORED.read_text().splitlines()
