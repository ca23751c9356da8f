"""Expressions of a graph: what a node's input is made of. `ref`, `template`, `item`, `trigger` of the authors' API.

In files an expression is an object with one of the keys of FORMS: `{"$ref": "fetch", "path": "rows.0"}`. Resolving one reads
recorded data (plain JSON) and nothing else.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from flowstone.errors import BadData

FORMS = ("$ref", "$trigger", "$item", "$template")


@dataclass(frozen=True, slots=True)
class Ref:
    """A value that is known when the node starts: a node's result, the run's input or the current item, or a part of it."""

    origin: Literal["node", "trigger", "item"]
    path: str = ""
    """Dotted: keys of objects and places in lists; empty for the whole."""
    node: str = ""
    """The id, for the origin "node"."""

    def __str__(self) -> str:
        named = {"trigger": "the input", "item": "the item"}.get(self.origin, self.node)
        return f"{named}.{self.path}" if self.path else named


@dataclass(frozen=True, slots=True)
class Template:
    """A text with values in it."""

    text: str
    """With `$0`, `$1`, … for the references; `$$` is a dollar."""
    refs: tuple[Ref, ...]


Expression = Any
"""Plain JSON data, with Ref and Template anywhere in it."""
Lookup = Callable[[Ref], Any]

_PLACE = re.compile(r"\$(\$|[0-9]+)")


def ref(node: str, path: str = "") -> Ref:
    """The result of a node's latest finished visit, or the part of it at a dotted path: `ref("fetch", "rows.0.name")`.

    None if the node has not run. Of a node that failed and went on by its `on_error` it is `{"error": {"type", "message", …}}`.
    """
    return Ref("node", path, node)


def trigger(path: str = "") -> Ref:
    """The run's input, or a part of it: `trigger("day")`."""
    return Ref("trigger", path)


def item(path: str = "") -> Ref:
    """The current element of a node with `for_each`, or a part of it."""
    return Ref("item", path)


def template(text: str, *refs: Ref) -> Template:
    """A text with values in it: `template("$0 of $1", ref("count"), trigger("day"))`. Texts go in as they are, None as nothing,
    everything else as JSON. Raises BadData for a place without a reference, or a reference without a place.
    """
    used = {int(found[1]) for found in _PLACE.finditer(text) if found[1] != "$"}
    if beyond := sorted(place for place in used if place >= len(refs)):
        raise BadData(f'template("{text}"): ${beyond[0]} has no reference; there are {len(refs)}, counted from $0')
    if unused := [place for place in range(len(refs)) if place not in used]:
        raise BadData(f'template("{text}"): reference {unused[0]} ({refs[unused[0]]}) is not in the text: write ${unused[0]}')
    return Template(text, refs)


def references(expression: Expression) -> Iterator[Ref]:
    """Every reference in an expression, in its order."""
    match expression:
        case Ref():
            yield expression
        case Template():
            yield from expression.refs
        case dict():
            for value in expression.values():
                yield from references(value)
        case list():
            for value in expression:
                yield from references(value)


def resolve(expression: Expression, lookup: Lookup) -> Any:
    """The data that an expression stands for."""
    match expression:
        case Ref():
            return lookup(expression)
        case Template():
            values = [_as_text(lookup(one)) for one in expression.refs]
            return _PLACE.sub(lambda found: "$" if found[1] == "$" else values[int(found[1])], expression.text)
        case dict():
            return {key: resolve(value, lookup) for key, value in expression.items()}
        case list():
            return [resolve(value, lookup) for value in expression]
    return expression


class NoSuchPart(Exception):
    """A path that leads nowhere; the text says where it ended."""


def part(data: Any, path: str) -> Any:
    """The part of data at a dotted path; None below a None. Raises NoSuchPart."""
    for step in path.split(".") if path else ():
        if data is None:
            return None
        if isinstance(data, dict) and step in data:
            data = data[step]
        elif isinstance(data, list) and step.isascii() and step.isdigit() and int(step) < len(data):
            data = data[int(step)]
        else:
            has = f"{len(data)} items" if isinstance(data, list) else ", ".join(data) if isinstance(data, dict) else "no parts"
            raise NoSuchPart(f'there is no "{step}" in it; it has {has or "no fields"}')
    return data


def written(expression: Expression) -> Any:
    """An expression as it stands in a file."""
    match expression:
        case Ref(origin="node"):
            return {"$ref": expression.node} | ({"path": expression.path} if expression.path else {})
        case Ref():
            return {f"${expression.origin}": expression.path}
        case Template():
            return {"$template": expression.text, "refs": [written(one) for one in expression.refs]}
        case dict():
            return {key: written(value) for key, value in expression.items()}
        case list():
            return [written(value) for value in expression]
    return expression


def read(data: Any) -> Expression:
    """The expression that stands in a file. Raises BadData for a form that is not as it should be."""
    match data:
        case dict():
            forms = [key for key in data if key in FORMS]
            return _read_form(forms[0], data) if forms else {key: read(value) for key, value in data.items()}
        case list():
            return [read(value) for value in data]
    return data


def _read_form(form: str, data: dict[str, Any]) -> Ref | Template:
    match data:
        case {"$ref": str(node), "path": str(path)} if len(data) == 2:
            return ref(node, path)
        case {"$ref": str(node)} if len(data) == 1:
            return ref(node)
        case {"$trigger": str(path)} if len(data) == 1:
            return trigger(path)
        case {"$item": str(path)} if len(data) == 1:
            return item(path)
        case {"$template": str(text), "refs": list(refs)} if len(data) == 2:
            made = [read(one) for one in refs]
            if all(isinstance(one, Ref) for one in made):
                return template(text, *made)
        case {"$template": str(text)} if len(data) == 1:
            return template(text)
    examples = {
        "$ref": '{"$ref": "node", "path": "a.b"}',
        "$trigger": '{"$trigger": "a.b"}, or "" for the whole input',
        "$item": '{"$item": "a.b"}, or "" for the whole item',
        "$template": '{"$template": "… $0 …", "refs": [{"$ref": "node"}]}',
    }
    raise BadData(f"{form} is not as it should be: write {examples[form]}")


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
