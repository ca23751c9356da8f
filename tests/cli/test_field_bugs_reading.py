"""What went wrong for users of other tools with values and with reading without code; each test names its report, Bnn."""

import json
import shutil

import pytest

from support.acting import refused

WORKFLOWS = """
from dataclasses import dataclass
from enum import Enum, StrEnum
from flowstone import Flow, workflow

class Declined(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{reason} ({code})")
        self.code, self.reason = code, reason

class Outer:
    class Color(Enum):
        RED = "red"

class Mood(StrEnum):
    GOOD = "good"

@dataclass
class Receipt:
    id: int

def decline(): raise Declined(51, "no funds")
def color() -> Outer.Color: return Outer.Color.RED
def mood() -> Mood: return Mood.GOOD
def bare(): return Outer.Color.RED
def receipt() -> Receipt: return Receipt(7)
def keys(): return {1: "a", "1": "b"}
def huge(): return "x" * (50 << 20)
def numbers(): return {"x": float("nan"), "y": float("inf")}

@workflow
async def declines(flow: Flow) -> str:
    try:
        await flow.do("first", decline, retries=0)
    except Declined as error:
        caught = f"{type(error).__name__} {error.message} {error.code}"
    await flow.suspend("look")
    await flow.do("charge", decline, retries=0)
    return caught

@workflow
async def values(flow: Flow) -> list:
    red, good, made, mixed = await flow.do("red", color), await flow.do("good", mood), None, await flow.do("keys", keys)
    made = await flow.do("receipt", receipt)
    await flow.suspend("look")
    return [repr(red), repr(good), mixed[1], mixed["1"], made.id]

@workflow
async def bares(flow: Flow) -> None:
    await flow.do("bare", bare)

@workflow
async def large(flow: Flow) -> int:
    return len(await flow.do("huge", huge))

@workflow
async def odd(flow: Flow) -> dict:
    return await flow.do("numbers", numbers)
"""


@pytest.fixture
def shop(project):
    (project.root / "workflows" / "examples.py").write_text(WORKFLOWS)
    return project


def test_b46_b48_values_have_their_types_before_and_after_a_resume(shop):
    run = shop.run_id("values")
    assert shop.flow("resume", run).out == '["<Color.RED: \'red\'>","<Mood.GOOD: \'good\'>","a","b",7]\n'


def test_b46_an_enum_without_an_annotation_is_refused_when_it_is_recorded(shop):
    result = shop.flow("run", "bares")
    assert result.code == 1
    assert "cannot be recorded: $ is " in result.err


def test_b47_a_class_that_is_gone_is_named_and_the_run_stays_as_it_is(shop):
    run = shop.run_id("values")
    before = shop.flow("timeline", run, "--events").out
    file = shop.root / "workflows" / "examples.py"
    file.write_text(WORKFLOWS.replace("@dataclass\nclass Receipt:\n    id: int\n", ""))
    document = refused(shop.flow("resume", run, "--json"), 69, "cannot_load")
    assert "Receipt" in document["message"]
    assert shop.flow("timeline", run, "--events").out == before
    file.write_text(WORKFLOWS)
    assert shop.flow("resume", run).code == 0


def test_b50_no_number_that_json_lacks_is_printed(shop):
    document = shop.flow("run", "odd", "--json")
    assert "NaN" not in document.out
    assert "Infinity" not in document.out
    json.loads(document.out, parse_constant=lambda name: pytest.fail(name))
    for verb in ("state", "timeline", "status"):
        json.loads(shop.flow(verb, "@last", "--json").out, parse_constant=lambda name: pytest.fail(name))


READING = ("runs", "status @last", "timeline @last", "timeline @last --events", "state @last", "logs @last", "export @last")


def test_b51_b52_all_that_is_recorded_can_be_read_without_the_code(shop, tmp_path_factory):
    run = shop.run_id("declines")
    result = shop.flow("resume", run, "--json")
    assert result.code == 1
    assert result.document["error"]["message"] == "no funds (51)"
    elsewhere = type(shop)(tmp_path_factory.mktemp("elsewhere"))
    shutil.copy(shop.root / ".flow" / "flow.db", elsewhere.root / "copied.db")
    with_code = {command: shop.flow(*command.split()).out for command in READING}
    (shop.root / "workflows" / "examples.py").unlink()
    for command in READING:
        assert shop.flow(*command.split()).out == with_code[command], command
        read = elsewhere.flow(*command.split(), "--db", str(elsewhere.root / "copied.db"), "--json")
        assert read.code == 0, (command, read.err)
    assert "Declined" in shop.flow("status", run).out


def test_b51_an_error_of_two_arguments_is_caught_as_its_class_after_a_resume(shop):
    run = shop.run_id("declines")
    shop.flow("resume", run)
    (shop.root / "workflows" / "examples.py").write_text(WORKFLOWS.replace('await flow.do("charge", decline, retries=0)', "pass"))
    result = shop.flow("retry", run)
    assert (result.code, result.out) == (0, '"Declined no funds (51) 51"\n')


def test_b54_a_value_of_50_mb_is_kept_and_no_list_reads_it(shop):
    result = shop.flow("run", "large")
    assert (result.code, result.out) == (0, f"{50 << 20}\n")
    assert len(shop.flow("output", "@last", "huge", "--raw").out) == 50 << 20
    for command in ("runs", "status @last", "timeline @last"):
        assert len(shop.flow(*command.split()).out) < 20_000
