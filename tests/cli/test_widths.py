"""Drawings fit every window from 20 to 240 columns, with ids whole."""

import io
import re

import pytest

from flowstone.journal.documents import runs_document
from flowstone.journal.state_at import state_at
from flowstone.journal.timeline import spans
from flowstone.ports import Filter
from flowstone_cli.clean import cells
from flowstone_cli.options import Options
from flowstone_cli.render import events, outcome, runs, state, status, timeline
from flowstone_cli.session import Session
from flowstone_cli.terminal import Stream

WIDTHS = range(20, 241)


def window(width: int, *, ascii_only: bool = False) -> Stream:
    return Stream(io.StringIO(), "stdout", terminal=True, color=False, width=width, ascii=ascii_only)


def fits(text: str, width: int) -> None:
    for line in text.splitlines():
        assert cells(line) <= width, (width, line)
        assert line == line.rstrip()


@pytest.fixture
def session(shared, monkeypatch):
    monkeypatch.chdir(shared.root)
    session = Session(Options(), [])
    yield session
    session.close()


@pytest.mark.parametrize("workflow", ["hello", "gated", "sleeps", "fails", "pauses"])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_drawing_of_a_run_fits(session, workflow, ascii_only):
    [row] = session.store().runs(Filter(workflow=workflow))
    for width in WIDTHS:
        stream = window(width, ascii_only=ascii_only)
        view = session.view(row, stream)
        card = status.people(view, stream)
        drawn = timeline.people(view, spans(view.events), {}, stream, timeline.Look())
        for text in (
            card,
            drawn,
            outcome.block(view, stream),
            events.people(view.events, stream),
            state.people(state_at(row, view.events, row.events - 1), row.workflow, view.id, view.events, stream),
            state.people(state_at(row, view.events, 0), row.workflow, view.id, view.events, stream, pointer=True),
        ):
            fits(text, width)
            assert not ascii_only or "".join(char for char in text if char not in "日本語").isascii(), text
        assert row.id in card
        assert view.id in drawn


def test_the_table_of_runs_fits(session):
    rows = session.store().runs(Filter())
    now = session.clock.now()
    listed = runs_document([(row, session.life(row)) for row in rows], now=now, next=None)["runs"]
    for width in WIDTHS:
        text = runs.people(listed, rows, window(width), now=now, total=len(rows), id_length=6)
        fits(text, width)
        assert all(row.id[:6] in text for row in rows)


def test_a_terminal_gets_its_own_width(shared):
    for columns in (20, 40, 80, 140):
        for arguments in (("runs",), ("status", "@last:fails"), ("timeline", "@last:fails")):
            fits(shared.terminal(*arguments, columns=columns, NO_COLOR="1").out, columns)


def test_a_narrow_window_loses_nothing_that_one_has_to_know(shared):
    shown = shared.terminal("status", "@last:gated", columns=40, NO_COLOR="1").out
    fits(shown, 40)
    told = " ".join(shown.split())
    for said in ("expires in 2d00h (", "@last:gated is ", "approve: manager, 2d left", "0 steps done", "by ana"):
        assert said in told
    failed = " ".join(shared.terminal("status", "@last:fails", columns=40, NO_COLOR="1").out.split())
    assert "not retried, workflows/examples.py:" in failed
    assert "ana on " in shared.terminal("audit", columns=40, NO_COLOR="1").out
    changed = shared.terminal("diff", "@last:gated@1", "@last:gated", columns=40, NO_COLOR="1").out
    assert '~ phase\n      "running" → "waiting"\n' in changed or '~ phase        "running" → "waiting"\n' in changed
    for arguments in (
        ("doctor",),
        ("help",),
        ("help", "run"),
        ("check",),
        ("show", "hello"),
        ("state", "@last:gated", "--at", "2"),
    ):
        for line in shared.terminal(*arguments, columns=40, NO_COLOR="1").out.splitlines():
            assert cells(line) <= 40 or "/" in line or line.startswith("Options of every verb"), line


def test_a_command_to_type_can_be_copied_from_the_narrowest_window(shared):
    for columns in range(20, 81, 4):
        shown = shared.terminal("status", "@last:gated", columns=columns, NO_COLOR="1").out
        typed = re.search(r"^  next\s+(flow(?:.*\\\n)*.*)$", shown, re.MULTILINE)
        assert typed is not None, shown
        assert re.fullmatch(r"flow approve \w{6} manager", " ".join(typed[1].replace("\\\n", " ").split()))
