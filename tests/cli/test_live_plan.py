"""The live view: what the run's plan still has ahead, and the steps of child runs under theirs."""

import io
import json
import re

from flowstone.journal.events import Event
from flowstone_cli.clean import cells
from flowstone_cli.render.ahead import Ahead
from flowstone_cli.render.live import Live
from flowstone_cli.terminal import Stream
from support.screens import Screen, needs_tmux

SECOND = 1_000_000
START = 1_795_000_000 * SECOND
IF_BIG = {"kind": "if", "text": "order.total > 500"}
WORKFLOWS = """
import asyncio
from flowstone import Flow, workflow

async def hold(path: str) -> None:
    await asyncio.to_thread(lambda: open(path).read())

def quick() -> None: ...

@workflow
async def inner(flow: Flow, path: str) -> None:
    await flow.do("score", quick)
    await flow.do("decide", hold, path)

@workflow
async def outer(flow: Flow, path: str, big: bool = False) -> None:
    await flow.do("validate", quick)
    await flow.do("fraud check", inner, path)
    if big:
        await flow.approval("manager")
    await flow.map("quotes", quick, [])
    await flow.do("charge card", quick)
"""


def entry(name, kind="step", *within, key=None):
    return {"key": key, "name": name, "kind": kind, "function": "f", "certain": not within, "in": list(within)}


class Run:
    """Events of a run, and of child runs, that are made one after the other."""

    def __init__(self, *plan):
        self.at, self.n = START, 0
        self.live = Live("order k7f2qd", "Ctrl-C stops the run, twice at once", "ROOT")
        self.add("run.created", None, plan=list(plan), deterministic=True)

    def add(self, kind, step, *, run="ROOT", after=0.0, attempt=1, **body):
        self.at += round(after * SECOND)
        self.live.take(Event(self.n, self.at, kind, step, attempt, json.dumps(body)), window(), run)
        self.n += 1
        return self

    def ran(self, *steps, run="ROOT"):
        for step in steps:
            self.add("step.started", step, run=run).add("step.succeeded", step, run=run)
        return self

    def drawn(self, most=20, width=80, *, ascii_only=False):
        return self.live.lines(self.at, window(width, ascii_only=ascii_only), most, "")


def window(width=80, *, ascii_only=False):
    return Stream(io.StringIO(), "stderr", terminal=True, color=False, width=width, ascii=ascii_only)


def test_what_the_plan_has_ahead_is_drawn_grey_under_what_has_been_reached():
    run = Run(
        entry("validate", key="validate"),
        entry("quotes", "map"),
        entry("manager", "approval", IF_BIG, key="approve:manager"),
        entry("pack {…}", "step", {"kind": "loop", "text": "for box in boxes"}),
        entry("cool off", "sleep", key="sleep:cool off"),
        entry("charge card", key="charge card"),
    )
    run.ran("validate").add("step.started", "quotes[dhl]").add("step.started", "quotes[ups]")
    assert run.drawn()[0].endswith("1 done, 2 running")
    assert run.drawn()[1:] == [
        "✓ validate                      0ms",
        "▸ quotes  2×                   0.0s  2 running",
        "▸ ├─ quotes[dhl]               0.0s",
        "▸ └─ quotes[ups]               0.0s",
        "· approve: manager                   planned, only if order.total > 500",
        "· pack {…}                           planned, for box in boxes",
        "· sleep: cool off                    planned",
        "· charge card                        planned",
        "Ctrl-C stops the run, twice at once",
    ]
    assert "".join(run.drawn(ascii_only=True)).isascii()


def labels(run):
    return [line.split("  ")[0] for line in run.drawn() if line.startswith("· ")]


def test_what_stands_under_a_condition_goes_away_once_the_run_is_past_it():
    run = Run(entry("a", key="a"), entry("b", "step", IF_BIG, key="b"), entry("c", key="c"), entry("d", key="d"))
    assert labels(run.ran("a")) == ["· b", "· c", "· d"]
    assert labels(run.ran("c")) == ["· d"]


def test_branches_that_run_beside_each_other_keep_what_is_ahead_of_each():
    beside = {"kind": "parallel", "text": "gather"}
    run = Run(entry("a", "step", beside), entry("b", "step", beside, IF_BIG), entry("c", "step", beside), entry("d", key="d"))
    assert labels(run.ran("[0]/a", "[1]/c")) == ["· b", "· d"]


def test_nothing_is_ahead_of_a_run_that_is_cancelled_or_undone():
    plan = entry("a", key="a"), entry("b", key="b")
    assert labels(Run(*plan).ran("a").add("run.cancelling", None)) == []
    assert labels(Run(*plan).ran("a").add("step.started", "a:undo", cause={"status": "failed"})) == []
    assert labels(Run(*plan).ran("a").add("step.started", "a:undo")) == ["· b"]  # of the loser of a race


def test_a_plan_of_another_version_takes_the_place_of_the_first():
    run = Run(entry("a", key="a"), entry("b", key="b")).ran("a")
    run.add("run.migrated", None, plan=[entry("a", key="a"), entry("c", key="c")], deterministic=True)
    assert labels(run) == ["· c"]


