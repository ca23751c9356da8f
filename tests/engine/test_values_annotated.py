"""Values with an annotation: what comes back through pydantic, and what is refused."""

import enum
import json
import typing
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field, field_serializer, field_validator
from typing_extensions import TypedDict

from flowstone.errors import ValueRefused
from flowstone.values.codec import record, restore, schema_of


class Outer:
    class Color(enum.Enum):
        RED = "red"
        BLUE = "blue"


class Mood(enum.StrEnum):
    GOOD = "good"
    BAD = "bad"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Line(BaseModel):
    sku: str = Field(alias="SKU")
    count: int = 1


class Order(BaseModel):
    id: UUID
    total: Decimal
    at: datetime
    lines: list[Line] = []
    tags: set[str] = set()
    color: Outer.Color = Outer.Color.RED
    note: str | None = None


class Base(BaseModel):
    a: int = 1


class Derived(Base):
    b: int = 2


@dataclass
class Point:
    x: int
    y: float = 0.5
    tags: frozenset[str] = field(default_factory=frozenset)


class Pair(NamedTuple):
    left: int
    right: Mood


class Options(TypedDict, total=False):
    limit: int
    since: date


Names = RootModel[list[str]]


def comes_back(value: Any, annotation: Any) -> Any:
    recorded = record(value, annotation)
    assert type(recorded.value) is type(value)
    assert recorded.value == value
    restored = restore(json.loads(recorded.text), annotation)
    assert type(restored) is type(value)
    assert restored == value
    assert record(restored, annotation).text == recorded.text
    return json.loads(recorded.text)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
aware = st.datetimes(timezones=st.just(UTC))
lines = st.builds(Line, SKU=texts, count=st.integers())
orders = st.builds(
    Order,
    id=st.uuids(),
    total=st.decimals(allow_nan=False, allow_infinity=False),
    at=aware | st.datetimes().map(lambda moment: moment.replace(fold=0)),
    lines=st.lists(lines, max_size=3),
    tags=st.sets(texts, max_size=5),
    color=st.sampled_from(Outer.Color),
    note=st.none() | texts,
)
points = st.builds(
    Point, x=st.integers(), y=st.floats(allow_nan=False, allow_infinity=False), tags=st.frozensets(texts, max_size=5)
)
CASES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, texts),
    (int, st.integers()),
    (float, st.floats(allow_nan=False)),
    (bool, st.booleans()),
    (None, st.none()),
    (bytes, st.binary()),
    (date, st.dates()),
    (datetime, aware | st.datetimes() | st.datetimes(timezones=st.timezones())),
    (time, st.times()),
    (timedelta, st.timedeltas()),
    (Decimal, st.decimals(allow_nan=False)),
    (UUID, st.uuids()),
    (Path, st.builds(Path, texts)),
    (Outer.Color, st.sampled_from(Outer.Color)),
    (Mood, st.sampled_from(Mood)),
    (Level, st.sampled_from(Level)),
    (Order, orders),
    (Point, points),
    (Pair, st.builds(Pair, st.integers(), st.sampled_from(Mood))),
    (Options, st.fixed_dictionaries({}, optional={"limit": st.integers(), "since": st.dates()})),
    (Names, st.builds(Names, st.lists(texts))),
    (list[Order], st.lists(orders, max_size=2)),
    (dict[int, Line], st.dictionaries(st.integers(), lines, max_size=3)),
    (dict[date, int], st.dictionaries(st.dates(), st.integers(), max_size=3)),
    (dict[str, set[int]], st.dictionaries(texts, st.sets(st.integers()), max_size=3)),
    (tuple[int, str], st.tuples(st.integers(), texts)),
    (tuple[Mood, ...], st.lists(st.sampled_from(Mood), max_size=3).map(tuple)),
    (set[Level], st.sets(st.sampled_from(Level))),
    (set[str], st.sets(texts)),
    (Order | None, st.none() | orders),
    (int | str | date, st.integers() | texts | st.dates()),
    (list[datetime | str], st.lists(aware | texts, max_size=3)),
    (dict, st.dictionaries(texts | st.integers(), st.dates() | texts | st.tuples(st.integers()), max_size=3)),
    (dict[str, Any], st.dictionaries(texts | st.just("$flow"), st.dates() | texts | st.sets(st.integers()), max_size=3)),
    (list[Any], st.lists(st.uuids() | st.integers(), max_size=3)),
    (object, texts | st.dates()),
    (Annotated[int, Field(ge=0)], st.integers(min_value=0)),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (Sequence[int], st.lists(st.integers(), max_size=3)),
    (defaultdict[str, list[int]], st.just(defaultdict(list, a=[1]))),
    (OrderedDict[str, int], st.just(OrderedDict(b=1, a=2))),
]


