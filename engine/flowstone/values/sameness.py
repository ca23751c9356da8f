"""Whether a value and what was read back from its text are the same: same types at every node, same values at every leaf."""

import dataclasses
from datetime import datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

from pydantic_core import to_json

from flowstone.values.cures import cure_of, name_of
from flowstone.values.json_tree import Unrecordable, member

FIXED_ZONES = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT"})

SIMPLE = frozenset({str, int, bool, type(None)})


def members(value: Any) -> list[tuple[str, Any]] | None:
    """The fields of a model or dataclass instance; None for anything else. Private attributes are no data."""
    kind = type(value)
    if hasattr(kind, "__pydantic_fields__") and not dataclasses.is_dataclass(kind):
        found = [(name, value.__dict__.get(name)) for name in kind.__pydantic_fields__]
        return found + list((getattr(value, "__pydantic_extra__", None) or {}).items())
    if dataclasses.is_dataclass(kind):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(kind)]
    return None


def children(value: Any, path: str) -> list[tuple[str, Any]] | None:
    """The parts of a value with their paths; None for a leaf. A dict's keys come before its values, sets have no order."""
    if isinstance(value, Enum):
        return None
    if isinstance(value, dict):
        named = [(member(path, key) if type(key) is str else f"{path}[{type(key).__name__} key]", key) for key in value]
        return [pair for pair in named if type(pair[1]) is not str] + [(where, value[key]) for where, key in named]
    if isinstance(value, list | tuple):
        return [(f"{path}[{index}]", child) for index, child in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [(f"{path}{{item}}", child) for child in value]
    found = members(value)
    return None if found is None else [(member(path, name), child) for name, child in found]


def require_same(value: Any, back: Any, annotation: str) -> bool:
    """Raise Unrecordable, with the path, where the two differ. True if there are sets in them, whose order must be fixed.

    An int where a float is annotated may become that float: a float's annotation means both.
    """
    sets = False
    stack = [(value, back, "$")]
    while stack:
        one, two, path = stack.pop()
        if type(one) is not type(two):
            if type(one) is int and type(two) is float and one == two:
                continue
            raise _changed(one, two, path, annotation)
        if type(one) in SIMPLE and one == two:
            continue
        parts, others = children(one, path), children(two, path)
        if parts is None or others is None:
            if not _equal(one, two):
                raise Unrecordable(path, f"is {name_of(one)} that reads back with another value", _leaf_cure(one))
        elif isinstance(one, dict):
            stack += _entries(one, two, path)
        elif len(parts) != len(others):
            raise Unrecordable(path, f"is {name_of(one)} that reads back with other parts", "make each part a declared field")
        elif isinstance(one, set | frozenset):
            sets = sets or len(parts) > 1
            stack += _paired(one, two, path)
        elif [part[0] for part in parts] != [other[0] for other in others]:
            raise Unrecordable(path, f"is {name_of(one)} that reads back with other parts", "make each part a declared field")
        else:
            stack += [(part, other, where) for (where, part), (_, other) in zip(reversed(parts), reversed(others), strict=True)]
    return sets


def _entries(one: Any, two: Any, path: str) -> list[tuple[Any, Any, str]]:
    """By key, not by order: a TypedDict reads back in the order of its fields, which is then the recorded one."""
    found = {key: key for key in two}
    if len(one) != len(two) or any(key not in found for key in one):
        raise Unrecordable(
            path, f"is {name_of(one)} that reads back with other keys", "annotate its keys and values with their types"
        )
    keys = [(key, found[key], f"{path}[{type(key).__name__} key]") for key in one if type(key) is not str]
    named = [(member(path, key) if type(key) is str else f"{path}[{type(key).__name__} key]", key) for key in one]
    return [(one[key], two[key], where) for where, key in reversed(named)] + keys


def _paired(one: Any, two: Any, path: str) -> list[tuple[Any, Any, str]]:
    found = {item: item for item in two}
    for item in one:
        if isinstance(item, frozenset):
            raise Unrecordable(path, "holds a set inside a set, which has no stable order", "use sorted tuples")
        if item not in found:
            raise Unrecordable(f"{path}{{item}}", f"is {name_of(item)} that reads back with another value", _leaf_cure(item))
    return [(item, found[item], f"{path}{{item}}") for item in one]


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, datetime | time):
        if isinstance(one.tzinfo, ZoneInfo) and one.tzinfo.key not in FIXED_ZONES and not isinstance(two.tzinfo, ZoneInfo):
            return False
        return bool(one == two) and one.utcoffset() == two.utcoffset() and (one.tzinfo is not None or one.fold == two.fold)
    if isinstance(one, Decimal):
        return str(one) == str(two)
    compare: Any = type(one).__eq__
    if compare is object.__eq__:
        return True  # nothing to tell them apart by
    try:
        return bool(one == two) or bool(one != one and two != two)  # the second: NaN
    except Exception:
        return True  # compared item by item, as arrays are: their texts are the same, which must do


def _leaf_cure(value: Any) -> str:
    if isinstance(value, datetime | time):
        return "convert it with .astimezone(UTC), since only the offset of a zone can be recorded here"
    if isinstance(value, float):
        return 'set model_config = ConfigDict(ser_json_inf_nan="strings")'
    return "make its serializer and its validator fit each other, or leave it out"


def _changed(one: Any, two: Any, path: str, annotation: str) -> Unrecordable:
    said = f"but the annotation says {annotation}" if path == "$" else f"but reads back as {name_of(two)}"
    cure = cure_of(one)
    if isinstance(one, float):
        cure = _leaf_cure(one)
    elif not cure.startswith(("await", "return a list", "return its content", "return data")):
        cure = f"annotate it with {type(one).__qualname__}, or convert it to what the annotation says"
    return Unrecordable(path, f"is {name_of(one)}, {said}", cure)


def sort_sets(value: Any, data: Any) -> None:
    """Put the lists of JSON data that stand for sets of the value into the order of their items' text, in place."""
    stack = [(value, data)]
    while stack:
        one, form = stack.pop()
        if isinstance(one, set | frozenset) and type(form) is list:
            form.sort(key=to_json)
        elif isinstance(one, dict) and type(form) is dict and len(one) == len(form):
            stack += zip(one.values(), form.values(), strict=True)
        elif isinstance(one, list | tuple) and type(form) is list and len(one) == len(form):
            stack += zip(one, form, strict=True)
        elif type(form) is dict and (found := members(one)):
            aliases = getattr(type(one), "__pydantic_fields__", {})
            for name, child in found:
                info = aliases.get(name)
                key = (info.serialization_alias or info.alias or name) if info is not None else name
                if key in form:
                    stack.append((child, form[key]))
        elif (found := members(one)) and len(found) == 1 and found[0][0] == "root":
            stack.append((found[0][1], form))
