"""Branches and step keys: how an operation is named, the same at every replay (DESIGN.md section 6)."""

import re
import unicodedata

from flowstone.errors import FlowMisuse

OWN_NAMES = ("undo", "on_error")
"""What follows a step's key in the keys of the engine's own steps."""
RESERVED = re.compile(r"[/#\[\]:@~%]")


def clean_name(name: str, call: str) -> str:
    """An author's name in its one form (NFC). Raises FlowMisuse for what cannot be a name, naming the call and the rule."""
    if not isinstance(name, str):
        raise FlowMisuse(f'{call}: the name is a {type(name).__name__}; give text first, as in {call}("name", ...)')
    if name.isascii() and name.isprintable() and not name.isspace() and name:
        return name
    clean = unicodedata.normalize("NFC", name)
    if not clean.strip():
        raise FlowMisuse(f"{call}: the name is empty")
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in clean):
        raise FlowMisuse(f"{call}: the name {clean!r} holds a control character")
    return clean


def encoded(name: str) -> str:
    """A name as it stands in a key: what keys are built with is percent-encoded, all else stays as written."""
    return RESERVED.sub(lambda found: f"%{ord(found[0]):02X}", name)  # quote() leaves ~ as it is


def key_of(prefix: str, branch: str, name: str, occurrence: int) -> str:
    """The key of an operation: its branch, a prefix such as "approve:", its name, and `#1` from the second reach on."""
    key = prefix + encoded(name)
    if prefix and name in OWN_NAMES:
        key = f"{prefix}%{ord(name[0]):02X}{name[1:]}"  # `sleep:undo` is the undo of a step named sleep
    if branch:
        key = f"{branch}/{key}"
    return f"{key}#{occurrence}" if occurrence else key


def child_branch(branch: str, number: int) -> str:
    """The branch of the `number`th task (from 0) that the body made in `branch`."""
    segment = f"[{number}]"
    return f"{branch}/{segment}" if branch else segment
