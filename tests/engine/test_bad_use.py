"""What can never work is refused at the call, and the run's error names the author's file and line."""

import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest

from flowstone import Flow, workflow
from support.engines import Make


def same(value: int) -> int:
    return value


async def a_bare_number(flow: Flow) -> None:
    await flow.sleep("nap", 10)  # type: ignore[arg-type]


async def a_closure_as_undo(flow: Flow) -> None:
    await flow.do("one", same, 1, undo=lambda done: None)


async def two_items_of_one_key(flow: Flow) -> None:
    await flow.map("each", same, [1, 2], key=lambda _: "k")


async def an_unknown_option(flow: Flow) -> None:
    await flow.do("one", same, 1, retrys=3)  # type: ignore[call-overload]


async def no_retries_below_none(flow: Flow) -> None:
    await flow.do("one", same, 1, retries=-1)


async def an_error_of_the_body_itself(flow: Flow) -> None:
    raise ValueError("no")


BODIES = [a_bare_number, a_closure_as_undo, two_items_of_one_key, an_unknown_option, no_retries_below_none]


@pytest.mark.parametrize("body", [*BODIES, an_error_of_the_body_itself], ids=lambda body: body.__name__)
def test_the_error_names_file_and_line(make: Make, body: Callable[..., Any]) -> None:
    workflow(name="body")(body)
    engine = make(body)
    row = engine.run("body")
    line = inspect.getsourcelines(body)[1] + 1
    assert row.status == "failed"
    assert json.loads(row.error or "{}")["site"] == f"engine/test_bad_use.py:{line}"
    assert row.steps == 0
