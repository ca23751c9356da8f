"""How a step key is shown to people: names as the author wrote them, gates and compensations in words."""

from urllib.parse import unquote

PREFIXES = ("approve", "suspend", "sleep", "undo", "on_error")


def label_of(key: str) -> str:
    """A key as people read it: `approve:large%2Forder#1` → `approve: large/order#1`, `charge card:undo` → `undo charge card`."""
    if ":" not in key and "%" not in key:
        return key
    branch, slash, segment = key.rpartition("/")
    for compensation in ("undo", "on_error"):
        head, found, occurrence = segment.partition(f":{compensation}")
        if found:
            segment = f"{compensation} {head}{occurrence}"
    prefix, colon, rest = segment.partition(":")
    if colon and prefix in PREFIXES:
        segment = f"{prefix}: {rest}"
    return f"{branch}{slash}{unquote(segment)}"


def typed_name(key: str, name: str) -> str:
    """A gate's reason as it is typed after `flow approve` and `flow resume`: its name, with `#1` for its second reach."""
    occurrence = key.rpartition("/")[2].partition("#")[2]
    return f"{name}#{occurrence}" if occurrence else name
