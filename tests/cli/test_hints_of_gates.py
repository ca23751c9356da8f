"""What is told to be typed next at a gate, an unknown outcome and a child can be typed, and is the same wherever it is told."""

import re
import shlex

import pytest

CODE = """
import os
from pathlib import Path
from pydantic import BaseModel
from flowstone import Flow, step, workflow
import asyncio

class Ticket(BaseModel):
    ticket: str
    n: int = 0

class Wide(BaseModel):
    approved: bool
    password: str
    n: int

@workflow
async def signed(flow: Flow) -> str:
    said = await flow.approval("prod", schema=Ticket)
    return said.data.ticket if said.approved else "no"

@workflow
async def dashed(flow: Flow) -> str:
    return (await flow.approval("-x", schema=Ticket)).data.ticket

@workflow
async def listed(flow: Flow) -> list:
    return (await flow.approval("prod", schema=list[str])).data

@workflow
async def wide(flow: Flow) -> str:
    return (await flow.approval("prod", schema=Wide)).status

@workflow
async def twice(flow: Flow) -> list:
    return [one.status for one in await asyncio.gather(flow.approval("legal", schema=Ticket), flow.approval("prod"))]

@workflow
async def careful(flow: Flow) -> str:
    return (await flow.approval("prod", schema=Ticket, approvers="not-initiator")).by

@workflow
async def paused(flow: Flow) -> str:
    await flow.suspend("look first")
    return (await flow.approval("later")).status

@workflow
async def parent(flow: Flow) -> str:
    return await flow.do("child", signed)

@workflow
async def grandparent(flow: Flow) -> str:
    return await flow.do("parent", parent)

@step(repeatable=False)
def pay(amount: int) -> int:
    if not Path("fixed").exists():
        os.kill(os.getpid(), 9)
    return amount

@workflow
async def paying(flow: Flow) -> int:
    return await flow.do("pay the bill", pay, 3)
"""


@pytest.fixture
def gates(project):
    (project.root / "workflows" / "gates.py").write_text(CODE)
    return project


def typed(command, **values):
    """The words of a hint, with what it leaves open filled in."""
    for name, value in {"VALUE": "A", "TEXT": "seen", **values}.items():
        command = command.replace(name, value)
    return shlex.split(command)[1:]


def told(project, run):
    """The command to type next, from each place that tells it."""
    status = project.flow("status", run)
    plain = re.search(r"^next\t(.*)$", status.out, re.M)
    card = re.search(r"^  next +(.*)$", project.terminal("status", run, columns=200).out, re.M)
    assert plain is not None
    assert card is not None
    short = re.compile(r"\b[a-z][a-z0-9]{5,11}\b")  # ids are short for people
    found = {project.flow("status", run, "--json").document["next"], plain[1]}
    assert len(found) == 1
    said = found.pop()
    assert short.sub("ID", card[1].strip()) == short.sub("ID", said)
    return said


@pytest.mark.parametrize("workflow", ["signed", "dashed", "listed", "wide", "twice", "careful", "parent", "grandparent"])
def test_the_next_command_is_the_same_everywhere_and_is_taken(gates, workflow):
    started = gates.flow("run", workflow)
    run = gates.flow("runs", "-w", workflow, "--json").document["runs"][0]["id"]
    said = told(gates, run)
    progress = re.search(r' next="((?:[^"\\]|\\.)*)"', started.err)
    assert progress is not None
    assert progress[1] == said
    (gates.root / "answer.json").write_text('["a"]')
    wanted = ["--by", "bo"] if workflow == "careful" else []
    filled = [word.replace("n=A", "n=1") for word in typed(said, FILE="answer.json")]
    result = gates.flow(*filled[:1], *wanted, *filled[1:])
    assert result.code in (0, 8), result.err
    assert "approved" in gates.flow("timeline", filled[1] if workflow != "dashed" else run, "--events").out