def test_a_name_that_only_the_run_knows_is_reached_by_any_that_fits():
    ahead = Ahead([entry("pack {…}", "step"), entry("wait {…}", "sleep"), entry("x", "state"), entry("?", "unknown")])
    assert [one.label for one in ahead.coming] == ["pack {…}", "sleep: wait {…}"]
    ahead.reached("pack 7#1")
    ahead.reached("sleep:wait a%2Fb")
    assert ahead.coming == []


def test_a_long_plan_is_folded_and_never_takes_the_room_of_what_runs():
    run = Run(*(entry(f"s{number}", key=f"s{number}") for number in range(1000))).ran(*(f"s{number}" for number in range(500)))
    run.add("step.started", "s500")
    for most in range(1, 20):
        lines = run.drawn(most)
        assert len(lines) <= most
        assert any(line.startswith("▸ s500 ") for line in lines) or most < 2
    shown = run.drawn(12)
    assert [line.split()[1] for line in shown[1:-2]] == [f"s{number}" for number in range(495, 504)]
    assert shown[-2] == "… 495 more, 496 planned"


def test_steps_of_child_runs_stand_under_theirs_until_it_has_ended():
    run = Run(entry("fraud check", "child", key="fraud check"), entry("ship", key="ship"))
    run.add("step.started", "fraud check").add("child.started", "fraud check", child="m3w8tazq0d5n")
    run.ran("score", run="m3w8tazq0d5n").add("step.started", "ask", run="m3w8tazq0d5n")
    run.add("child.started", "ask", run="m3w8tazq0d5n", child="q4t9hzm2c8rd").add("step.started", "score", run="q4t9hzm2c8rd")
    run.add("step.started", "beside")
    assert [line.rstrip() for line in run.drawn()[1:-1]] == [
        "▸ fraud check                  0.0s  → m3w8ta",
        "✓ ├─ score                      0ms",
        "▸ └─ ask                       0.0s  → q4t9hz",
        "▸   └─ score                   0.0s",
        "▸ beside                       0.0s",
        "· ship                               planned",
    ]
    assert run.drawn()[0].endswith("2 running"), "steps of child runs are counted there"
    run.add("step.succeeded", "fraud check", after=1)
    assert [line.split()[1] for line in run.drawn()[1:-1]] == ["fraud", "beside", "ship"]
    run.add("step.succeeded", "score", run="q4t9hzm2c8rd")  # told late: nobody looks there any more
    assert run.live.children == []


def test_a_step_of_a_child_run_is_never_shown_without_the_one_it_stands_under():
    run = Run()
    for number in range(30):
        run.add("step.started", f"ask[{number}]").add("child.started", f"ask[{number}]", child=f"child{number:07}")
        run.add("step.started", "score", run=f"child{number:07}")
    run.add("gate.opened", "approve:manager", run="child0000007", deadline=None)
    for most in range(4, 30):
        lines = run.drawn(most)
        assert len(lines) <= most
        if any("approve" in line for line in lines):
            assert any("ask[7]" in line for line in lines)
        assert all(cells(line) <= 80 for line in lines)


def test_counts_agree_with_the_status_gates_and_sleeps_and_undos_are_no_steps():
    run = Run().ran("a", "b").add("gate.opened", "approve:m", deadline=None)
    run.add("gate.closed", "approve:m", outcome="approved").add("state.set", "state:x")
    run.add("sleep.started", "sleep:x", wake_at=run.at).add("step.succeeded", "sleep:x").ran("a:undo")
    assert run.drawn()[0].endswith("   2 done")


@needs_tmux
def test_the_plan_and_a_child_run_on_a_real_terminal(project):
    import os

    (project.root / "workflows" / "more.py").write_text(WORKFLOWS)
    os.mkfifo(project.root / "fifo")
    screen = Screen(project.root, columns=80, rows=40)
    try:
        screen.type("flow run outer --set path=fifo")
        writer = os.open(project.root / "fifo", os.O_WRONLY)  # returns once the step reads
        shown = screen.wait_for(r"└─ decide +\d+\.\ds")
        view = shown[shown.index("outer ", shown.index("\n")) :].splitlines()
        assert [re.sub(r" +(<?\d+ms|\d+\.?\d?s)", "", line).rstrip() for line in view[1:]] == [
            "✓ validate",
            f"▸ fraud check  → {view[2][-6:]}",
            "✓ ├─ score",
            "▸ └─ decide",
            "· approve: manager                   planned, only if big",
            "· quotes                             planned",
            "· charge card                        planned",
            "Ctrl-C stops the run, twice at once",
        ]
        assert view[0].endswith("1 done, 1 running")
        os.close(writer)
        assert "3 steps done" in screen.wait_for(r"completed  outer .*done")
    finally:
        screen.close()


def test_plain_lines_name_the_run_of_a_childs_steps(project):
    (project.root / "workflows" / "more.py").write_text(WORKFLOWS)
    (project.root / "empty").write_text("")
    shown = project.flow("run", "outer", "--set", "path=empty").err
    child = re.search(r"fraud check started child=(\w{12})", shown)
    assert child is not None, shown
    assert re.search(rf"score succeeded ms=\d+ run={child[1]}$", shown, re.MULTILINE)
    assert not re.search(r"validate .*run=", shown)