@pytest.mark.parametrize(("annotation", "strategy"), CASES, ids=lambda case: str(case)[:40])
def test_an_annotated_value_comes_back(annotation: Any, strategy: st.SearchStrategy[Any]) -> None:
    @given(strategy)
    def check(value: Any) -> None:
        comes_back(value, annotation)

    check()


def test_aliases_are_written() -> None:
    assert comes_back(Line(SKU="a"), Line) == {"SKU": "a", "count": 1}


def test_sets_in_models_are_written_in_order() -> None:
    words = {f"w{number}" for number in range(20)}
    written = comes_back([Point(1, tags=frozenset(words))], list[Point])
    assert written[0]["tags"] == sorted(words)
    order = Order(id=UUID(int=1), total=Decimal(1), at=datetime(2026, 1, 1), tags=words)  # noqa: DTZ001
    assert comes_back({"a": order}, dict[str, Order])["a"]["tags"] == sorted(words)


def test_non_finite_floats_come_back() -> None:
    assert str(record(float("nan"), float).value) == "nan"
    assert record([float("inf")], list[float]).value == [float("inf")]
    assert record({"x": float("-inf")}, dict[str, float]).value == {"x": float("-inf")}
    assert str(restore(json.loads(record(float("nan"), float | None).text), float | None)) == "nan"


def test_a_zone_keeps_its_name() -> None:
    moment = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    back = restore(json.loads(record([moment], list[datetime]).text), list[datetime])[0]
    assert (back, back.tzinfo, back.fold) == (moment, moment.tzinfo, 1)


def test_an_int_fits_where_a_float_is_annotated() -> None:
    recorded = record(5, float)
    assert (recorded.text, repr(recorded.value)) == ("5.0", "5.0")
    assert repr(record(Point(1, 2), Point).value.y) == "2.0"
    assert repr(record([1, 2.5], list[float]).value) == "[1.0, 2.5]"
    with pytest.raises(ValueRefused, match="is an int, but the annotation says float"):
        record(2**53 + 1, float)


class Secret(BaseModel):
    key: SecretStr


class Ratio(BaseModel):
    value: float


class Loose(BaseModel):
    anything: Any = None


class Hidden(BaseModel):
    shown: int = 1
    hidden: int = Field(default=0, exclude=True)


