"""Values without an annotation: what comes back, and what is refused where."""

import asyncio
import json
import math
import sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from flowstone.errors import ValueRefused
from flowstone.values.codec import WARN_BYTES, digest, record, restore


class Color(Enum):
    RED = "red"


class Mood(StrEnum):
    GOOD = "good"


class Level(IntEnum):
    LOW = 1


class Client(BaseModel):
    name: str


@dataclass
class Point:
    x: int


class Text(str):
    pass


Pair = namedtuple("Pair", "a b")


def same(one: Any, two: Any) -> bool:
    """Equal, and of the same types at every node."""
    if type(one) is not type(two):
        return False
    if isinstance(one, dict):
        return len(one) == len(two) and all(same(a, b) for a, b in zip(one.items(), two.items(), strict=True))
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, set | frozenset):
        return bool(one == two) and sorted(map(repr, map(type, one))) == sorted(map(repr, map(type, two)))
    if isinstance(one, datetime | time):
        zones = (one.tzinfo, two.tzinfo)
        return bool(one == two) and one.fold == two.fold and zones[0] == zones[1]
    if isinstance(one, float | Decimal) and one != one:
        return str(one) == str(two)
    if isinstance(one, float):
        return one == two and math.copysign(1, one) == math.copysign(1, two)
    return str(one) == str(two) and bool(one == two)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).filter(lambda offset: abs(offset) >= timedelta(seconds=1))
zones = st.none() | st.just(UTC) | st.timezones() | st.builds(timezone, offsets)
folded = st.builds(lambda moment, fold: moment.replace(fold=fold), st.datetimes(timezones=zones), st.integers(0, 1))
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | texts
    | folded
    | st.dates()
    | st.times(timezones=st.none() | st.just(UTC))
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.binary()
    | st.builds(Path, texts)
    | st.builds(PurePosixPath, texts)
    | st.builds(PureWindowsPath, texts)
)
hashables = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3), max_leaves=5
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(texts | st.just("$flow"), inner, max_size=4)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.sets(hashables, max_size=4)
        | st.frozensets(hashables, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=400)
@given(values)
def test_a_value_comes_back_with_the_same_types(value: Any) -> None:
    recorded = record(value)
    assert same(recorded.value, value)
    restored = restore(json.loads(recorded.text))
    assert same(restored, value)
    assert record(restored).text == recorded.text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | texts,
        lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    )
)
def test_json_data_is_recorded_as_it_is(value: Any) -> None:
    if "$flow" not in repr(value) and "nan" not in repr(value) and "inf" not in repr(value):
        assert json.loads(record(value).text) == value


