"""Where the nodes of a graph stand in its file, so that a fault and a step name their line. Read from text; nothing is run."""

import ast
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from flowstone.authoring.requests import Site
from flowstone.graph.building import Places
from flowstone.graph.validation import Fault


def places_in_python(file: str, line: int) -> Places:
    """The places of the `graph(…)` that is called at that line; only the call's if the source cannot be read."""
    graph = Site(file, line)
    call = next((node for node in _calls(file) if node.lineno <= line <= (node.end_lineno or node.lineno)), None)
    nodes = None if call is None else _argument(call, "nodes")
    if not isinstance(nodes, ast.Dict):
        return Places(graph)
    keys = [(key.value, key.lineno) for key in nodes.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return Places(graph, dict(keys), tuple(_twice(keys)))


def _calls(file: str) -> Iterator[ast.Call]:
    """The calls with an argument nodes, the last ones first."""
    every = ast.walk(_tree(file) or ast.Module([], []))
    found = [node for node in every if isinstance(node, ast.Call) and _argument(node, "nodes") is not None]
    yield from sorted(found, key=lambda node: -node.lineno)


@lru_cache(maxsize=8)
def _tree(file: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _argument(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _twice(keys: Iterable[tuple[str, int]]) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for key, line in keys:
        if key in seen:
            yield Fault(key, "", f"the node is there twice, in lines {seen[key]} and {line}: only the last one would count")
        seen.setdefault(key, line)


def places_in_toml(file: str, text: str, ids: Iterable[str]) -> Places:
    """The places of a TOML file: tables `[nodes.ID]`, else lines `ID = {`."""
    lines = text.split("\n")
    return Places(Site(file, 1), {id: line for id in ids if (line := _line_of(lines, id)) is not None})


def _line_of(lines: list[str], id: str) -> int | None:
    name = rf"(?:{re.escape(id)}|\"{re.escape(id)}\"|'{re.escape(id)}')"
    for pattern in (rf"\s*\[\s*nodes\s*\.\s*{name}\s*[\].]", rf"\s*(?:nodes\s*\.\s*)?{name}\s*[.=]"):
        for number, line in enumerate(lines, 1):
            if re.match(pattern, line):
                return number
    return None


def places_in_json(file: str, text: str, ids: Iterable[str]) -> Places:
    """The places of a JSON file: the first line in which the id is a key."""
    found = {}
    for id in ids:
        key = re.search(re.escape(json.dumps(id)) + r"\s*:", text)
        if key is not None:
            found[id] = text.count("\n", 0, key.start()) + 1
    return Places(Site(file, 1), found)


def pairs_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a JSON file. Raises ValueError for a key that is there twice."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f'the key "{key}" is there twice in one object')
        made[key] = value
    return made
