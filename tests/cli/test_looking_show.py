"""`flow show`, `flow config`, `flow help`, and what is suggested for a name that is mistyped."""

import json
import re

import pytest
from jsonschema import Draft202012Validator

from flowstone_cli.app import VERBS
from flowstone_cli.commands.help import TOPICS

ORDERS = '''
from decimal import Decimal
from typing import Literal
from pydantic import BaseModel, Field
from flowstone import Flow, workflow

print("printed at import")

class Item(BaseModel):
    sku: str
    count: int = Field(ge=1, le=99)

class Order(BaseModel):
    id: str
    total: float = Field(gt=0)
    items: list[Item] = Field(min_length=1)
    speed: Literal["slow", "fast"] = "slow"

@workflow
async def order(flow: Flow, order: Order) -> str:
    """Reserve, check, ship.

    And more about it.
    """
    return order.id

@workflow
async def deploy(flow: Flow, version: str, dry: bool = False) -> str:
    """Build, publish."""
    return version

@workflow
async def nothing(flow: Flow) -> None: ...

@workflow
async def anything(flow: Flow, what) -> None: ...
'''


@pytest.fixture
def orders(project):
    (project.root / "workflows" / "orders.py").write_text(ORDERS)
    return project


def test_a_workflow_is_shown_with_its_place_description_and_input(orders):
    shown = orders.terminal("show", "order", NO_COLOR="1").out
    assert re.search(r"^order   workflows/orders.py:20 .*version [0-9a-f]{6}\nReserve, check, ship.$", shown, re.MULTILINE)
    assert "And more about it." in shown
    for words in (
        "  input    id             text\n",
        "           total          number > 0\n",
        "           items          list of object, at least 1\n",
        "           items[].count  whole number >= 1, <= 99\n",
        '           speed          one of: slow, fast = "slow"\n',
        "  try      flow run order -i FILE\n",
    ):
        assert words in shown
    shown = orders.terminal("show", "deploy", NO_COLOR="1").out
    assert "           dry      true or false = false\n" in shown
    assert "  try      flow run deploy --set-str version=TEXT\n" in shown
    assert "  input    none\n" in orders.terminal("show", "nothing", NO_COLOR="1").out
    assert "  input    any JSON value\n" in orders.terminal("show", "anything", NO_COLOR="1").out


@pytest.mark.parametrize("columns", [20, 40, 80, 140])
def test_what_is_shown_fits_the_window(orders, columns):
    for arguments in (("show", "order"), ("config", "show")):
        shown = orders.terminal(*arguments, columns=columns, NO_COLOR="1").out
        assert max(map(len, shown.replace("printed at import", "").splitlines())) <= columns


def test_the_document_and_the_schema(orders):
    document = orders.flow("show", "order", "--json").document
    assert document["schema"] == "flow.show/1"
    assert (document["name"], document["kind"], document["line"]) == ("order", "workflow", 20)
    assert set(document) >= {"description", "file", "tags", "version", "input", "plan", "deterministic"}
    schema = json.loads(orders.flow("show", "order", "--schema").out)
    assert schema == document["input"]
    good = {"id": "A", "total": 1.5, "items": [{"sku": "x", "count": 1}]}
    assert Draft202012Validator(schema).is_valid(good)
    assert not Draft202012Validator(schema).is_valid(good | {"total": 0})
    nothing = Draft202012Validator(json.loads(orders.flow("show", "nothing", "--schema").out))
    assert (nothing.is_valid({}), nothing.is_valid({"a": 1})) == (True, False)
    assert json.loads(orders.flow("show", "anything", "--schema").out) == {}


def test_in_a_pipe_fields_are_tab_separated_and_prints_of_the_module_go_to_stderr(orders):
    result = orders.flow("show", "deploy")
    assert "printed at import" in result.err
    assert "printed" not in result.out
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert rows[0] == ["name", "deploy"]
    assert rows[-2:] == [["input", "version", "text", "required"], ["input", "dry", "true or false = false", "optional"]]


def test_an_unknown_workflow_is_66_with_the_nearest(orders):
    for verb in ("show", "run"):
        result = orders.flow(verb, "ordr")
        assert (result.code, result.out) == (66, "")
        assert 'did you mean "order"?' in result.err


@pytest.mark.parametrize("verb", ["show", "run"])
def test_a_workflow_whose_file_is_broken_is_69_with_the_reason(project, verb):
    (project.root / "workflows" / "broken.py").write_text("async def other(flow):\n    return (\n")
    (project.root / "workflows" / "late.py").write_text(
        "from flowstone import workflow\nimport nothing_like_it\n@workflow\nasync def late(flow): ...\n"
    )
    for name in ("broken", "other"):
        result = project.flow(verb, name)
        assert (result.code, "broken.py:2: SyntaxError" in result.err) == (69, True)
    result = project.flow(verb, "late")
    assert (result.code, "No module named 'nothing_like_it'" in result.err) == (69, True)