@pytest.mark.parametrize(
    "number", [math.nan, math.inf, -math.inf, -0.0, Decimal("NaN"), Decimal("sNaN12"), Decimal("-Infinity"), 2**80]
)
def test_odd_numbers_come_back(number: Any) -> None:
    text = record([number]).text
    [back] = restore(json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")))
    assert type(back) is type(number)
    assert str(back) == str(number)


def test_the_forms_are_as_documented() -> None:
    assert record(Decimal("0.10")).text == '{"$flow":"decimal","value":"0.10"}'
    berlin = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    assert json.loads(record(berlin).text) == {
        "$flow": "datetime",
        "value": "2026-10-25T02:30:00",
        "zone": "Europe/Berlin",
        "fold": 1,
    }
    assert record(timedelta(microseconds=1)).text == '{"$flow":"timedelta","value":1}'
    assert record({1: "a"}).text == '{"$flow":"dict","value":[[1,"a"]]}'
    assert record({"$flow": 1}).text == '{"$flow":"dict","value":[["$flow",1]]}'


def test_a_set_is_written_in_a_stable_order() -> None:
    assert record({"b", "a", "c"}).text == '{"$flow":"set","value":["a","b","c"]}'
    assert record({frozenset("ba"), frozenset("cd")}).text == record({frozenset("dc"), frozenset("ab")}).text


def test_the_body_gets_a_copy() -> None:
    value = {"items": [1]}
    recorded = record(value)
    value["items"].append(2)
    assert recorded.value == {"items": [1]}


def test_restoring_leaves_the_data_alone() -> None:
    data = json.loads(record({"a": [(1, {2})]}).text)
    assert restore(data) == restore(data) == {"a": [(1, {2})]}


def lazy() -> Any:
    yield 1


async def nothing() -> None: ...


REFUSED = [
    (
        lambda: {"items": [0, 1, 2, {"client": Client(name="a")}]},
        "$.items[3].client is a Client",
        "a type that names Client there",
    ),
    (lambda: Point(1), "$ is a Point", "annotate the function's return type with Point"),
    (lambda: Pair(1, 2), "$ is a Pair", "return type with Pair"),
    (lambda: [Color.RED], "$[0] is a Color", "annotate the function's return type with list[Color], or return its value"),
    (lambda: [Mood.GOOD], "$[0] is a Mood", "annotate the function's return type with list[Mood]"),
    (lambda: {"a b": Level.LOW}, '$["a b"] is a Level', "annotate the function's return type with a type that names Level there"),
    (lambda: Text("x"), "$ is a Text", "return str(...)"),
    (lambda: True and defaultdict(list), "$ is a defaultdict", "return dict(...)"),
    (lambda: OrderedDict(), "$ is an OrderedDict", "return dict(...)"),
    (lambda: Counter(), "$ is a Counter", "return dict(...)"),
    (lambda: deque(), "$ is a deque", "return a list"),
    (lambda: lazy(), "$ is a generator", "return a list"),
    (lambda: range(3), "$ is a range", "return a list"),
    (lambda: {}.keys(), "$ is a dict_keys", "return a list"),
    (lambda: map(str, []), "$ is a map", "return a list"),
    (lambda: lambda: 1, "$ is a function", "return data, not code"),
    (lambda: Client, "$ is a class", "return data, not code"),
    (lambda: ValueError("x"), "$ is a ValueError", "raise it"),
    (lambda: bytearray(b"x"), "$ is a bytearray", "return bytes(...)"),
    (lambda: object(), "$ is an object", "return plain data"),
    (lambda: 1j, "$ is a complex", "return plain data"),
    (lambda: {Color.RED: 1}, "$[Color key] is a Color", "return type with a type that names Color there"),
    (lambda: {(1, Color.RED)}, "${item}[1] is a Color", "return type with a type that names Color there"),
    (lambda: ["\ud800"], "$[0] holds half of a character", "replace it"),
    (lambda: {"a\ud800": 1}, "$ has a key that holds half of a character", "replace it"),
    (lambda: {"x": "a\0b"}, "$.x holds a NUL", "replace it"),
    (lambda: (Path("\udcff"),), "$[0] holds half of a character", "replace it"),
    (lambda: [10**4300], "$[0] is a number of more than 4,300 digits", "hex"),
]


@pytest.mark.parametrize(("make", "path", "cure"), REFUSED)
def test_a_value_is_refused_by_path_and_with_the_cure(make: Any, path: str, cure: str) -> None:
    with pytest.raises(ValueRefused) as refusal:
        record(make(), what='result of step "x"')
    assert str(refusal.value).startswith(f'result of step "x" cannot be recorded: {path}')
    assert cure in (refusal.value.hint or "")
    assert str(refusal.value).endswith(f"; {refusal.value.hint}")  # only the message is kept with a run


@pytest.mark.parametrize(
    ("what", "value", "cure"),
    [
        ("the workflow's result", [Point(1)], "annotate the function's return type with list[Point]"),
        ("the workflow's result", {"a": Point(1)}, "return type with dict[str, Point], or a model that has Point"),
        ('argument 1 of step "x"', Point(1), "annotate the function's parameter with Point"),
        ('argument 1 of step "x"', Text("x"), "annotate the function's parameter with Text, or pass str(...)"),
        ('argument 1 of step "x"', range(3), "pass a list"),
        ('state "x"', Point(1), "set plain data instead"),
        ('state "x"', Text("x"), "set plain data instead, such as str(...)"),
    ],
)
def test_the_cure_is_one_for_what_is_recorded(what: str, value: Any, cure: str) -> None:
    with pytest.raises(ValueRefused) as refusal:
        record(value, what=what)
    assert cure in str(refusal.value)


def test_a_coroutine_and_a_file_are_refused(tmp_path: Path) -> None:
    coroutine = nothing()
    with pytest.raises(ValueRefused, match="is a coroutine") as refusal:
        record([coroutine])
    assert refusal.value.hint is not None
    assert refusal.value.hint.startswith("await it")
    asyncio.run(coroutine)
    with (tmp_path / "x").open("w") as file, pytest.raises(ValueRefused, match="TextIOWrapper") as refusal:
        record(file)
    assert refusal.value.hint == "return its content, or its path"


def test_text_that_only_looks_like_an_escape_is_taken() -> None:
    assert record("\\u0000").value == "\\u0000"


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_depth_ends_at_200_levels_of_json() -> None:
    deep = nested(200)
    assert restore(json.loads(record(deep).text)) == deep
    with pytest.raises(ValueRefused, match="nested too deeply"):
        record(nested(201))
    with pytest.raises(ValueRefused, match="nested too deeply"):
        record(nested(100_000))


def test_depth_is_no_question_of_the_stack() -> None:
    def at_depth(frames: int) -> None:
        if frames:
            at_depth(frames - 1)
        else:
            value: Any = 1
            for _ in range(99):
                value = (value,)
            assert record(record(value).value).text.count("tuple") == 99

    frame, used = sys._getframe(), 0
    while frame is not None:
        used, frame = used + 1, frame.f_back  # type: ignore[assignment]
    at_depth(sys.getrecursionlimit() - used - 60)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = [1]
    loop += [loop, loop]
    with pytest.raises(ValueRefused, match="contains itself"):
        record(loop)
    knot: dict[str, Any] = {}
    knot["self"] = (knot,)
    with pytest.raises(ValueRefused, match="contains itself"):
        record(knot)


def test_size_ends_at_64_mib() -> None:
    assert len(record("x" * WARN_BYTES).text) > WARN_BYTES
    with pytest.raises(ValueRefused, match="64 MiB") as refusal:
        record("x" * (64 * 1024 * 1024))
    assert refusal.value.hint == "store it in a file and return the path"


def test_a_tag_that_nobody_knows_is_refused_when_read() -> None:
    for data in ({"$flow": "pickle", "value": ""}, {"$flow": "decimal"}, {"$flow": "set", "value": [[]]}, {"$flow": [1]}):
        with pytest.raises(ValueRefused, match="cannot be read"):
            restore(data)


def test_the_digest_is_short_and_of_the_text() -> None:
    assert digest(record({"a": 1}).text) == "015abd7f5cc57a2d"
    assert UUID(int=1) == restore(json.loads(record(UUID(int=1)).text))
    assert date(2026, 1, 1) == record(date(2026, 1, 1)).value
