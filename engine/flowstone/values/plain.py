"""Values without an annotation: plain JSON as it is, and tagged forms for the other types that Python is born with.

A tagged form is an object with the key `$flow`, which names the type: `{"$flow": "decimal", "value": "0.10"}`.

| type | value |
|---|---|
| datetime | ISO 8601, with the offset if it has one; `zone` holds a ZoneInfo's key (then without offset), `fold` 1 if set |
| date, time | ISO 8601; time also with `zone` and `fold` |
| timedelta | whole microseconds |
| decimal, uuid, path, pure_posix_path, pure_windows_path | text |
| bytes | base64 |
| float | `nan`, `inf`, `-inf` |
| tuple, set, frozenset | list of its items; sets sorted by their items' JSON text |
| dict | list of [key, value]: a dict with a key that is no text, or with the key `$flow` itself |
"""

import base64
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic_core import PydanticSerializationError, from_json, to_json

from flowstone.values.cures import cure_of, name_of
from flowstone.values.json_tree import (
    DEPTH,
    DEPTH_CURE,
    INT_LIMIT,
    MAX_ITEMS,
    SIZE_CURE,
    TAG,
    TEXT_CURE,
    Unrecordable,
    is_json,
    member,
    text_fault,
)


def write(value: Any) -> tuple[bytes, Any]:
    """The JSON text of a value and what reading that text gives. Raises Unrecordable."""
    if _reads_back(value):
        return to_json(value), value
    if is_json(value):
        try:
            text = to_json(value)
        except PydanticSerializationError:
            text = b"\\u0000"  # some text in it is at fault: the walk below finds which
        if b"\\u0000" not in text:
            return text, from_json(text)
    text = to_json(_encode(value))
    return text, read(from_json(text))


def _reads_back(value: Any) -> bool:
    """Whether it is a text or a common number, which reading its text gives back without a doubt."""
    kind = type(value)
    if kind is str:
        return text_fault(value) is None
    return value is None or kind is bool or (kind is int and -(2**53) < value < 2**53)


def read(data: Any) -> Any:
    """The value behind parsed JSON data; plain JSON is given back as it is. Raises Unrecordable on an unknown tag."""
    return data if is_json(data) else _decode(data)


# Writing


def _moment(value: datetime | time) -> dict[str, Any]:
    fold = {"fold": 1} if value.fold else {}
    if isinstance(value.tzinfo, ZoneInfo) and value.tzinfo.key:
        return {"value": value.replace(tzinfo=None, fold=0).isoformat(), "zone": value.tzinfo.key, **fold}
    if value.tzinfo is not None and value.utcoffset() is None:
        raise ValueError("has a time zone without name and offset")
    if type(value).fromisoformat(value.isoformat()).utcoffset() != value.utcoffset():  # CPython drops one below a second
        raise ValueError("has an offset of a fraction of a second")
    return {"value": value.isoformat(), **fold}


def _text(value: Any) -> dict[str, Any]:
    return {"value": str(value)}


