"""What a body gets from its steps: always what reading the record gives, live too."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from flowstone import Flow, StepFailed, workflow
from support.engines import Make, output, output_of


class Line(BaseModel):
    name: str
    price: Decimal


SHARED = {"items": [1]}


def give_shared() -> dict[str, list[int]]:
    return SHARED


def give_tuple() -> Any:
    return (1, (2, "x"))


def give_annotated_tuple() -> tuple[int, str]:
    return 1, "a"


def give_lines() -> list[Line]:
    return [Line(name="a", price=Decimal("1.50"))]


VALUES = [
    None,
    True,
    3,
    1.5,
    "text",
    (1, 2),
    {"a": (1,)},
    {1: "int key"},
    {1, 2},
    frozenset({"a"}),
    b"\x00\xff",
    Decimal("1.10"),
    UUID(int=5),
    date(2026, 1, 2),
    datetime(2026, 1, 2, tzinfo=UTC),
    timedelta(seconds=90),
    Path("a/b"),
    float("inf"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_plain_value_keeps_its_type_live_and_on_replay(make: Make, value: Any) -> None:
    seen: list[Any] = []

    @workflow
    async def body(flow: Flow) -> None:
        seen.append(await flow.do("give", lambda: value))
        await flow.suspend("look")

    engine = make(body)
    row = engine.run("body")
    make(body).resume(row.id)
    assert [(type(one), one) for one in seen] == [(type(value), value)] * 2


def test_a_tuple_stays_a_tuple(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        plain = await flow.do("plain", give_tuple)
        annotated = await flow.do("annotated", give_annotated_tuple)
        return [type(plain).__name__, type(plain[1]).__name__, type(annotated).__name__]

    assert output(make(body), body) == ["tuple", "tuple", "tuple"]


def test_the_body_never_gets_the_object_that_the_step_gave(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        first = await flow.do("give", give_shared)
        first["items"].append(2)
        return [first is SHARED, first["items"] is SHARED["items"], await flow.do("again", give_shared)]

    assert output(make(body), body) == [False, False, {"items": [1]}]


def test_a_list_of_models_comes_back_as_models_on_replay_too(make: Make) -> None:
    seen: list[Any] = []

    @workflow
    async def body(flow: Flow) -> None:
        seen.append(await flow.do("give", give_lines))
        await flow.suspend("look")

    engine = make(body)
    row = engine.run("body")
    make(body).resume(row.id)
    assert seen == [[Line(name="a", price=Decimal("1.50"))]] * 2


def test_a_model_without_an_annotation_is_refused_with_its_path(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("give", lambda: {"line": Line(name="a", price=Decimal(1))})
        except StepFailed as error:
            return error.message
        return ""

    said = output(make(body), body)
    assert 'result of step "give" cannot be recorded' in said
    assert "$.line" in said


def test_a_result_that_is_not_what_the_annotation_says_is_refused(make: Make) -> None:
    def lie() -> int:
        return "text"  # type: ignore[return-value]

    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("lie", lie)
        except StepFailed as error:
            return error.type
        return ""

    assert output(make(body), body) == "ValueRefused"


def test_functions_with_equal_code_keep_their_own_annotations(make: Make) -> None:
    def of(kind: Any) -> Any:
        def same(value: kind) -> kind:
            return value

        return same

    @workflow
    async def body(flow: Flow) -> list[Any]:
        return [await flow.do("number", of(int), 1), await flow.do("text", of(str), "a")]

    engine = make(body)
    assert output_of(engine, engine.run("body")) == [1, "a"]