def test_settings_are_shown_with_where_they_come_from(project):
    (project.root / "flow.toml").write_text('retries = 2\npark_after = "5m"\n\n[approvers]\nfinance = ["ana"]\n')
    document = project.flow("config", "show", "--json", "--db", "x.db", FLOW_COLOR="never").document
    assert document["schema"] == "flow.config/1"
    found = {one["name"]: (one["value"], one["origin"]) for one in document["settings"]}
    assert found["db"] == (str(project.root / "x.db"), "--db")
    assert found["color"] == ("never", "FLOW_COLOR")
    assert found["retries"] == (2, "flow.toml:1")
    assert found["approvers"] == ({"finance": ["ana"]}, "flow.toml:4")
    assert found["retry_delay"] == ("exponential", "default")
    assert project.flow("config").out == project.flow("config", "show").out
    assert "retries\t2\tflow.toml:1\n" in project.flow("config").out
    assert project.flow("config", "path").out == f"{project.root / 'flow.toml'}\n"


def test_the_settings_file_is_named_also_where_there_is_none(project):
    result = project.flow("config", "path")
    assert (result.code, result.out) == (0, f"{project.root / 'flow.toml'}\n")
    assert "there is no settings file" in result.err


def test_what_is_mistyped_is_answered_with_what_was_meant(project):
    gated = project.run_id("gated")
    hello = project.run_id("hello")
    (project.root / "more.toml").write_text("")
    for arguments, meant in (
        (("stats", gated), "flow status --help"),
        (("run", "helo"), 'did you mean "hello"?'),
        (("approve", gated, "manger"), f"flow approve {gated} manager"),
        (("state", hello, "--at", "gret"), "did you mean greet?"),
        (("logs", hello, "gret"), f"flow logs {hello} greet"),
        (("help", "exit-code"), "flow help exit-codes"),
        (("run", "hello", "--inptu", "x"), "--input"),
        (("run", "hello", "--set", "nam=x"), "did you mean name?"),
        (("config", "pth"), "flow config show"),
    ):
        result = project.flow(*arguments)
        assert result.code in (2, 65, 66)
        assert meant in result.err, result.err
    (project.root / "flow.toml").write_text("retires = 2\n")
    result = project.flow("runs")
    assert (result.code, 'did you mean "retries"?' in result.err) == (78, True)


def test_a_number_for_a_text_field_is_answered_with_set_str(orders):
    result = orders.flow("run", "deploy", "--set", "version=1.4", "--set", "dry=true")
    assert result.code == 65
    assert "$.version  should be text\n  try: flow run deploy --set-str version=1.4 --set dry=true\n" in result.err
    assert "--set-str=version=1.4" in orders.flow("run", "deploy", "--set=version=1.4").err
    assert "--set-str" not in orders.flow("run", "deploy", "--set", "version=x", "--set", "dry=3").err


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_has_a_page_that_fits_80_columns(project, topic):
    page = project.flow("help", topic).out
    assert page == TOPICS[topic]
    assert max(map(len, page.splitlines())) <= 82
    assert topic in project.flow("help", "help").out


def test_help_tells_apart_the_verbs_that_people_confuse(project):
    page = project.flow("help").out
    table = page.partition("When a run does not go on:\n")[2].partition("\n\n")[0]
    assert [re.findall(r"flow (\w+)", line) for line in table.splitlines()] == [
        ["approve", "reject"],
        ["resume"],
        ["retry"],
        ["resume", "recover"],
        ["resolve"],
    ]
    assert set(re.findall(r"flow (\w+)", table)) <= set(VERBS)


def test_topics_name_only_verbs_that_exist():
    for page in TOPICS.values():
        assert set(re.findall(r"`flow (\w+)", page)) <= set(VERBS)


@pytest.mark.parametrize("arguments", [("config",), ("help", "json"), ("--help",)], ids=" ".join)
def test_settings_and_help_import_nothing_heavy(project, arguments):
    result = project.flow(*arguments, python=("-X", "importtime"))
    loaded = {line.rpartition("|")[2].strip() for line in result.err.splitlines() if line.startswith("import time:")}
    assert not loaded & {
        "pydantic",
        "pydantic_core",
        "sqlite_utils",
        "asyncio",
        "sqlite3",
        "flowstone.engine",
        "rich",
        "jsonschema",
    }