class Shouting(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def loud(cls, text: str) -> str:
        return text.upper()


class Counting(BaseModel):
    model_config = ConfigDict(frozen=True)
    number: int = 0

    @field_serializer("number")
    def up(self, number: int) -> int:
        return number + 1


class Area(BaseModel):
    model_config = ConfigDict(extra="forbid")
    side: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.side**2


class Client:
    pass


REFUSED = [
    ("5", int, "$ is a str, but the annotation says int", "annotate it with str"),
    ("five", int, "$ is a str, but the annotation says int", ""),
    (True, int, "$ is a bool, but the annotation says int", "annotate it with bool"),
    (5, str, "$ is an int, but the annotation says str", ""),
    (1, None, "$ is an int, but the annotation says None", ""),
    (None, Order, "$ is None, but the annotation says Order", ""),
    (Derived(), Base, "$ is a Derived, but the annotation says Base", "annotate it with Derived"),
    ([Base(), Derived()], list[Base], "$[1] is a Derived, but reads back as a Base", "Derived"),
    (Mood.GOOD, str, "$ is a Mood, but the annotation says str", "Mood"),
    ([1], tuple[int, ...], "$ is a list, but the annotation says tuple[int, ...]", ""),
    ((1,), Sequence[int], "$ is a tuple, but", "annotate it with tuple"),
    ([(1,)], list[Sequence[int]], "$[0] is a tuple, but reads back as a list", ""),
    (iter([1]), Iterator[int], "$ is a list_iterator", "return a list"),
    ([1], Iterable[int], "$ is a list, but the annotation says", ""),
    (Secret(key=SecretStr("x")), Secret, "$.key is a SecretStr that reads back with another value", ""),
    (Ratio(value=float("nan")), Ratio, "$.value is a float, but", "ser_json_inf_nan"),
    (Loose(anything=Decimal(1)), Loose, "$.anything is a Decimal, but reads back as a str", ""),
    (Loose(anything=[Client()]), Loose, "$.anything[0] is a Client", "return plain data"),
    (Loose(anything=Derived()), Loose, "$.anything is a Derived, but reads back as a dict", ""),
    (Loose(anything="a\ud800"), Loose, "$.anything holds half of a character", ""),
    (Loose(anything="a\0"), Loose, "$.anything holds a NUL", ""),
    (Hidden(hidden=5), Hidden, "$.hidden is an int that reads back with another value", ""),
    (Shouting.model_construct(text="a"), Shouting, "$.text is a str that reads back with another value", ""),
    (Counting(), Counting, "$.number is an int that reads back with another value", ""),
    (Point("1"), Point, "$.x is a str, but reads back as an int", ""),  # type: ignore[arg-type]
    ({"limit": "many"}, Options, "$.limit is a str, but the annotation Options says: should be a whole number", ""),
    ({frozenset("a")}, set[frozenset[str] | Mood], "$ holds a set inside a set", "sorted tuples"),
    ({"a": 1, "x": {"y": Outer.Color.RED}}, dict[str, Any], "$.x.y is an Outer.Color", "type that names Outer.Color"),
    (1, Client, "the annotation Client cannot be recorded", "annotate with a dataclass"),
    ([1], list["Missing"], "the annotation list", "import it at the top"),  # type: ignore[name-defined]  # noqa: F821
    (1, "Missing", "the annotation Missing names something that cannot be found", "import it at the top"),
]


@pytest.mark.parametrize(("value", "annotation", "said", "cure"), REFUSED, ids=[str(case[2])[:60] for case in REFUSED])
def test_a_value_that_would_change_is_refused(value: Any, annotation: Any, said: str, cure: str) -> None:
    with pytest.raises(ValueRefused) as refusal:
        record(value, annotation, what="result of f")
    assert str(refusal.value).startswith(f"result of f cannot be recorded: {said}")
    assert cure in (refusal.value.hint or "")


def test_computed_fields_do_not_get_in_the_way() -> None:
    assert comes_back(Area(side=2), Area) == {"side": 2}


class Chain(BaseModel):
    inner: Optional["Chain"] = None


class Lost(BaseModel):
    where: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


def test_depth_and_circles_are_refused() -> None:
    chain = Chain()
    for _ in range(199):
        chain = Chain(inner=chain)
    comes_back(chain, Chain)
    with pytest.raises(ValueRefused, match="nested too deeply"):
        record(Chain(inner=chain), Chain)
    for _ in range(5000):
        chain = Chain.model_construct(inner=chain)
    with pytest.raises(ValueRefused, match="nested too deeply"):
        record(chain, Chain)
    loop = Chain()
    loop.inner = loop
    with pytest.raises(ValueRefused, match="contains itself"):
        record(loop, Chain)


def test_a_model_with_an_unknown_name_is_refused_in_words() -> None:
    with pytest.raises(ValueRefused, match="the annotation Lost names something that cannot be found"):
        record({}, Lost)
    with pytest.raises(ValueRefused, match="the annotation Lost names something that cannot be found"):
        schema_of(Lost)


def test_what_no_longer_fits_is_refused_by_path_without_the_value() -> None:
    data = {"id": "secret-1", "total": "x", "at": "2026-01-01", "lines": [{"count": "many"}]}
    with pytest.raises(ValueRefused, match="no longer fits Order") as refusal:
        restore(data, Order)
    assert refusal.value.details == (
        "$.id              should be a UUID",
        "$.total           should be a number",
        "$.lines[0].SKU    missing (text)",
        "$.lines[0].count  should be a whole number",
    )
    assert "secret" not in repr(refusal.value)
    assert refusal.value.__cause__ is None


def test_recorded_data_is_read_by_a_changed_annotation() -> None:
    assert restore(5, float) == 5.0
    assert restore([1, 2], tuple[int, ...]) == (1, 2)
    assert restore("5", int) == 5
    with pytest.raises(ValueRefused):
        restore("many", int)


class OldDict(typing.TypedDict):
    name: typing.NotRequired[str]
    parts: list["OldPart"]


class OldPart(typing.TypedDict):
    size: int


def test_a_typed_dict_of_typing_works_on_every_python() -> None:
    comes_back({"parts": [{"size": 1}]}, OldDict)
    comes_back([{"name": "a", "parts": []}], list[OldDict])
    comes_back(None, OldDict | None)


def test_an_annotation_that_has_no_hash_is_taken() -> None:
    annotation = Annotated[int, Field(ge=0), ["no hash"]]
    comes_back(1, annotation)
    comes_back(2, annotation)


def test_schemas_are_by_alias_and_for_validating() -> None:
    schema = schema_of(Line)
    assert schema is not None
    assert list(schema["properties"]) == ["SKU", "count"]
    assert schema["required"] == ["SKU"]
    assert schema_of(Any) is None
    assert schema_of(int) == {"type": "integer"}
    assert schema_of(None) == {"type": "null"}
