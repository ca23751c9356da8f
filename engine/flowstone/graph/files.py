"""Graphs in files: `NAME.graph.toml` and `NAME.graph.json` beside the workflows, for wiring steps without writing Python."""

import json
import tomllib
from pathlib import Path
from typing import Any

from flowstone.authoring.loader import Library
from flowstone.errors import LoadFailed
from flowstone.graph.definition import Graph, graph_of
from flowstone.graph.document import SCHEMA, model_from
from flowstone.graph.places import pairs_once, places_in_json, places_in_toml

FIELDS = ("schema", "name", "description", "tags", "start", "nodes", "output")


def library(folder: Path, root: Path) -> Library:
    """The library of a folder, graphs in files included."""
    return Library(folder, root, read_graph=read_graph)


def read_graph(file: Path, name: str) -> Graph:
    """The graph in a file. Raises LoadFailed with every violation and its line."""
    text = file.read_bytes().decode("utf-8", errors="replace")
    is_toml = file.suffix == ".toml"
    try:
        document: Any = tomllib.loads(text) if is_toml else json.loads(text, object_pairs_hook=pairs_once)
    except (ValueError, RecursionError) as error:
        raise LoadFailed(f'cannot load the workflow "{name}": {file}: {error}') from None
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, dict):
        raise LoadFailed(f"{file}: a graph has an object (in TOML tables) nodes, with what each node does by its id")
    unknown = [key for key in document if key not in FIELDS]
    if unknown or document.get("schema", SCHEMA) != SCHEMA:
        raise LoadFailed(f"{file}: a graph has {', '.join(FIELDS)}; this one has {', '.join(unknown) or 'another schema'}")
    places = (places_in_toml if is_toml else places_in_json)(str(file), text, nodes)
    return graph_of(model_from(document, name, places))
