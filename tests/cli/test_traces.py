"""Where an error was raised is shown with -v, by every verb that tells of it, and only then."""

import pytest

CODE = """
from pathlib import Path
from flowstone import Flow, workflow
from .helper import deep

def top() -> None:
    print("about to fail")
    deep(2)

def undo(done) -> None:
    deep(0)

@workflow
async def by_step(flow: Flow) -> None:
    await flow.do("top", top)

@workflow
async def by_body(flow: Flow) -> None:
    deep(1)

@workflow
async def by_undo(flow: Flow) -> None:
    await flow.do("fine", print, undo=undo)
    await flow.do("top", top)

@workflow
async def behind_gate(flow: Flow) -> None:
    await flow.approval("go")
    await flow.suspend("now")
    await flow.do("top", top)

@workflow
async def retried(flow: Flow) -> None:
    await flow.do("top", top, retries=3, retry_delay="1h")
"""
HELPER = "def deep(n):\n    if n:\n        return deep(n - 1)\n    raise ValueError('no \\x1b[31m good')\n"


@pytest.fixture
def deep(project):
    (project.root / "workflows" / "deep.py").write_text(CODE)
    (project.root / "workflows" / "helper.py").write_text(HELPER)
    return project


def shows(text):
    assert "\x1b[31m" not in text
    return "Traceback (most recent call last)" in text and 'helper.py", line 4, in deep' in text


@pytest.mark.parametrize("workflow", ["by_step", "by_body", "by_undo"])
def test_run_retry_and_status_show_it(deep, workflow):
    assert not shows(deep.flow("run", workflow).err)
    assert shows(deep.flow("run", workflow, "-v").err)
    assert shows(deep.flow("retry", "@last", "-v").err)
    for look in (deep.flow, deep.terminal):
        assert shows(look("status", "@last", "-v").out)
        assert not shows(look("status", "@last").out)


def test_both_errors_of_a_failed_undo_are_shown(deep):
    assert deep.flow("run", "by_undo", "-v").err.count("Traceback (most recent call last)") == 2


def test_what_is_to_be_attempted_again_shows_it_too(deep):
    assert shows(deep.flow("run", "retried", "--no-wait", "-v").err)
    assert shows(deep.terminal("status", "@last", "-v").out)


def test_approve_and_resume_show_it(deep):
    deep.flow("run", "behind_gate")
    assert deep.flow("approve", "@last", "-v").code == 8
    assert shows(deep.flow("resume", "@last", "-v").err)
    deep.flow("run", "by_step")


def test_logs_show_it_after_what_the_attempt_has_printed(deep):
    deep.flow("run", "by_step")
    for look in (deep.flow, deep.terminal):
        shown = look("logs", "@last", "-v").out
        assert shows(shown)
        assert shown.index("about to fail") < shown.index("Traceback")
        assert not shows(look("logs", "@last").out)
    lines = deep.flow("logs", "@last", "top", "-v").out.splitlines()
    assert lines[:2] == ["about to fail", "Traceback (most recent call last):"]
    document = deep.flow("logs", "@last", "-v", "--json").document
    assert document["lines"][1]["text"] == "Traceback (most recent call last):"
