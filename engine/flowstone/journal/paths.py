"""Paths into JSON values as people type and read them: `results.charge`, `state.items[0]`, `steps["charge card"]`."""

import json
import re
from collections.abc import Sequence
from typing import Any

from flowstone.errors import NotFound, UsageError

Part = str | int
"""A field's name, or a place in a list."""

_PLAIN = re.compile(r'[^.\[\]"\s]+')
_QUOTED = re.compile(r'\[("(?:[^"\\]|\\.)*")\]')
_PLACE = re.compile(r"\[(\d+)\]")


def path_text(parts: Sequence[Part]) -> str:
    """A path as text; names that hold dots, brackets, quotes or spaces stand quoted in brackets."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def parse_path(text: str) -> list[Part]:
    """The parts of a path; the whole value is the empty text, and a leading `$` or `.` is allowed. Raises UsageError."""
    parts: list[Part] = []
    at = 1 if text.startswith("$") else 0
    while at < len(text):
        if quoted := _QUOTED.match(text, at):
            parts.append(json.loads(quoted[1]))
            at = quoted.end()
        elif place := _PLACE.match(text, at):
            parts.append(int(place[1]))
            at = place.end()
        elif plain := _PLAIN.match(text, at + (text[at] == ".")):
            parts.append(plain[0])
            at = plain.end()
        else:
            raise UsageError(
                f"the path {text!r} cannot be read from {text[at:]!r} on",
                hint='a path looks like results.charge, state.items[0] or results["charge card"]',
            )
    return parts


def value_at(document: Any, text: str) -> Any:
    """The value at a path. Raises NotFound naming where the path leaves the document, and UsageError for what is no path."""
    value = document
    parts = parse_path(text)
    for depth, part in enumerate(parts):
        if isinstance(value, dict) and str(part) in value:
            value = value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            raise NotFound(
                f"there is nothing at {path_text(parts[: depth + 1])}",
                details=[path_text([*parts[:depth], name]) for name in value] if isinstance(value, dict) else (),
            )
    return value
