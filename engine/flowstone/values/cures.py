"""What a value that cannot be recorded is called, and what its author can do about it."""

import dataclasses
import inspect
import io
from collections import deque
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from enum import Enum
from typing import Any

LISTLIKE = (Iterator, KeysView, ValuesView, ItemsView, range, deque)
PLAIN = (str, int, float, bool, dict, list, tuple, set, frozenset, bytes)


def name_of(value: Any) -> str:
    """What to call this value: `a Client`, `an int`."""
    if value is None:
        return "None"
    if inspect.iscoroutine(value):
        return "a coroutine"
    if isinstance(value, type):
        return "a class"
    name = type(value).__qualname__.rsplit("<locals>.", 1)[-1]
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def is_no_data(value: Any) -> bool:
    """Whether this can be used up or waited for, so that looking at it would change it, whatever its annotation says."""
    return isinstance(value, Iterator | io.IOBase) or inspect.isawaitable(value) or inspect.isasyncgen(value)


def cure_of(value: Any) -> str:
    """The cure for a value whose type cannot be recorded without an annotation."""
    kind = type(value)
    name = kind.__qualname__.rsplit("<locals>.", 1)[-1]
    if isinstance(value, Enum):
        return f"annotate the step's return type with {name}, or return its value"
    if inspect.isawaitable(value):
        return "await it and return what it gives"
    if isinstance(value, io.IOBase):
        return "return its content, or its path"
    if inspect.isasyncgen(value) or isinstance(value, LISTLIKE):
        return "return a list"
    if isinstance(value, type) or inspect.ismodule(value) or callable(value):
        return "return data, not code"
    if isinstance(value, BaseException):
        return "raise it, or return its text"
    if isinstance(value, bytearray | memoryview):
        return "return bytes(...)"
    if dataclasses.is_dataclass(value) or hasattr(kind, "__pydantic_fields__") or hasattr(kind, "_fields"):
        return f"annotate the function's return type with {name}"
    for plain in PLAIN:
        if isinstance(value, plain):
            return f"annotate the function's return type with {name}, or return {plain.__name__}(...)"
    return "return plain data, or a dataclass or pydantic model with the function's return type annotated with it"
