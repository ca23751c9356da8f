"""Numbers reach a Decimal exactly as they were written, from every place where a person writes numbers, and stay so."""

import json
from decimal import Decimal

import pytest

CODE = """
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal
from pydantic import BaseModel
from flowstone import Flow, NonRetryable, step, workflow
from pathlib import Path

class Line(BaseModel):
    price: Decimal

class Order(BaseModel):
    total: Decimal | None = None
    lines: list[Line] = []
    by_name: dict[str, Decimal] = {}
    pair: tuple[int, Decimal] = (1, Decimal(0))

@dataclass
class Item:
    amount: Decimal
    weight: float = 0.0

class Card(BaseModel):
    kind: Literal["card"]
    amount: Decimal

class Points(BaseModel):
    kind: Literal["points"]
    amount: float

class Paid(BaseModel):
    how: Card | Points

class SignOff(BaseModel):
    approved: bool
    limit: Decimal
    share: float = 0.0

def fixed() -> None:
    if not Path("fixed").exists():
        raise NonRetryable("not fixed yet")

@workflow
async def field(flow: Flow, amount: Decimal, weight: float = 0.0, free: Any = None) -> list:
    await flow.do("fixed", fixed)
    return [repr(amount), repr(weight), repr(free)]

@workflow
async def model(flow: Flow, order: Order) -> str:
    return repr(order)

@workflow
async def record(flow: Flow, item: Item) -> str:
    return repr(item)

@workflow
async def union(flow: Flow, paid: Paid) -> str:
    return repr(paid.how.amount)

@workflow
async def open_ended(flow: Flow, data) -> str:
    return repr(data)

@workflow
async def unclear(flow: Flow, amount: Decimal | str) -> str:
    return repr(amount)

@workflow
async def signed(flow: Flow) -> list:
    said = await flow.approval("prod", schema=SignOff)
    return [repr(said.data.limit), repr(said.data.share)] if said.approved else ["no"]

@step(repeatable=False)
def pay() -> Decimal:
    import os
    os.kill(os.getpid(), 9)

@workflow
async def resolved(flow: Flow) -> str:
    return repr(await flow.do("pay", pay))
"""

LONG = "12345678901234567.89"
WRITTEN = [LONG, "10.00", "10.0", "0.1", "1e5", "1E-30", "-0.0", "3", "100000000000000000000000000", "0.10000000000000000000001"]


@pytest.fixture
def shop(project):
    (project.root / "workflows" / "shop.py").write_text(CODE)
    (project.root / "fixed").touch()
    return project


@pytest.mark.parametrize("text", WRITTEN)
def test_a_field_of_set_and_of_a_file_is_the_decimal_that_was_written(shop, text):
    (shop.root / "in.json").write_text(f'{{"amount": {text}}}')
    (shop.root / "amount.txt").write_text(text)
    ways = (["--set", f"amount={text}"], ["-i", "in.json"], ["--set", "amount=@amount.txt"])
    outs = [json.loads(shop.flow("run", "field", *way).out)[0] for way in ways]
    assert outs == [repr(Decimal(text))] * 3


@pytest.mark.parametrize(
    ("workflow", "text", "said"),
    [
        ("model", f'{{"total": {LONG}}}', LONG),
        ("model", f'{{"lines": [{{"price": {LONG}}}]}}', LONG),
        ("model", f'{{"by_name": {{"a": {LONG}}}}}', LONG),
        ("model", f'{{"pair": [1, {LONG}]}}', LONG),
        ("record", f'{{"amount": {LONG}, "weight": 1.50}}', f"Item(amount=Decimal('{LONG}'), weight=1.5)"),
        ("union", f'{{"how": {{"kind": "card", "amount": {LONG}}}}}', f"Decimal('{LONG}')"),
        ("union", '{"how": {"kind": "points", "amount": 1.50}}', "1.5"),
        ("open_ended", '{"a": [1.50]}', "{'a': [1.5]}"),
    ],
)
def test_decimals_of_every_shape_are_exact_and_floats_are_floats(shop, workflow, text, said):
    (shop.root / "in.json").write_text(text)
    result = shop.flow("run", workflow, "-i", "in.json")
    assert result.code == 0, result.err
    assert said in json.loads(result.out)


def test_what_is_recorded_is_what_replay_json_and_key_see(shop):
    (shop.root / "fixed").unlink()
    start = ("run", "field", "--set", f"amount={LONG}", "--set", "weight=1.50", "--key", "K")
    failed = shop.flow(*start, "--json")
    assert (failed.code, failed.document["input"]) == (1, {"amount": LONG, "weight": 1.5})
    (shop.root / "fixed").touch()
    retried = shop.flow("retry", "key:K")
    assert json.loads(retried.out) == [f"Decimal('{LONG}')", "1.5", "None"]
    assert shop.flow(*start).out == retried.out
    other = shop.flow("run", "field", "--set", "amount=12345678901234567.88", "--key", "K")
    assert other.code == 75
    assert shop.flow("status", "key:K", "--json").document["input"]["amount"] == LONG


def test_a_fork_takes_its_changed_number_exactly_and_keeps_the_other(shop):
    run = shop.run_id("field", "--set", f"amount={LONG}")
    same = shop.flow("fork", run, "--from", "fixed", "--set", "weight=2.50")
    assert json.loads(same.out) == [f"Decimal('{LONG}')", "2.5", "None"]
    changed = shop.flow("fork", run, "--from", "fixed", "--set", "amount=10.00")
    assert json.loads(changed.out)[0] == "Decimal('10.00')"


def test_the_data_of_an_approval_is_exact_and_the_same_answer_again_is_no_other(shop):
    run = shop.run_id("signed")
    words = ("approve", run, "prod", "--set", f"limit={LONG}", "--set", "share=0.50")
    assert shop.flow(*words, "--no-resume").code == 0
    assert shop.flow(*words, "--no-resume").code == 0
    assert shop.flow("approve", run, "prod", "--set", "limit=12345678901234567.88").code == 75
    assert json.loads(shop.flow("resume", run).out) == [f"Decimal('{LONG}')", "0.5"]


def test_the_result_that_resolves_a_step_is_exact(shop):
    shop.flow("run", "resolved")
    shop.flow("resume", "@last")
    (shop.root / "paid.json").write_text("10.00")
    result = shop.flow("resolve", "@last", "pay", "--result", "paid.json", "--reason", "asked the bank")
    assert (result.code, result.out) == (0, "\"Decimal('10.00')\"\n"), result.err


def test_where_it_cannot_be_told_the_number_is_refused_with_the_command_that_is_taken(shop):
    refused = shop.flow("run", "unclear", "--set", "amount=10.00")
    assert (refused.code, refused.out) == (65, "")
    assert "$.amount  should be text" in refused.err
    assert "flow run unclear --set-str amount=10.00" in refused.err
    assert shop.flow("run", "unclear", "--set", "amount=10.5").code == 0
    (shop.root / "workflows" / "late.py").write_text(
        CODE.split("@workflow\nasync def field")[0]
        + "@workflow\nasync def later(flow: Flow) -> str:\n    await flow.suspend('x')\n"
        + "    return repr((await flow.approval('prod', schema=SignOff)).data.limit)\n"
    )
    run = shop.run_id("later")
    early = shop.flow("approve", run, "prod", "--early", "--set", f"limit={LONG}")
    assert early.code == 65
    assert f"flow approve {run} prod --early --set-str limit={LONG}" in early.err
    assert shop.flow("approve", run, "prod", "--early", "--set-str", f"limit={LONG}").code == 0
    assert json.loads(shop.flow("resume", run).out) == f"Decimal('{LONG}')"
