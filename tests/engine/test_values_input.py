"""Data from people against annotations: every violation, by path, in words, without the value."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from flowstone.errors import BadData
from flowstone.values.codec import UNANNOTATED, fits


class Item(BaseModel):
    sku: str
    count: int = 1


class Deploy(BaseModel):
    version: str
    total: Decimal = Decimal(0)
    items: list[Item] = []
    by_name: dict[str, Item] = {}
    when: date | None = None
    level: Literal["low", "high"] = "low"
    user: str = Field("me", validation_alias=AliasChoices("user", "userName"))
    ratio: int | float = 0

    @field_validator("version")
    @classmethod
    def starts_with_a_number(cls, version: str) -> str:
        if not version[:1].isdigit():
            raise ValueError("must start with a digit")
        return version


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 1


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    approved: bool = False


@dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    limit: int
    point: Point


def wrong(data: Any, annotation: Any) -> list[str]:
    with pytest.raises(BadData) as refusal:
        fits(data, annotation, where="deploy (v.json)")
    assert str(refusal.value) == "the input does not fit deploy (v.json)"
    assert refusal.value.__cause__ is None
    return list(refusal.value.details)


def test_a_misspelt_field_is_missing_and_suggested() -> None:
    assert wrong({"verson": "1.4"}, Deploy) == [
        "$.version  missing (text)",
        "$.verson   not expected; did you mean version?",
    ]


def test_all_violations_are_told_at_once() -> None:
    assert wrong(
        {
            "version": "v1",
            "total": "lots",
            "items": [{"sku": "a", "cuont": 1}, {"sku": 7}],
            "by_name": {"a b": {"count": []}},
            "when": "soon",
            "level": "mid",
            "ratio": "x",
            "zzz": 1,
        },
        Deploy,
    ) == [
        "$.version               must start with a digit",
        "$.total                 should be a number",
        "$.items[1].sku          should be text",
        '$.by_name["a b"].sku    missing (text)',
        '$.by_name["a b"].count  should be a whole number',
        "$.when                  should be a date",
        "$.level                 should be 'low' or 'high'",
        "$.ratio                 should be a whole number or a number",
        "$.zzz                   not expected",
        "$.items[0].cuont        not expected; did you mean count?",
    ]


def test_what_fits_becomes_the_value() -> None:
    given = fits({"version": "1", "total": "1.50", "userName": "ana"}, Deploy, where="deploy")
    assert given == Deploy(version="1", total=Decimal("1.50"), userName="ana")
    assert fits({"limit": 3, "point": {"x": 1}}, Options, where="w") == {"limit": 3, "point": Point(1)}
    assert fits([1, 2], set[int], where="w") == {1, 2}
    assert fits(5, float, where="w") == 5.0
    assert fits({"a": 1, "b": 2}, Open, where="w").b == 2


@pytest.mark.parametrize("annotation", [UNANNOTATED, Any, dict, dict[str, Any], object])
def test_plain_data_stays_as_it_is(annotation: Any) -> None:
    data = {"$flow": "decimal", "value": "1", "x": [None]}
    assert fits(data, annotation, where="w") == data


def test_unknown_names_are_refused_in_every_kind_of_record() -> None:
    assert wrong({"x": 1, "Y": 2}, Point) == ["$.Y  not expected; did you mean y?"] or wrong({"x": 1, "Y": 2}, Point) == [
        "$.Y  not expected"
    ]
    assert wrong({"limits": 1}, Options) == ["$.limits  not expected; did you mean limit?"]
    assert wrong({"point": {"x": 1, "z": 1}}, Options) == ["$.point.z  not expected"]
    assert wrong({"aproved": True}, Closed) == ["$.aproved  not expected; did you mean approved?"]
    assert wrong([{"sku": "a", "skus": 1}], list[Item] | None) == ["$[0].skus  not expected; did you mean sku?"]


@pytest.mark.parametrize(
    ("data", "annotation", "line"),
    [
        ("x", int, "$  should be a whole number"),
        (1.5, int, "$  should be a whole number"),
        (1, str, "$  should be text"),
        ([], bool, "$  should be true or false"),
        ({}, list[int], "$  should be a list"),
        ([], Item, "$  should be an object"),
        (None, Point, "$  should be an object"),
        ([1, "x"], list[int], "$[1]  should be a whole number"),
        ({"x": None}, Point, "$.x  should be a whole number"),
        (1, None, "$  should be null"),
        (-1, Field(ge=0), None),
    ],
)
def test_people_are_told_in_words(data: Any, annotation: Any, line: str | None) -> None:
    if line is not None:
        assert wrong(data, annotation) == [line]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"a": ["\ud800"]}, "$.a[0]  holds half of a character (a lone surrogate)"),
        ({"a": "\0"}, "$.a  holds a NUL character"),
        ([1e400], "$[0]  is a number too large for JSON"),
        ([10**4300], "$[0]  is a number of more than 4,300 digits"),
    ],
)
def test_data_that_no_store_takes_is_refused(data: Any, line: str) -> None:
    assert wrong(data, UNANNOTATED) == [line]


def test_deep_data_is_refused() -> None:
    data: Any = 1
    for _ in range(50_000):
        data = [data]
    assert "nested too deeply" in wrong(data, UNANNOTATED)[0]
    while data != 1:  # freed level by level
        data = data[0]
