"""What became of the nodes that a run has not visited, and why, read from its journal and the graph stored with its version.

The journal has no event for a node that is not visited: which ones are skipped follows from how the others ended. So the way is
walked again here by the same planner, with the recorded completions. No user code, nothing that an author's module needs.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from flowstone.clock import to_datetime
from flowstone.graph.model import Edge, Model, Node
from flowstone.graph.plan import plan_of
from flowstone.graph.planner import Planner, TooManyVisits, Visit
from flowstone.graph.results import GraphFailed, Results, approval_data, chosen_branch, failure_data
from flowstone.journal.events import Event
from flowstone.journal.keys import encoded, key_of
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.plan import plan_document as plan_documents
from flowstone.journal.states import SETTLED, Status, StepStatus

PREFIXES = {"step": "", "approval": "approve:", "suspend": "suspend:", "sleep": "sleep:"}


Cause = Literal["branch", "no failure", "failure handled", "start", "run ended", "skipped"]
ORDER: tuple[Cause, ...] = ("branch", "no failure", "failure handled", "start", "run ended", "skipped")
"""Of several causes the first one is told."""


@dataclass(frozen=True, slots=True)
class Fate:
    """A node that has not been visited, or with which the run ended before its operation began."""

    node: str
    status: Literal["planned", "skipped", "failed"]
    why: str
    """Empty while it may still be visited; of one that failed the error."""
    cause: Cause | None = None
    """Why in one word: skipped by a choice is something else than skipped because a node has failed."""


def fates(model: Model, ledger: Ledger) -> list[Fate]:
    """The nodes that the run has not visited, in their order."""
    way = _Way(model, ledger)
    way.walk()
    may_come = way.planner.may_come()
    found: dict[str, Fate] = {}
    failed = failed_at(ledger)
    for node in model.nodes:
        if node == failed and not way.has_begun(node):
            found[node] = Fate(node, "failed", str((ledger.error or {}).get("message")))
            continue
        if way.planner.visits[node]:
            continue
        if node in may_come and ledger.status not in SETTLED:
            found[node] = Fate(node, "planned", "")
        else:
            why, cause = way.reason(node)
            found[node] = Fate(node, "skipped", why, cause)
    return list(found.values())


def failed_at(ledger: Ledger) -> str | None:
    """The node at which a graph could not go on, if its run failed for that and not with a step."""
    error = ledger.error or {}
    node = (error.get("data") or {}).get("node") if error.get("type") == GraphFailed.__name__ else None
    return node if isinstance(node, str) else None


def plan_document(model: Model, unvisited: list[Fate]) -> list[dict[str, Any]]:
    """`plan[]` of flow.run/1 for a graph: as for a body, and of a node that was not visited its status and why."""
    fate = {one.node: one for one in unvisited}
    made = []
    for entry in plan_documents(plan_of(model)):
        found = fate.get(entry["name"])
        made.append(entry | {"status": None if found is None else found.status, "why": None if found is None else found.why})
    return made


class _Way:
    """The way that a run has taken so far."""

    def __init__(self, model: Model, ledger: Ledger) -> None:
        self.model = model
        self.ledger = ledger
        self.start: str | None = ledger.created.get("start")
        self.planner = Planner(model, self.start)
        self.results = Results(model, ledger.created.get("input"))
        self.chosen: dict[str, str | None] = {}
        """The branch of the latest visit that succeeded, by node."""
        self.failed: set[str] = set()
        """The nodes whose latest visit failed."""
        self._ends: list[tuple[int, int, Visit]] = []
        self._number = 0

    def walk(self) -> None:
        """Take the visits in the order in which they ended, as far as the journal goes."""
        self._expect(self.planner.begin())
        while self._ends:
            _, _, visit = heapq.heappop(self._ends)
            try:
                targets = self._end(self.model.nodes[visit.node], visit.number)
                self._expect([] if targets is None else self.planner.ended(visit, targets))
            except (GraphFailed, TooManyVisits):
                return  # where the run itself came to its end

    def _expect(self, visits: list[Visit]) -> None:
        for visit in visits:
            ended_n = self._ended_n(self.model.nodes[visit.node], visit.number)
            if ended_n is not None:
                heapq.heappush(self._ends, (ended_n, self._number, visit))
                self._number += 1

    def _operations(self, node: Node, number: int) -> list[Operation | None]:
        """The operations of a visit; None for one that has not begun."""
        key = key_of(PREFIXES[node.kind], "", node.id, number)
        if node.for_each is None:
            return [self.ledger.operations.get(key)]
        try:
            keys = self.results.item_keys(node, self.results.items(node))
        except GraphFailed:
            return [None]
        return [self.ledger.operations.get(f"{key}[{encoded(item)}]") for item in keys]

    def _ended_n(self, node: Node, number: int) -> int | None:
        """The number of the event that ended a visit; None while it goes on."""
        completions = list(_completions(self._operations(node, number)))
        failed = any(event is not None and event.kind == "step.failed" for event in completions)
        known = [event.n for event in completions if event is not None]
        if len(known) < len(completions) and not failed:
            return None
        return max(known, default=0)

    def _end(self, node: Node, number: int) -> tuple[str, ...] | None:
        """The edges that a visit has taken; None if the run ends with it."""
        operations = self._operations(node, number)
        failures = [one for one in operations if one is not None and one.status is StepStatus.FAILED]
        if failures:
            first = min(failures, key=lambda one: one.completion.n if one.completion else 0)
            error = first.last.error or {}
            self.failed.add(node.id)
            data = failure_data(str(error.get("type")), str(error.get("message")), first.name)
            self.results.keep(node.id, data, succeeded=False)
            return node.on_error or None
        if not all(one is not None and one.status is StepStatus.SUCCEEDED for one in operations):
            return None  # put down when the run ended
        bodies = [event.body() for event in _completions(operations) if event is not None]
        results = [_data(node, body) for body in bodies]
        result = results if node.for_each is not None else results[0]
        said = None if node.for_each is not None else bodies[0].get("branch")
        self.failed.discard(node.id)
        self.results.keep(node.id, result, succeeded=True)
        self.chosen[node.id] = chosen_branch(node, result, said)
        return self.model.targets(node.id, self.chosen[node.id])

    def has_begun(self, node: str) -> bool:
        """Whether any operation of its latest visit has begun."""
        number = max(0, self.planner.visits[node] - 1)
        return any(one is not None for one in self._operations(self.model.nodes[node], number))

    def reason(self, node: str) -> tuple[str, Cause]:
        """Why no way has led to a node, and its cause."""
        if self.start is not None and node in self.model.entries:
            return f"the run began at {self.start}", "start"
        found = [self._edge_reason(edge) for edge in self.model.edges if edge.target == node]
        texts = dict.fromkeys(text for text, _ in found)
        return "; ".join(texts), min((cause for _, cause in found), key=ORDER.index, default="skipped")

    def _edge_reason(self, edge: Edge) -> tuple[str, Cause]:
        source = edge.source
        if source in self.failed:
            if not self.model.nodes[source].on_error:
                return f"{source} failed", "run ended"
            if edge.kind != "error":
                return f"{source} failed, and that was handled", "failure handled"
        elif source in self.chosen:
            if edge.kind == "error":
                return f"{source} did not fail", "no failure"
            branch = self.chosen[source]
            if edge.target not in self.model.targets(source, branch):
                return f'{source} chose "{branch}"', "branch"
        elif not self.planner.visits[source]:
            return f"{source} was skipped", "skipped"
        return f"the run {_ended(self.ledger)} before it", "run ended"


def _data(node: Node, body: dict[str, Any]) -> Any:
    """The result in the body of a completion."""
    if node.kind != "approval":
        return body.get("result")
    at = None if body.get("at") is None else to_datetime(body["at"])
    return approval_data(body["outcome"], body.get("data"), (body.get("by") or {}).get("user"), at, body.get("comment"))


def _completions(operations: list[Operation | None]) -> Iterator[Event | None]:
    for operation in operations:
        yield None if operation is None else operation.completion


def _ended(ledger: Ledger) -> str:
    return {Status.FAILED: "failed", Status.CANCELLED: "was cancelled"}.get(ledger.status, "ended")
