"""A graph from what an author wrote: plain mappings of Python, or of a TOML or JSON file; both give the same model.

Every field is checked here, and the topology by validation.py; what is wrong is told in one report, with its place in the file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from flowstone.authoring.definition import definition_of, policy_of
from flowstone.authoring.requests import Site
from flowstone.errors import BadData, FlowError, LoadFailed
from flowstone.graph.model import MAX_VISITS, Model, Node
from flowstone.graph.references import Expression, Ref, ref
from flowstone.graph.validation import Fault, faults_of
from flowstone.journal.keys import clean_name
from flowstone.values.duration import parse, to_text

DOES = ("run", "approval", "suspend", "sleep")
"""The fields that say what a node does; a node has one of them."""
FIELDS = (
    *DOES,
    *("input", "next", "branch", "on_error", "for_each", "mode", "limit", "key"),
    *("retries", "retry_delay", "join", "max_visits", "notes"),
)
OF_STEPS = frozenset({"input", "for_each", "mode", "limit", "key", "retries", "retry_delay"})
"""The fields that only a node with `run` has."""
OF_APPROVALS = ("message", "expiry", "approvers", "scope", "schema")


@dataclass(frozen=True)
class Places:
    """Where in its file a graph stands, and each of its nodes."""

    graph: Site
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Lines by id, as far as they are known."""
    faults: tuple[Fault, ...] = ()
    """What was seen to be wrong with the text itself."""

    def of(self, node: str | None) -> Site:
        """The place of a node, else of the graph."""
        return Site(self.graph.file, self.nodes.get(node or "", self.graph.line))


Reader = Callable[[Any], Expression]
"""Makes an expression of what stands where one is allowed. Raises BadData."""


def build(
    name: str,
    nodes: Mapping[str, Any],
    places: Places,
    read: Reader,
    *,
    start: Any = None,
    output: Any = None,
    has_output: bool = False,
    description: str = "",
    tags: Sequence[str] = (),
) -> Model:
    """The model of a graph. Raises LoadFailed with every violation in `details`."""
    faults = list(places.faults)
    made: dict[str, Node] = {}
    for id, written in nodes.items():
        builder = _Builder(id, written, places.of(id if isinstance(id, str) else None), read)
        node = builder.node()
        faults += builder.faults
        made[node.id] = node
    whole = _Builder(None, {"start": start, "output": output}, places.graph, read)
    model = Model(
        name=clean_name(name, "graph"),
        nodes=made,
        output=whole.expression("output"),
        has_output=has_output,
        declared_start=() if start is None else whole.ids("start", start),
        description=description,
        tags=tuple(tags),
        site=places.graph,
    )
    faults += whole.faults
    faults += faults_of(model)
    if faults:
        count = f"{len(faults)} faults" if len(faults) > 1 else "a fault"
        raise LoadFailed(f'the graph "{name}" has {count}', details=[_line(fault, places) for fault in faults])
    return model


def _line(fault: Fault, places: Places) -> str:
    where = ".".join(part for part in ("nodes" if fault.node is not None else "", fault.node or "", fault.field) if part)
    return f"{places.of(fault.node)}: {where}: {fault.text}"


