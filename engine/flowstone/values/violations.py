"""What is wrong with data from outside, in people's words: one violation per path, never the value itself."""

import difflib
from typing import Any, NamedTuple

from pydantic import ValidationError

from flowstone.values.fields import fields_of, inside, word
from flowstone.values.json_tree import member

SHOULD_BE = {
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "string": "text",
    "bytes": "text",
    "bool": "true or false",
    "none": "null",
    "datetime": "a date and time",
    "date": "a date",
    "time": "a time",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen": "a list",
    "dict": "an object",
    "model": "an object",
    "dataclass": "an object",
    "uuid": "a UUID",
}
"""By the first word of pydantic's error type."""
KINDS = {"type", "parsing", "from", "exact", "attributes", "set", "sub", "class"}
"""Second words that mean: another type. Others (`string_too_short`) speak about the value."""


class Violation(NamedTuple):
    """Where and what: `$.version`, `missing (text)`."""

    path: str
    said: str


def violations(error: ValidationError, data: Any, annotation: Any) -> list[Violation]:
    """Pydantic's errors by JSON path; several at one path (a union) become one."""
    found: dict[str, list[str]] = {}
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        path, said = _violation(item["type"], item["loc"], item["msg"], data, annotation)
        said = said.removeprefix("should be ") if path in found and said.startswith("should be ") else said
        if said not in found.setdefault(path, []):
            found[path].append(said)
    return [Violation(path, " or ".join(said)) for path, said in found.items()]


def _violation(kind: str, loc: tuple[int | str, ...], message: str, data: Any, annotation: Any) -> Violation:
    path, here, of = "$", data, annotation
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if isinstance(part, str) and isinstance(here, dict) and (part in here or (last and kind.startswith("missing"))):
            path, here, holder, of = member(path, part), here.get(part), of, inside(of, part)
        elif isinstance(part, int) and isinstance(here, list) and (part < len(here) or last):
            path, here, of = f"{path}[{part}]", here[part] if part < len(here) else None, inside(of, part)
        else:
            continue  # a union's member or a validator's name, which is no place in the data
        if last and kind in ("extra_forbidden", "unexpected_keyword_argument"):
            return Violation(path, _not_expected(str(part), fields_of(holder) or {}))
    if kind.startswith("missing"):
        return Violation(path, f"missing ({word(of)})")
    first, _, rest = kind.partition("_")
    if first in SHOULD_BE and rest.split("_")[0] in KINDS:
        return Violation(path, f"should be {SHOULD_BE[first]}")
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ").replace("Input should", "should")
    return Violation(path, message[:1].lower() + message[1:] if message[1:2].islower() else message)


def _not_expected(name: str, fields: dict[str, Any]) -> str:
    near = difflib.get_close_matches(name, fields, n=1)
    return f"not expected; did you mean {near[0]}?" if near else "not expected"


def unknown_fields(data: Any, annotation: Any) -> list[Violation]:
    """Names in the data that no field has, whatever the model's own settings do with them."""
    found = []
    stack = [("$", data, annotation)]
    while stack:
        path, here, of = stack.pop()
        if isinstance(here, dict):
            fields = fields_of(of)
            for key, child in here.items():
                if fields is not None and key not in fields:
                    found.append(Violation(member(path, key), _not_expected(key, fields)))
                else:
                    stack.append((member(path, key), child, inside(of, key)))
        elif isinstance(here, list):
            stack += [(f"{path}[{index}]", child, inside(of, index)) for index, child in enumerate(here)]
    return found


def lines(found: list[Violation]) -> list[str]:
    """The violations as aligned lines, each path once."""
    once = {violation.path: violation.said for violation in reversed(found)}
    ordered = list(dict.fromkeys(violation.path for violation in found))
    width = min(40, max(map(len, ordered), default=0))
    return [f"{path.ljust(width)}  {once[path]}" for path in ordered]