def test_once_the_answer_is_there_next_takes_no_fields(gates):
    run = gates.run_id("signed")
    gates.flow("approve", run, "prod", "--set", "ticket=A", "--no-resume")
    said = told(gates, run)
    assert said == f"flow resume {run}"
    assert gates.flow(*typed(said)).code == 0


@pytest.mark.parametrize(
    ("workflow", "given", "hint"),
    [
        ("signed", [], "flow approve {run} prod --set ticket=VALUE"),
        ("signed", ["--by", "bo"], "flow approve {run} prod --by bo --set ticket=VALUE"),
        ("signed", ["--by", "bo", "--set", "n=3"], "flow approve {run} prod --by bo --set n=3 --set ticket=VALUE"),
        ("signed", ["--set", "tikcet=A"], "flow approve {run} prod --set ticket=A"),
        ("signed", ["--set", "ticket=A", "--set", "zzz=1"], "flow approve {run} prod --set ticket=A"),
        ("signed", ["--set=ticket=12"], "flow approve {run} prod --set-str ticket=12"),
        ("signed", ["--set", "ticket=A", "--set", "n=x"], "flow approve {run} prod --set ticket=A --set n=VALUE"),
        ("wide", [], "flow approve {run} prod --set password=VALUE --set n=VALUE"),
    ],
)
def test_an_answer_that_does_not_fit_is_told_as_typed_with_what_is_missing(gates, workflow, given, hint):
    run = gates.run_id(workflow)
    refused = gates.flow("approve", run, "prod", *given)
    assert refused.code == 65
    assert refused.err.endswith(f"  try: {hint.format(run=run)}\n")


def test_each_problem_of_an_answer_is_told_once(gates):
    run = gates.run_id("wide")
    refused = gates.flow("approve", run, "prod")
    lines = [line.strip() for line in refused.err.splitlines() if line.strip().startswith("$.")]
    assert lines == ["$.password  missing", "$.n  missing"]


def test_of_several_open_gates_each_is_told_with_its_fields(gates):
    run = gates.run_id("twice")
    refused = gates.flow("approve", run)
    assert refused.code == 66
    assert f"  flow approve {run} legal --set ticket=VALUE\n  flow approve {run} prod\n" in refused.err
    near = gates.flow("approve", run, "legl")
    assert near.err.endswith(f"try: flow approve {run} legal --set ticket=VALUE\n")


def test_a_suspend_that_is_taken_for_a_gate_names_resume(gates):
    run = gates.run_id("paused")
    for words in ([], ["look first"]):
        refused = gates.flow("approve", run, *words)
        assert refused.code == 66
        hint = refused.err.splitlines()[-1].partition("try: ")[2]
        assert hint == f'flow resume {run} "look first"'
    early = gates.flow("approve", run, "later")
    assert (early.code, "--early" in early.err) == (66, True)
    assert gates.flow("approve", run, "later", "--early").code == 0
    assert gates.flow(*typed(hint)).out == '"approved"\n'


def test_a_form_has_the_words_of_show(gates):
    gates.flow("run", "signed")
    assert re.search(r"answer +ticket: text, n: whole number = 0", gates.flow("status", "@last").out) or re.search(
        r"answer +ticket: text, n: whole number = 0", gates.terminal("status", "@last").out
    )


def test_an_unknown_outcome_says_why_and_the_three_ways(gates):
    gates.flow("run", "paying")
    run = gates.flow("runs", "-w", "paying", "--json").document["runs"][0]["id"]
    gates.flow("resume", run)
    said = told(gates, run)
    assert said == f"flow resolve {run} 'pay the bill' --result FILE --reason TEXT"
    card = gates.terminal("status", run, columns=200).out
    assert "cut off" in card
    assert "not to be done twice" in card
    assert all(way in card for way in ("--result", "--failed", "--retry"))
    (gates.root / "r.json").write_text("3")
    assert gates.flow(*typed(said, FILE="r.json")).out == "3\n"
