r"""JSON for stdout and stderr: one document, nothing in it that a terminal would obey.

C0, DEL, C1, invisible format marks and U+2028/9 are written as \uXXXX, which JSON readers give back as they were.
"""

import json
import re
from typing import Any
from unicodedata import category

_LARGEST = 2**53
_LONG_NUMBER = re.compile(r"\d{16}")
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def compact(value: Any) -> str:
    """A JSON value on one line without blanks. Raises ValueError for a number that JSON has no form for."""
    return safe(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def pretty(value: Any) -> str:
    """A JSON value for people: containers over several lines, indented."""
    return safe(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False), keep="\n")


def document(value: dict[str, Any]) -> str:
    """A `--json` document: one line and its newline."""
    text = compact(value)
    return (compact(_exact(value)) if _LONG_NUMBER.search(text) else text) + "\n"


def _exact(value: Any) -> Any:
    """The value with integers that other readers would round (beyond 2**53) as texts."""
    if isinstance(value, dict):
        return {name: _exact(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_exact(one) for one in value]
    return str(value) if isinstance(value, int) and abs(value) > _LARGEST else value


def safe(text: str, keep: str = "") -> str:
    """JSON text with everything that a terminal would obey written as escapes; `keep` are characters between values."""
    if text.isprintable():
        return text
    return "".join(char if char in keep or category(char) not in _UNSAFE else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
