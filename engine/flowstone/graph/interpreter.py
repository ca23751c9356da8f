"""The body of a graph's workflow: it visits nodes as the planner says, each as an operation of the run's Flow.

An ordinary body: everything that it decides follows from the completions in their order, so a replay goes the same way.
All operations are asked for in the body's own task, so that a node's id is its step's key.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from flowstone.authoring.answers import Answer
from flowstone.authoring.definition import WorkflowDefinition, definition_of, policy_of
from flowstone.authoring.flow import Flow
from flowstone.authoring.requests import Item, NodeOutcome, StepRequest
from flowstone.authoring.sites import placed_at
from flowstone.errors import FlowError
from flowstone.graph.binding import bound
from flowstone.graph.model import Model, Node
from flowstone.graph.planner import Planner, TooManyVisits, Visit
from flowstone.graph.results import GraphFailed, Results, approval_data, chosen_branch, failure_data
from flowstone.values.codec import UNANNOTATED, record, restore
from flowstone.values.failures import StepFailed


async def interpret(flow: Flow, model: Model, trigger: Any) -> Any:
    """Carry a graph out; `trigger` is the run's input as data. Raises the failure of a node without a handler, GraphFailed."""
    return await _Interpreter(flow, model, trigger).run()


@dataclass(slots=True)
class _Running:
    """A visit that goes on: one operation, or one for each item."""

    visit: Visit
    node: Node
    ends_by_itself: bool
    """Whether its operations are steps: neither gates nor sleeps nor children."""
    inputs: list[Any]
    """The items of a fan-out, else one None."""
    keys: list[str] | None = None
    """Of the items; None without for_each."""
    fan_out: str = ""
    cause: str | None = None
    """The node whose failure has led here."""
    started: int = 0
    open: int = 0
    outcomes: dict[int, NodeOutcome] = field(default_factory=dict)
    failure: StepFailed | None = None


