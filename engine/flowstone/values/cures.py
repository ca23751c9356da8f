"""What a value that cannot be recorded is called, and what its author can do about it."""

import dataclasses
import inspect
import io
import re
from collections import deque
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from enum import Enum
from typing import Any

LISTLIKE = (Iterator, KeysView, ValuesView, ItemsView, range, deque)
ANNOTATE = "annotate the function's return type with "
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


def cure_there(cure: str, what: str, path: str) -> str:
    """The cure for a value inside `what` (`argument 1 of step "x"`, `state "y"`, or a result) at that path."""
    if not cure.startswith(ANNOTATE):
        return cure.replace("return", "pass", 1) if what.startswith("argument") else cure
    name, comma, other = cure.removeprefix(ANNOTATE).partition(", or ")
    if what.startswith("state"):  # nothing annotates it
        return "set plain data instead" + (f", {other.replace('return', 'such as', 1)}" if other else "")
    if re.fullmatch(r"\$\[\d+\]", path):
        name = f"list[{name}]"
    elif re.fullmatch(r"\$\.\w+", path):
        name = f"dict[str, {name}], or a model that has {name}"
    elif path != "$":
        name = f"a type that names {name} there"
    made = f"{ANNOTATE}{name}{comma}{other}"
    return made.replace("return type", "parameter").replace("or return", "or pass") if what.startswith("argument") else made


def cure_of(value: Any) -> str:
    """The cure for a value whose type cannot be recorded without an annotation."""
    kind = type(value)
    name = kind.__qualname__.rsplit("<locals>.", 1)[-1]
    if isinstance(value, Enum):
        return f"{ANNOTATE}{name}, or return its value"
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
        return f"{ANNOTATE}{name}"
    for plain in PLAIN:
        if isinstance(value, plain):
            return f"{ANNOTATE}{name}, or return {plain.__name__}(...)"
    return "return plain data, or a dataclass or pydantic model with the function's return type annotated with it"
