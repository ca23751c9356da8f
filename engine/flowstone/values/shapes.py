"""Which annotations the plain codec can hold by itself, and the check that a value has exactly the annotated types."""

import types
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeVar, Union, get_args, get_origin
from uuid import UUID

Shape = Callable[[Any], bool]

NATIVE = frozenset({str, int, float, bool})
"""Types that are plain JSON on their own (a float only if finite)."""
EXACT = NATIVE | {dict, list, datetime, date, time, timedelta, Decimal, UUID, bytes, tuple, set, frozenset}
EXACT |= {PurePosixPath, PureWindowsPath, type(Path())}
NONE = (None, type(None))

_known: dict[Any, Shape | None] = {}


def shape_of(annotation: Any) -> Shape | None:
    """The check for an annotation made of Python's own types, unions and containers of them; None for all others."""
    try:
        if annotation not in _known:
            _known[annotation] = _shape(annotation)
        return _known[annotation]
    except TypeError:  # not hashable: an Annotated with odd metadata
        return None


def _shape(annotation: Any) -> Shape | None:
    if annotation is Any or annotation is object:
        return _anything
    if isinstance(annotation, TypeVar):
        return None if annotation.__bound__ or annotation.__constraints__ else _anything
    if annotation in NONE:
        return lambda value: value is None
    if annotation is Path:
        annotation = type(Path())
    if annotation in EXACT:
        return lambda value: type(value) is annotation
    origin = get_origin(annotation)
    if origin not in (list, set, frozenset, dict, tuple, Union, types.UnionType):
        return None
    args = get_args(annotation)
    endless = origin is tuple and len(args) == 2 and args[1] is Ellipsis
    parts = [_shape(arg) for arg in (args[:1] if endless else args)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if origin in (Union, types.UnionType):
        return lambda value: any(part(value) for part in known)
    if origin is dict:
        of_key, of_value = known
        return lambda value: type(value) is dict and all(map(of_key, value)) and all(map(of_value, value.values()))
    if origin is tuple and not endless:
        return lambda value: (
            type(value) is tuple and len(value) == len(known) and all(part(item) for part, item in zip(known, value, strict=True))
        )
    return lambda value: type(value) is origin and all(map(known[0], value))


def _anything(_: Any) -> bool:
    return True