SCALARS: dict[type, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    datetime: ("datetime", _moment),
    date: ("date", lambda value: {"value": value.isoformat()}),
    time: ("time", _moment),
    timedelta: ("timedelta", lambda value: {"value": value // timedelta(microseconds=1)}),
    Decimal: ("decimal", _text),
    UUID: ("uuid", _text),
    bytes: ("bytes", lambda value: {"value": base64.b64encode(value).decode()}),
    type(Path()): ("path", _text),
    PurePosixPath: ("pure_posix_path", _text),
    PureWindowsPath: ("pure_windows_path", _text),
    float: ("float", _text),  # only non-finite ones get here
}
SEQUENCES: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}


class _Place:
    """Where a value lies, kept as links so that a path is only spelled out for an error."""

    __slots__ = ("container", "parent", "segment")

    def __init__(self, parent: "_Place | None", container: Any, segment: Any) -> None:
        self.parent = parent
        self.container = container
        self.segment = segment

    def ancestors(self) -> list["_Place"]:
        place: _Place | None = self
        found = []
        while place is not None:
            found.append(place)
            place = place.parent
        return found[::-1]


def _path(place: _Place | None) -> str:
    path = "$"
    for step in place.ancestors() if place else []:
        kind = type(step.container)
        if kind is list or kind is tuple:
            path += f"[{step.segment}]"
        elif kind is not dict:
            path += "{item}"
        elif type(step.segment) is str:
            path = member(path, step.segment)
        else:
            path += f"[{step.segment}]" if type(step.segment) in (int, bool) else f"[{type(step.segment).__name__} key]"
    return path


def _encode(value: Any) -> Any:
    """The tagged tree of a value, walked without recursion, first things first."""
    root = [None]
    stack: list[tuple[Any, Any, Any, int, _Place | None]] = [(value, root, 0, 0, None)]
    unsorted: list[list[Any]] = []
    left = MAX_ITEMS
    while stack:
        item, holder, key, depth, place = stack.pop()
        kind = type(item)
        if kind is str:
            if fault := text_fault(item):
                raise Unrecordable(_path(place), fault, TEXT_CURE)
            holder[key] = item
        elif item is None or kind is bool or (kind is float and item - item == 0):
            holder[key] = item
        elif kind is int:
            if not -INT_LIMIT < item < INT_LIMIT:
                raise Unrecordable(
                    _path(place), "is a number of more than 4,300 digits", "return its text in hexadecimal: hex(...)"
                )
            holder[key] = item
        elif kind in SCALARS:
            holder[key] = _scalar(item, place)
        elif kind is list or kind is dict or kind in SEQUENCES:
            left -= len(item)
            if left < 0:
                raise Unrecordable("$", "is larger than 64 MiB", SIZE_CURE)
            levels, children = _container(item, holder, key, place, unsorted)
            if depth + levels > DEPTH:
                circular = place is not None and any(step.container is item for step in place.ancestors())
                why = "contains itself" if circular else "is nested too deeply"
                raise Unrecordable(_path(place), why, "return data that ends" if circular else DEPTH_CURE)
            stack += [
                (child, *where, depth + levels, _Place(place, item, segment)) for child, segment, *where in reversed(children)
            ]
        else:
            raise Unrecordable(_path(place), f"is {name_of(item)}", cure_of(item))
    for items in reversed(unsorted):  # inner sets were met later
        items.sort(key=to_json)
    return root[0]


def _scalar(item: Any, place: _Place | None) -> dict[str, Any]:
    name, write_scalar = SCALARS[type(item)]
    try:
        form = write_scalar(item)
    except ValueError as error:
        raise Unrecordable(_path(place), str(error), "use a zoneinfo.ZoneInfo with a key, or a datetime.timezone") from None
    if type(form["value"]) is str and (fault := text_fault(form["value"])):
        raise Unrecordable(_path(place), fault, TEXT_CURE)
    return {TAG: name, **form}


def _container(
    item: Any, holder: Any, key: Any, place: _Place | None, unsorted: list[list[Any]]
) -> tuple[int, list[tuple[Any, Any, Any, Any]]]:
    """Put an empty copy in its place; returns the JSON levels it takes and its children: child, segment, holder, key."""
    kind = type(item)
    if kind is dict and TAG not in item and all(type(name) is str for name in item):
        for name in item:
            if fault := text_fault(name):
                raise Unrecordable(_path(place), f"has a key that {fault}", TEXT_CURE)
        plain = holder[key] = dict.fromkeys(item)
        return 1, [(child, name, plain, name) for name, child in item.items()]
    if kind is dict:
        pairs: list[list[Any]] = [[None, None] for _ in item]
        holder[key] = {TAG: "dict", "value": pairs}
        children = []
        for pair, (name, child) in zip(pairs, item.items(), strict=True):
            children += [(name, name, pair, 0), (child, name, pair, 1)]
        return 3, children
    items: list[Any] = [None] * len(item)
    holder[key] = items if kind is list else {TAG: SEQUENCES[kind], "value": items}
    if kind is set or kind is frozenset:
        unsorted.append(items)
    return 1 if kind is list else 2, [(child, index, items, index) for index, child in enumerate(item)]


# Reading


def _zoned(moment: Any, form: dict[str, Any]) -> Any:
    if "zone" in form:
        moment = moment.replace(tzinfo=ZoneInfo(form["zone"]))
    return moment.replace(fold=1) if form.get("fold") else moment


READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "datetime": lambda form: _zoned(datetime.fromisoformat(form["value"]), form),
    "date": lambda form: date.fromisoformat(form["value"]),
    "time": lambda form: _zoned(time.fromisoformat(form["value"]), form),
    "timedelta": lambda form: timedelta(microseconds=form["value"]),
    "decimal": lambda form: Decimal(form["value"]),
    "uuid": lambda form: UUID(form["value"]),
    "bytes": lambda form: base64.b64decode(form["value"], validate=True),
    "path": lambda form: Path(form["value"]),
    "pure_posix_path": lambda form: PurePosixPath(form["value"]),
    "pure_windows_path": lambda form: PureWindowsPath(form["value"]),
    "float": lambda form: float(form["value"]),
}
BUILDERS: dict[str, Callable[[list[Any]], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset, "dict": dict}


def _decode(data: Any) -> Any:
    """The value of a tagged tree, built without recursion into fresh containers: parents are met first and built last."""
    root = [data]
    slots: list[tuple[Any, Any]] = [(root, 0)]
    builds: list[tuple[Any, Any, str]] = []
    for holder, key in slots:  # grows while it is walked
        item = holder[key]
        if type(item) is dict and TAG in item:
            tag = item[TAG]
            try:
                if tag in BUILDERS:
                    builds.append((holder, key, tag))
                    item = item["value"]
                else:
                    holder[key] = READERS[tag](item)
                    continue
            except (KeyError, TypeError, ValueError, ArithmeticError):
                raise Unrecordable("$", f"holds a form of {tag!r} that cannot be read here", "was it changed by hand?") from None
        if type(item) is list:
            holder[key] = copied = item.copy()
            slots += [(copied, index) for index in range(len(copied))]
        elif type(item) is dict:
            holder[key] = copy = item.copy()
            slots += [(copy, name) for name in copy]
    for holder, key, tag in reversed(builds):
        try:
            holder[key] = BUILDERS[tag](holder[key])
        except (TypeError, ValueError):
            raise Unrecordable("$", f"holds a form of {tag!r} that cannot be read here", "was it changed by hand?") from None
    return root[0]
