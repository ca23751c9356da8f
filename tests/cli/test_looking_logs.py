"""`flow logs`: what steps have printed, whole, filtered, followed."""

import json
import os

import pytest

from support.screens import Screen, needs_tmux

TALKS = """
import asyncio, subprocess, sys
from flowstone import Flow, step, workflow

TRIES = []

def talk(name: str) -> None:
    TRIES.append(name)
    print(f"{name} one")
    print("to stderr", file=sys.stderr)
    print(f"{name} two", end="")
    if len(TRIES) == 1:
        raise OSError("busy")

@workflow
async def talks(flow: Flow) -> None:
    flow.log.info("from the body")
    await flow.do("first", talk, "ana", retry_delay="1ms")
    await flow.do("second", talk, "\\x1b[31mbob")

@workflow
async def children(flow: Flow) -> None:
    await flow.do("spawn", spawn)

def spawn() -> None:
    subprocess.run(["sh", "-c", "echo out of a child; echo err of a child >&2"], check=True)

@step
async def quote(carrier: str) -> str:
    print(f"asking {carrier}")
    return carrier

@workflow
async def maps(flow: Flow) -> None:
    await flow.map("quotes", quote, ["ups", "dhl"])

def wait_for_word(path: str) -> None:
    print("before the word")
    open(path).read()
    print("after the word")

@workflow
async def waits(flow: Flow, path: str) -> None:
    await flow.do("wait", wait_for_word, path)
"""


@pytest.fixture
def talks(project):
    (project.root / "workflows" / "talks.py").write_text(TALKS)
    return project


def lines(result):
    assert result.code == 0, result.err
    return result.out.splitlines()


def test_lines_come_in_their_order_with_the_step_before_them(talks):
    talks.flow("run", "talks")
    assert lines(talks.flow("logs", "@last")) == [
        "-\tfrom the body",
        "first\tana one",
        "first\tto stderr",
        "first\tana two",
        "first\tana one",
        "first\tto stderr",
        "first\tana two",
        "second\t\\x1b[31mbob one",
        "second\tto stderr",
        "second\t\\x1b[31mbob two",
    ]


def test_a_step_alone_is_plain_text(talks):
    talks.flow("run", "talks")
    assert lines(talks.flow("logs", "@last", "second")) == ["\\x1b[31mbob one", "to stderr", "\\x1b[31mbob two"]
    assert lines(talks.flow("logs", "@last", "first~2")) == ["ana one", "to stderr", "ana two"]


def test_lines_are_chosen_by_stream_text_attempt_and_number(talks):
    talks.flow("run", "talks")
    assert lines(talks.flow("logs", "@last", "first", "--stream", "err")) == ["to stderr", "to stderr"]
    assert lines(talks.flow("logs", "@last", "--grep", "ana t")) == ["first\tana two"] * 2
    assert lines(talks.flow("logs", "@last", "--failed")) == ["first\tana one", "first\tto stderr", "first\tana two"]
    assert lines(talks.flow("logs", "@last", "--tail", "1")) == ["second\t\\x1b[31mbob two"]
    assert lines(talks.flow("logs", "@last", "--tail", "0")) == []


def test_json_is_one_document_and_jsonl_an_object_per_line(talks):
    run = talks.run_id("talks")
    document = talks.flow("logs", run, "first~1", "--json").document
    assert (document["schema"], document["run"]) == ("flow.logs/1", run)
    first = {"step": "first", "attempt": 1, "at": document["lines"][0]["at"], "stream": "out", "text": "ana one"}
    assert document["lines"][0] == first
    found = [json.loads(line) for line in lines(talks.flow("logs", run, "second", "--jsonl"))]
    assert [one["text"] for one in found] == ["\x1b[31mbob one", "to stderr", "\x1b[31mbob two"]
    assert "\x1b" not in talks.flow("logs", run, "--jsonl").out


def test_what_children_write_to_either_descriptor_is_kept(talks):
    result = talks.flow("run", "children")
    assert result.err.count("of a child") == 2
    assert sorted(lines(talks.flow("logs", "@last", "spawn"))) == ["err of a child", "out of a child"]


def test_a_name_stands_for_all_steps_that_have_it(talks):
    talks.flow("run", "maps")
    assert sorted(lines(talks.flow("logs", "@last", "quotes"))) == ["asking dhl", "asking ups"]
    assert lines(talks.flow("logs", "@last", "quotes[1]")) == ["asking dhl"]


def test_an_unknown_step_is_66_with_the_nearest(talks):
    talks.flow("run", "talks")
    result = talks.flow("logs", "@last", "frist")
    assert (result.code, result.out) == (66, "")
    assert result.err.splitlines()[-1].startswith("  try: flow logs ")
    assert result.err.splitlines()[-1].endswith(" first")


@pytest.mark.parametrize(
    "arguments", [("--stream", "both"), ("--json", "-f"), ("--json", "--jsonl"), ("-f", "--failed"), ("--tail", "-1")], ids=str
)
def test_options_that_make_no_sense_are_2(talks, arguments):
    talks.flow("run", "hello")
    assert talks.flow("logs", "@last", *arguments).code == 2


def test_following_ends_with_the_run(talks):
    path = talks.root / "word"
    os.mkfifo(path)
    run = talks.start("run", "waits", "--set-str", f"path={path}")
    writer = os.open(path, os.O_WRONLY)  # returns when the step has opened it
    follower = talks.start("logs", "@last", "-f")
    assert follower.stdout.readline() == "wait\tbefore the word\n"
    os.write(writer, b"word")
    os.close(writer)
    assert follower.communicate(timeout=30)[0] == "wait\tafter the word\n"
    assert follower.returncode == 0
    run.communicate(timeout=30)


@needs_tmux
def test_people_see_the_names_in_one_column(talks):
    talks.flow("run", "talks")
    screen = Screen(talks.root)
    try:
        shown = screen.run("flow logs @last").splitlines()
    finally:
        screen.close()
    assert shown[1:4] == ["        │ from the body", "first   │ ana one", "first   │ to stderr"]
    assert "first~2 │ ana two" in shown
    assert "second  │ \\x1b[31mbob one" in shown


def test_reading_logs_imports_nothing_heavy(shared):
    result = shared.flow("logs", "@last", python=("-X", "importtime"))
    loaded = {line.rpartition("|")[2].strip() for line in result.err.splitlines() if line.startswith("import time:")}
    assert not loaded & {"pydantic", "pydantic_core", "sqlite_utils", "asyncio", "flowstone.engine", "rich", "jsonschema"}
