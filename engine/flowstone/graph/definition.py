"""`graph(…)` of the authors' API: nodes as mappings, made into a workflow whose body interprets them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from pydantic_core import from_json

from flowstone.authoring.definition import MARK, Duration, WorkflowDefinition
from flowstone.authoring.flow import Flow
from flowstone.authoring.inputs import is_whole
from flowstone.errors import BadData, FlowError, FlowMisuse
from flowstone.graph.building import build
from flowstone.graph.document import version_of
from flowstone.graph.model import Model
from flowstone.graph.places import places_in_python
from flowstone.graph.plan import plan_of
from flowstone.graph.references import FORMS, Expression, Ref, Template
from flowstone.values.codec import UNANNOTATED, fits, record


@dataclass(frozen=True)
class Graph:
    """A workflow that is a graph; the loader and `run` of other graphs take it like a function with `@workflow`."""

    model: Model
    definition: WorkflowDefinition = field(repr=False)

    @property
    def name(self) -> str:
        """The workflow's name."""
        return self.model.name

    @property
    def __flowstone__(self) -> WorkflowDefinition:
        return self.definition


class ApprovalSettings(TypedDict, total=False):
    """What `approval` of a node says, as the options of flow.approval do; the message may hold references."""

    message: str | Ref | Template
    expiry: Duration
    approvers: Literal["any", "owner", "not-initiator"]
    scope: str
    schema: type


Targets = str | Sequence[str]


class NodeSettings(TypedDict, total=False):
    """One node. It has one of `run`, `approval`, `suspend`, `sleep`; all else may be left out."""

    run: Callable[..., Any] | Graph | str
    """A function, a workflow (a child run), or the registered name of one."""
    approval: Literal[True] | ApprovalSettings
    """Ask a person. The result has status, approved, data, by, at, comment; the status is the branch."""
    suspend: Literal[True]
    """Stop until `flow resume`."""
    sleep: Duration
    input: Any
    """Data with `ref`, `trigger`, `item` and `template` in it. An object gives the function's parameters by name, unless its
    only parameter takes an object and has another name; anything else is its only argument. Without it an entry gets the run's
    input, an error handler `{"error": {"type", "message", "step"}}`, an item of a fan-out itself, every other node nothing."""
    next: Targets | Mapping[str, Targets]
    """What comes next: all of a list, or by the branch that the node has chosen. Its step calls `current_step().branch("…")`, or
    returns the branch, or `branch` says where in the result it stands."""
    branch: str
    on_error: Targets
    """What comes next when the node has failed for good; the run then goes on."""
    for_each: str | Ref
    """One step for each element of a list: a node whose result it is, or a reference. The results come as a list."""
    mode: Literal["parallel", "sequential"]
    limit: int
    """How many elements at once."""
    key: str
    """The path in an element at which its key stands, for the step `node[key]`."""
    retries: int
    retry_delay: Duration
    join: Literal["all", "any"]
    """With several ways to it: wait for all that were taken (the default), or for the first one."""
    max_visits: int
    """How often a loop may come here."""
    notes: str
    """Counts for nothing."""


def graph(
    name: str,
    *,
    nodes: Mapping[str, Callable[..., Any] | Graph | str | NodeSettings],
    output: Any = UNANNOTATED,
    start: Targets | None = None,
    input: Any = None,
    description: str = "",
    tags: Sequence[str] = (),
) -> Graph:
    """A workflow as a graph of nodes, by id; each is a function, a workflow, the name of one, or a mapping as NodeSettings says.

    `output` is data with references in it; by default the results of the nodes after which nothing comes, by id. `start` names
    the nodes where a run begins; by default those to which nothing leads. `input` is the type of the run's input: a model, a
    dataclass, a TypedDict. Raises LoadFailed with every violation and its place.
    """
    caller = sys._getframe(1)
    model = build(
        name,
        nodes,
        places_in_python(caller.f_code.co_filename, caller.f_lineno),
        _read,
        start=start,
        output=None if output is UNANNOTATED else output,
        has_output=output is not UNANNOTATED,
        description=description,
        tags=tags,
    )
    return graph_of(model, input=input, module=caller.f_globals.get("__name__", __name__))


def graph_of(model: Model, *, input: Any = None, module: str = __name__) -> Graph:
    """The workflow that interprets a model. `module` is where it was written."""
    annotation = UNANNOTATED if input is None else input
    if not is_whole(annotation):
        raise FlowMisuse(f"graph {model.name}: input={input!r}; give a model, a dataclass, a TypedDict or dict")

    async def body(flow: Flow, data: Any = None) -> Any:
        from flowstone.graph.interpreter import interpret

        return await interpret(flow, model, from_json(record(data, annotation).text))

    body.__name__ = body.__qualname__ = model.name
    body.__module__ = module
    body.__annotations__ = {} if input is None else {"data": input}
    if input is not None:
        body.__defaults__ = None

    def require(data: Any, start: str | None, find: Callable[[str], Callable[..., Any] | None]) -> None:
        from flowstone.graph.starting import require_start

        require_start(model, from_json(record(fits(data, annotation, where=model.name), annotation).text), start, find)

    version = version_of(model)
    definition = WorkflowDefinition(
        name=model.name,
        function=body,
        description=model.description,
        tags=model.tags,
        version=version,
        plan=plan_of(model),
        entries=model.entries,
        require=require,
    )
    setattr(body, MARK, definition)
    return Graph(model, definition)


def _read(value: Any) -> Expression:
    """An expression as Python writes it: what is no reference is a literal. Raises BadData for one that cannot be recorded."""
    if isinstance(value, Ref | Template):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key in FORMS:
                raise BadData(f"{key!r} cannot be the key of an object in a graph")
        return {key: _read(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_read(one) for one in value]
    try:
        return from_json(record(value).text)
    except FlowError as refusal:
        raise BadData(refusal.message) from None
