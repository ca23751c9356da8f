"""A graph as a document, `flow.graph/1`: what is stored with a run's version, what its hash is made of, what files hold."""

import hashlib
import json
from typing import Any

from flowstone.authoring.requests import Site
from flowstone.graph.building import Places, build
from flowstone.graph.model import MAX_VISITS, Model, Node
from flowstone.graph.references import read, written
from flowstone.journal.versions import Version

SCHEMA = "flow.graph/1"


def document_of(model: Model) -> dict[str, Any]:
    """The document of a graph. Fields that say nothing beyond the defaults are left out."""
    document: dict[str, Any] = {"schema": SCHEMA, "name": model.name}
    _add(document, description=model.description, tags=list(model.tags), start=list(model.declared_start))
    document["nodes"] = {node.id: _node(node) for node in model.nodes.values()}
    if model.has_output:
        document["output"] = written(model.output)
    return document


def version_of(model: Model) -> Version:
    """The version: a hash of topology, inputs, policies and the names of functions, not of descriptions and notes."""
    document = document_of(model)
    text = json.dumps(document, ensure_ascii=False, indent=2)
    for name in ("description", "tags"):
        document.pop(name, None)
    for node in document["nodes"].values():
        node.pop("notes", None)
    return Version(hashlib.sha256(json.dumps(document).encode()).hexdigest()[:12], text)


def model_in(source: str) -> Model | None:
    """The graph whose document was stored as the source of a version; None if it is the source of something else."""
    if not source.startswith(f'{{\n  "schema": "{SCHEMA}"'):
        return None
    document = json.loads(source)
    return model_from(document, document["name"], Places(Site("", 0)))


def model_from(document: dict[str, Any], name: str, places: Places) -> Model:
    """The graph of a document. Raises LoadFailed with every violation."""
    return build(
        name,
        document.get("nodes", {}),
        places,
        read,
        start=document.get("start"),
        output=document.get("output"),
        has_output="output" in document,
        description=document.get("description", ""),
        tags=document.get("tags", ()),
    )


def _node(node: Node) -> dict[str, Any]:
    made: dict[str, Any] = {}
    match node.kind:
        case "step":
            made["run"] = node.function_name
        case "approval":
            made["approval"] = _approval(node) or True
        case "suspend":
            made["suspend"] = True
        case "sleep":
            made["sleep"] = node.duration
    if node.has_input:
        made["input"] = written(node.input)
    if node.branches is not None:
        made["next"] = {branch: list(targets) for branch, targets in node.branches.items()}
    _add(
        made,
        next=list(node.next) or made.get("next"),
        branch=node.branch,
        on_error=list(node.on_error),
        for_each=None if node.for_each is None else written(node.for_each),
        limit=node.limit,
        key=node.key,
        retry_delay=node.retry_delay,
        join=None if node.join == "all" else node.join,
        max_visits=None if node.max_visits == MAX_VISITS else node.max_visits,
        notes=node.notes,
    )
    if node.retries is not None:
        made["retries"] = node.retries
    return made


def _approval(node: Node) -> dict[str, Any]:
    made: dict[str, Any] = {}
    _add(
        made,
        message=written(node.message),
        expiry=node.expiry,
        approvers=None if node.approvers == "any" else node.approvers,
        scope=node.scope,
        schema=None if node.schema is None else getattr(node.schema, "__qualname__", str(node.schema)),
    )
    return made


def _add(made: dict[str, Any], **fields: Any) -> None:
    made.update({name: value for name, value in fields.items() if value not in (None, "", [], ())})
