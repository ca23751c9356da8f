"""What an answer at a gate must carry, as options to be typed: `--set ticket=VALUE`."""

import shlex
from collections.abc import Collection
from typing import Any


def answer_options(schema: Any, given: Collection[str] = ()) -> str:
    """The options for the fields that a yes must carry, each after a blank, without those in `given`; empty if there are none.

    An answer that is no object comes from a file: ` -i FILE`.
    """
    top = _resolved(schema)
    if "properties" not in top:
        takes_object = top.get("type") in (None, "object")
        return "" if takes_object or given else " -i FILE"
    missing = [name for name in top.get("required") or () if name != "approved" and name not in given]
    return "".join(f" --set {shlex.quote(str(name))}=VALUE" for name in missing)


def _resolved(schema: Any) -> dict[str, Any]:
    """The schema of the whole answer, also where that is a reference; empty if the gate asks for nothing."""
    if not isinstance(schema, dict):
        return {}
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return (schema.get("$defs") or {}).get(name, schema) if name else schema
