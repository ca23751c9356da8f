"""What plain JSON is and how large it may be: the one walk that tells, paths into it, and the refusal of a value."""

import json
import re
from typing import Any

TAG = "$flow"
"""The key that marks a value that JSON has no form for; see plain.py."""
DEPTH = 200
"""Levels of the recorded JSON. Python's and SQLite's own readers give up at 1,000 to 2,000, less on a deep stack."""
MAX_BYTES = 64 * 1024 * 1024
WARN_BYTES = 1024 * 1024
"""The caller warns when a recorded text is longer than this."""
INT_LIMIT = 10**4300
"""Python refuses to read an integer of more than 4,300 digits."""
MAX_ITEMS = MAX_BYTES // 2
"""An item takes at least two bytes, so more items than this are too large without being written."""

NAME = re.compile(r"[^\W\d]\w*\Z")


class Unrecordable(Exception):
    """A value that cannot be recorded: where (`$.items[3]`), why (`is a Client`), and the cure."""

    def __init__(self, path: str, why: str, hint: str | None = None) -> None:
        super().__init__(f"{path} {why}")
        self.path = path
        self.why = why
        self.hint = hint


def member(path: str, key: str) -> str:
    """The path of a key of the object at `path`: `$.name`, or `$["odd name"]`."""
    if NAME.match(key):
        return f"{path}.{key}"
    return f"{path}[{json.dumps(key if len(key) <= 40 else key[:40] + '…', ensure_ascii=not key.isprintable())}]"


def text_fault(text: str) -> str | None:
    """What keeps a text out of a store, in words that follow the path; None if nothing does."""
    if "\0" in text:
        return "holds a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "holds half of a character (a lone surrogate)"
    return None


TEXT_CURE = 'replace it first, for example text.encode("utf-8", "replace").decode().replace("\\0", "")'
SIZE_CURE = "store it in a file and return the path"
DEPTH_CURE = f"flatten it: at most {DEPTH} levels can be recorded"


def is_json(value: Any) -> bool:
    """Whether this is plain JSON as it is: exact types, text keys, no tag, finite, not too deep. Texts are not looked into.

    Raises Unrecordable if it has so many items that its text must be too large.
    """
    left = MAX_ITEMS
    stack = [iter((value,))]
    while stack:
        for item in stack[-1]:
            kind = type(item)
            if kind is str or kind is bool or item is None:
                continue
            if kind is int:
                if not -INT_LIMIT < item < INT_LIMIT:
                    return False
            elif kind is float:
                if item - item != 0:
                    return False
            elif kind is dict:
                if TAG in item:
                    return False
                for key in item:
                    if type(key) is not str:
                        return False
                stack.append(iter(item.values()))
            elif kind is list:
                stack.append(iter(item))
            else:
                return False
            if kind is dict or kind is list:
                left -= len(item)
                if len(stack) > DEPTH + 1:
                    return False
                if left < 0:  # at once: another walk would take as long again
                    raise Unrecordable("$", "is larger than 64 MiB", SIZE_CURE)
                break
        else:
            stack.pop()
    return True


def check_json(data: Any) -> None:
    """Look through parsed JSON from outside for what no store takes. Raises Unrecordable with the path."""
    stack: list[tuple[Any, str, int]] = [(data, "$", 0)]
    while stack:
        item, path, depth = stack.pop()
        kind = type(item)
        if kind is str:
            if fault := text_fault(item):
                raise Unrecordable(path, fault, TEXT_CURE)
        elif kind is int:
            if not -INT_LIMIT < item < INT_LIMIT:
                raise Unrecordable(path, "is a number of more than 4,300 digits")
        elif kind is float:
            if item - item != 0:
                raise Unrecordable(path, "is a number too large for JSON")
        elif kind is dict or kind is list:
            if depth == DEPTH:
                raise Unrecordable(path, "is nested too deeply", DEPTH_CURE)
            if kind is list:
                stack += [(child, f"{path}[{index}]", depth + 1) for index, child in enumerate(item)][::-1]
                continue
            for key in item:
                if fault := text_fault(key):
                    raise Unrecordable(path, f"has a key that {fault}", TEXT_CURE)
            stack += [(child, member(path, key), depth + 1) for key, child in item.items()][::-1]