class _Builder:
    """Reads one node, and keeps what is wrong with it."""

    def __init__(self, id: Any, written: Any, site: Site, read: Reader) -> None:
        self.faults: list[Fault] = []
        self._id = id
        self._site = site
        self._read = read
        self._written: Mapping[str, Any] = written if isinstance(written, Mapping) else {"run": written}

    def node(self) -> Node:
        """The node, as far as it can be read."""
        written = self._written
        for name in written:
            if name not in FIELDS:
                close = get_close_matches(str(name), FIELDS, n=1)
                self.fault(str(name), "a node has no such field" + (f"; did you mean {close[0]}?" if close else ""))
        does = [name for name in DOES if name in written]
        if len(does) != 1:
            self.fault("", f"a node has one of {', '.join(DOES)}" + (f"; this one has {' and '.join(does)}" if does else ""))
        kind = does[0] if does else "run"
        if kind != "run":
            for name in written:
                if name in OF_STEPS:
                    self.fault(name, f"only a node with run has it, and this is a node with {kind}")
        next, branches = self._next()
        return Node(
            id=self._clean_id(),
            site=self._site,
            kind="step" if kind == "run" else kind,  # type: ignore[arg-type]  # one of DOES
            **(self._step() if kind == "run" else self._approval() if kind == "approval" else {}),
            duration=self._duration("sleep") or "" if kind == "sleep" else "",
            next=next,
            branches=branches,
            branch=self._text("branch"),
            on_error=self.ids("on_error", written.get("on_error", ())),
            join=self._one_of("join", ("all", "any")),
            max_visits=self._count("max_visits") or MAX_VISITS,
            notes=self._text("notes") or "",
        )

    def _clean_id(self) -> str:
        try:
            return clean_name(self._id, "graph")
        except FlowError as refusal:
            self.fault("", refusal.message)
            return str(self._id)

    def _step(self) -> dict[str, Any]:
        function = self._written.get("run")
        if function is None or not (callable(function) or isinstance(function, str) or definition_of(function) is not None):
            self.fault("run", f"a {type(function).__name__} is no step: give a function, a workflow, or the name of one")
        try:
            policy_of(self._written.get("retries"), self._written.get("retry_delay"))
        except FlowError as refusal:
            self.fault("retries", refusal.message)
        for_each, mode = self._for_each(), self._one_of("mode", ("parallel", "sequential"))
        for name in ("mode", "limit", "key"):
            if name in self._written and for_each is None:
                self.fault(name, "only a node with for_each has it")
        if mode == "sequential" and "limit" in self._written:
            self.fault("limit", "a sequential fan-out runs one item at a time")
        return {
            "function": function,
            "function_name": name_of(function),
            "input": self.expression("input"),
            "has_input": "input" in self._written,
            "for_each": for_each,
            "limit": 1 if mode == "sequential" else self._count("limit"),
            "key": self._text("key"),
            "retries": self._written.get("retries"),
            "retry_delay": self._delay(),
        }

    def _delay(self) -> str | None:
        return "exponential" if self._written.get("retry_delay") == "exponential" else self._duration("retry_delay")

    def _approval(self) -> dict[str, Any]:
        given = self._written["approval"]
        if given is True:
            return {}
        if not isinstance(given, Mapping):
            self.fault("approval", f"give true, or an object with any of {', '.join(OF_APPROVALS)}")
            return {}
        inner = _Builder(self._id, given, self._site, self._read)
        for name in given:
            if name not in OF_APPROVALS:
                inner.fault(str(name), f"an approval has {', '.join(OF_APPROVALS)}")
        made = {
            "message": inner.expression("message") or "",
            "expiry": inner._duration("expiry"),
            "approvers": inner._one_of("approvers", ("any", "owner", "not-initiator")),
            "scope": inner._text("scope"),
            "schema": given.get("schema"),
        }
        self.faults += [Fault(fault.node, f"approval.{fault.field}", fault.text) for fault in inner.faults]
        return made

    def _next(self) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]] | None]:
        given = self._written.get("next", ())
        if not isinstance(given, Mapping):
            return self.ids("next", given), None
        return (), {str(branch): self.ids(f"next.{branch}", targets) for branch, targets in given.items()}

    def _for_each(self) -> Ref | None:
        given = self._written.get("for_each")
        if given is None:
            return None
        found = ref(given) if isinstance(given, str) else self.expression("for_each")
        if isinstance(found, Ref):
            return found
        self.fault("for_each", "give the node whose result is the list, or a reference to the list")
        return None

    def expression(self, name: str) -> Expression:
        """The expression in a field; None if there is none."""
        try:
            return self._read(self._written.get(name))
        except BadData as refusal:
            self.fault(name, refusal.message)
            return None

    def ids(self, name: str, given: Any) -> tuple[str, ...]:
        """The ids in a field: one, or a list."""
        if isinstance(given, str):
            return (given,)
        if isinstance(given, list | tuple) and all(isinstance(one, str) for one in given):
            return tuple(given)
        self.fault(name, "give the id of a node, or a list of ids")
        return ()

    def _text(self, name: str) -> str | None:
        given = self._written.get(name)
        if given is None or isinstance(given, str):
            return given
        self.fault(name, f"a {type(given).__name__} is no text")
        return None

    def _count(self, name: str) -> int | None:
        given = self._written.get(name)
        if given is None or (isinstance(given, int) and not isinstance(given, bool) and given >= 1):
            return given
        self.fault(name, "give a whole number from 1")
        return None

    def _duration(self, name: str) -> str | None:
        given: str | timedelta | None = self._written.get(name)
        try:
            return None if given is None else to_text(parse(given))
        except BadData as refusal:
            self.fault(name, refusal.message)
            return None

    def _one_of(self, name: str, allowed: Sequence[str]) -> Any:
        given = self._written.get(name, allowed[0])
        if given not in allowed:
            self.fault(name, f"give {' or '.join(allowed)}")
            return allowed[0]
        return given

    def fault(self, name: str, text: str) -> None:
        """Keep a violation."""
        self.faults.append(Fault(self._id if self._id is None else str(self._id), name, text))


def name_of(function: Any) -> str:
    """The name by which what a node runs is recorded."""
    if isinstance(function, str):
        return function
    definition = definition_of(function)
    if definition is not None:
        return definition.name
    from flowstone.running.functions import function_name

    return function_name(function) if callable(function) else ""