class _Interpreter:
    def __init__(self, flow: Flow, model: Model, trigger: Any) -> None:
        self._flow = flow
        self._operations = flow._operations
        self._model = model
        self._planner = Planner(model, self._operations.start_node)
        self._results = Results(model, trigger)
        self._ended: asyncio.Queue[tuple[_Running, int, NodeOutcome | BaseException | None]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._found: dict[str, Callable[..., Any] | None] = {}
        self._open = 0
        """Operations that go on."""
        self._ending_open = 0
        """Those of them that end by themselves."""
        self._failure: Exception | None = None
        """The first thing that ends the run."""

    async def run(self) -> Any:
        self._begin(self._planner.begin())
        # After a failure nothing is begun; steps that run are let end, so that a retry need not repeat them.
        while self._open if self._failure is None else self._ending_open:
            await self._take(*await self._ended.get())
        if self._failure is not None:
            raise self._failure
        try:
            return restore(self._results.output())
        except GraphFailed as refusal:
            vars(refusal).setdefault("site", str(self._model.site))
            raise

    # beginning

    def _begin(self, visits: Iterable[Visit], cause: str | None = None) -> None:
        for visit in visits:
            if self._failure is not None:
                return
            try:
                self._begin_one(visit, cause)
            except GraphFailed as refusal:
                self._failure = refusal.at(self._model.nodes[visit.node])
            except FlowError as refusal:
                self._failure = refusal

    def _begin_one(self, visit: Visit, cause: str | None) -> None:
        node = self._model.nodes[visit.node]
        running = _Running(visit, node, self._is_step(node), [None], cause=cause)
        if node.for_each is not None:
            running.inputs = self._results.items(node)
            running.keys = self._results.item_keys(node, running.inputs)
            with placed_at(node.site):
                running.fan_out = self._operations.fan_out(node.id)
        self._go_on(running)
        if not running.inputs:
            self._count(running)
            self._ended.put_nowait((running, 0, None))

    def _is_step(self, node: Node) -> bool:
        function = self._function(node)
        return function is not None and not isinstance(definition_of(function), WorkflowDefinition)

    def _go_on(self, running: _Running) -> None:
        """Start as many of a visit's operations as may run at once."""
        most = running.node.limit or len(running.inputs)
        while running.started < len(running.inputs) and running.open < most:
            place = running.started
            with placed_at(running.node.site):
                coroutine = self._asked(running, place)
            running.started += 1
            self._count(running)
            task = asyncio.create_task(self._watch(running, place, coroutine))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _count(self, running: _Running) -> None:
        running.open += 1
        self._open += 1
        self._ending_open += running.ends_by_itself

    async def _watch(self, running: _Running, place: int, coroutine: Coroutine[Any, Any, Any]) -> None:
        try:
            outcome = await coroutine
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._ended.put_nowait((running, place, error))
        else:
            self._ended.put_nowait((running, place, _outcome(outcome, running.node)))

    def _asked(self, running: _Running, place: int) -> Coroutine[Any, Any, Any]:
        node, flow = running.node, self._flow
        if node.kind == "sleep":
            return flow.sleep(node.id, node.duration)
        if node.kind == "suspend":
            return flow.suspend(node.id)
        if node.kind == "approval":
            message = str(self._results.value(node.message, f'node "{node.id}"'))
            return flow.approval(
                node.id, schema=node.schema, expiry=node.expiry, approvers=node.approvers, scope=node.scope, message=message
            )
        assert node.function is not None
        request = StepRequest(
            name=node.id,
            function=node.function,
            args=self._arguments(running, place),
            site=node.site,
            policy=policy_of(node.retries, node.retry_delay),
            item=None if running.keys is None else Item(running.fan_out, running.keys[place]),
            of_graph=True,
        )
        return self._operations.ask(request)

    def _arguments(self, running: _Running, place: int) -> tuple[Any, ...]:
        node, function = running.node, self._function(running.node)
        if function is None:
            return ()  # it is not started before it is found, and then bound anew
        if running.keys is not None:
            return bound(node, function, self._results, (running.keys[place], running.inputs[place]))
        if running.cause is not None:
            return bound(node, function, self._results, given=self._results.latest(running.cause))
        given = self._results.trigger if node.id in self._planner.entries else None
        return bound(node, function, self._results, given=given)

    def _function(self, node: Node) -> Callable[..., Any] | None:
        """What a node with `run` calls; None while the function behind a name cannot be found."""
        if not isinstance(node.function, str):
            return node.function
        if node.function not in self._found:
            self._found[node.function] = self._operations.function_of(node.function)
        return self._found[node.function]

    # ending

    async def _take(self, running: _Running, place: int, ending: NodeOutcome | BaseException | None) -> None:
        """One operation of a visit has ended."""
        self._open -= 1
        self._ending_open -= running.ends_by_itself
        running.open -= 1
        if isinstance(ending, StepFailed):
            running.failure = running.failure or ending
        elif isinstance(ending, BaseException):
            raise ending
        elif ending is not None:
            running.outcomes[place] = ending
            for name, value in ending.state.items():
                await self._flow.set_state(name, restore(value))
        if self._failure is not None:
            return
        try:
            if running.failure is None:
                self._go_on(running)
            if not running.open:
                self._finish(running)
        except GraphFailed as refusal:
            self._failure = refusal.at(running.node)
        except TooManyVisits as refusal:
            self._failure = GraphFailed(str(refusal)).at(self._model.nodes[refusal.node])
        except FlowError as refusal:
            self._failure = refusal

    def _finish(self, running: _Running) -> None:
        """A visit has ended: take the edges that follow from how it did."""
        node, failure = running.node, running.failure
        if failure is None:
            results = [running.outcomes[place].data for place in range(len(running.inputs))]
            data = results if running.keys is not None else results[0]
            branch = chosen_branch(node, data, None if running.keys is not None else running.outcomes[0].branch)
            self._results.keep(node.id, data, succeeded=True)
            self._begin(self._planner.ended(running.visit, self._model.targets(node.id, branch)))
        elif node.on_error:
            self._results.keep(node.id, failure_data(failure.type, failure.message, failure.step), succeeded=False)
            self._begin(self._planner.ended(running.visit, node.on_error), cause=node.id)
        else:
            self._failure = failure


def _outcome(value: Any, node: Node) -> NodeOutcome:
    """What an operation has given, as data."""
    if isinstance(value, NodeOutcome):
        return value
    if not isinstance(value, Answer):
        return NodeOutcome(None)
    annotation = UNANNOTATED if node.schema is None else node.schema
    data = None if value.value is None else from_json(record(value.value, annotation).text)
    return NodeOutcome(approval_data(value.status, data, value.by, value.at, value.comment))
