"""A body in one pass: it asks, each operation gets its place and key, completions are handed out one at a time.

Not here: starting anything, writing anything, waiting for anything. `replay` alone answers whether code and journal fit.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, NoReturn
from uuid import UUID, uuid5

from flowstone.authoring.blocking import Baton
from flowstone.authoring.current import CURRENT
from flowstone.authoring.definition import Policy, WorkflowDefinition
from flowstone.authoring.flow import Flow
from flowstone.authoring.requests import (
    ApprovalRequest,
    Request,
    SleepRequest,
    StateRequest,
    StepRequest,
    SuspendRequest,
)
from flowstone.authoring.sites import handled_by_caller, site_of_caller
from flowstone.errors import NotFound
from flowstone.identity import INVOCATIONS
from flowstone.interrupts import Divergence, Interrupt, Misuse, PassOver, RunCancelled
from flowstone.journal.events import Event, Kind
from flowstone.journal.keys import clean_name, encoded
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.ports import Source
from flowstone.running.body_log import BodyLog
from flowstone.running.body_loop import BodyLoop, Branch
from flowstone.running.patches import Reach, skip_marks, skip_to_mark
from flowstone.running.recognition import Difference, Inputs, difference, inputs_of, not_asked_for
from flowstone.running.refusals import Refusals, keep
from flowstone.running.steps.asked import Asked
from flowstone.running.steps.call import AskedStep
from flowstone.running.steps.child import AskedChild
from flowstone.running.steps.gate import AskedApproval, AskedSuspend
from flowstone.running.steps.sleep import AskedSleep
from flowstone.running.steps.state import AskedState
from flowstone.values.codec import restore

_KINDS: dict[type[Any], type[Asked[Any]]] = {
    StepRequest: AskedStep,
    SleepRequest: AskedSleep,
    SuspendRequest: AskedSuspend,
    ApprovalRequest: AskedApproval,
    StateRequest: AskedState,
}


@dataclass(frozen=True, slots=True)
class Program:
    """The code of a run: its workflow, the arguments of the body, and where registered steps are found."""

    workflow: WorkflowDefinition
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    source: Source
    find_step: Callable[[str], Callable[..., Any]]
    find_workflow: Callable[[Any], WorkflowDefinition | None]
    """The workflow that a function or a name given to `flow.do` is, if it is one."""
    policy: Policy
    """What holds for steps that say nothing themselves."""


class Body:
    """The body of one run in one pass. Implements the Operations that its Flow asks."""

    def __init__(self, run_id: str, ledger: Ledger, program: Program, log: Callable[[int, str], None]) -> None:
        created = ledger.created
        self.run_id = run_id
        self.user: str = created["wire"]["user"]
        self.input: Any = created["input"]
        self.start_node: str | None = created.get("start")
        self.now = ledger.created_at
        self.state: dict[str, Any] = {}
        """The run's state as far as the body has come."""
        self.ledger = ledger
        self.asked: dict[str, Asked[Any]] = {}
        """Every operation the body has awaited in this pass, by key, in the order asked for."""
        self.fresh: list[Asked[Any]] = []
        """Those that nobody has started or taken up yet."""
        self.given_up: list[Asked[Any]] = []
        """Those that the body stopped waiting for."""
        self.interrupt: Interrupt | None = None
        """The first that travelled, whatever the body did with it."""
        self.difference: Difference | None = None
        """Between the journal and the code, once the interrupt is a Divergence."""
        self.patches: dict[str, bool] = {}
        """What `flow.patched` has answered in this pass; False once it has been False anywhere."""
        self.cancel: RunCancelled | None = None
        """Set once the run is being cancelled; raised again at every operation but those of a cleanup."""
        self.over = False
        self.live = False
        """Past the frontier."""
        self.log: logging.LoggerAdapter[logging.Logger] = BodyLog(lambda: self.live and not self.over, log)
        self._program = program
        self._same_version = program.source.version == ledger.version
        self._seed: int = created["seed"]
        self._unawaited: dict[str, Asked[Any]] = {}
        self._randoms: dict[str, Random] = {}
        self._handed = 0
        self._last: str | None = None
        self._loop = BodyLoop(own_code=_is_operation)  # type: ignore[abstract]  # it refuses what it has not
        self._refusals = Refusals(self._loop)
        self._reach = Reach(ledger)
        self._main: asyncio.Task[Any] | None = None

    # what the driver does

    def start(self) -> None:
        """Make the body's task; it runs at the first `drain`."""
        function = self._program.workflow.function
        arguments, named = self._program.arguments, self._program.named
        if self._program.workflow.blocking:
            work = Baton().run(function, Flow(self), *arguments, **named)
        else:
            work = function(Flow(self), *arguments, **named)
        self._main = self._loop.create_task(work)

    def drain(self) -> None:
        """Let the body run until it is quiescent. Call it from outside of any task."""
        self._refusals.new_turn()
        self._loop.drain()

    @property
    def ended(self) -> bool:
        """Whether the body has returned or raised, or never will: it swallows every refusal."""
        return self._main is not None and (self._main.done() or self._refusals.endless)

    def result(self) -> Any:
        """What the body returned; raises what it raised."""
        assert self._main is not None
        if self._loop.escaped is not None:
            raise self._loop.escaped
        return self._main.result()

    @property
    def pending_completion(self) -> bool:
        """Whether a completion waits to be handed out."""
        return self._handed < len(self.ledger.completions)

    def hand_out_next(self) -> None:
        """Give the body the next completion in journal order. Raises Divergence if it has not asked for that operation."""
        event = self.ledger.completions[self._handed]
        if event.kind == Kind.RUN_CANCELLING:
            self._hand_out_cancel(event)
            return
        asked = self.asked.get(event.step or "")
        if asked is None:
            operation = self.ledger.operations[event.step or ""]
            if operation.is_patch:  # the code is past that patch
                self._handed += 1
                return
            self._refuse_unasked(operation)
        self._handed += 1
        self._last = event.step
        self.now = event.at
        if event.kind == Kind.STATE_SET and not self.ledger.operations[event.step or ""].is_patch:
            body = event.body()
            self.state[body["state"]] = restore(body["value"])
        asked.hand_out(event)

    def _hand_out_cancel(self, event: Event) -> None:
        """Raise RunCancelled once at each operation that is open, each in its branch."""
        self._handed += 1
        self.now = event.at
        self.cancel = RunCancelled(event.body()["reason"])
        for asked in self.asked.values():
            if asked.future is not None and not asked.future.done():
                asked.future.set_exception(self.cancel)
                asked.dropped = True
                self.given_up.append(asked)

    def replay(self) -> None:
        """Run the body to its frontier: all recorded completions handed out, and it is quiescent. Raises Divergence."""
        self.live = not self.ledger.operations  # nothing is replayed: what it says first has not been kept yet
        self.start()
        self.drain()
        while not isinstance(self.interrupt, Divergence | Misuse) and self.pending_completion and not self.ended:
            self.hand_out_next()
            self.drain()
        if isinstance(self.interrupt, Divergence):
            raise self.interrupt
        if isinstance(self.interrupt, Misuse):
            return  # the pass ends the run with it
        for operation in self.ledger.operations.values():
            if operation.of_body and operation.key not in self.asked and not operation.is_patch:
                self._refuse_unasked(operation)
        self.live = True

    @property
    def source(self) -> Source:
        """The source of the body, with its version."""
        return self._program.source

    @property
    def version(self) -> str:
        """The version of the code that runs."""
        return self._program.source.version

    @property
    def function(self) -> Callable[..., Any]:
        """The author's function."""
        return self._program.workflow.function

    def never_awaited(self) -> Asked[Any] | None:
        """An operation that the body asked for and never awaited, if there is one."""
        return next((asked for asked in self._unawaited.values() if _untouched(asked.coroutine)), None)

    def close(self) -> None:
        """End the pass for the body: its tasks are closed, and what it asks from now on is refused."""
        self.over = True
        for asked in self._unawaited.values():
            if asked.coroutine is not None:
                asked.coroutine.close()
        for task in self._loop.pending():
            task.cancel()
        self._loop.drain(at_most=10_000)
        for task in self._loop.pending():
            keep(task)  # it swallowed its cancelling

    # what the Flow asks

    def ask(self, request: Request) -> Coroutine[Any, Any, Any]:
        """Fix name, branch, position and key of an operation; the coroutine begins it and gives its outcome."""
        workflow = self._program.find_workflow(request.function) if isinstance(request, StepRequest) else None
        kind: type[Asked[Any]] = AskedChild if workflow is not None else _KINDS[type(request)]
        call = f"flow.{_CALLS[kind]}"
        branch = self.require_body(call)
        if self._refusals.endless:
            return self._refusals.never()
        item = request.item if isinstance(request, StepRequest) else None
        if item is not None:  # named by its key, whatever the order in which items are begun
            key = within = f"{item.fan_out}[{encoded(clean_name(item.key, call))}]"
            name, position = f"{request.name}[{item.key}]", 0
        else:
            name, within = clean_name(request.name, call), branch.name
            skip_marks(self.ledger, branch)
            key, position = branch.take_place(kind.prefix, name)
        asked = kind(request, name, key, within, position, self._last)
        if isinstance(asked, AskedStep):
            asked.resolve(self._program.find_step, self._program.policy)
        elif isinstance(asked, AskedChild):
            assert workflow is not None
            asked.resolve(workflow)
        asked.coroutine = self._awaited(asked, in_cleanup=self.cancel is not None)
        self._unawaited[key] = asked
        return asked.coroutine

    def patched(self, patch: str) -> bool:
        """Whether the calling code is reached by a run that was not recorded before the patch existed; that is then recorded."""
        branch = self.require_body("flow.patched")
        name = "patched:" + clean_name(patch, "flow.patched")
        fresh = skip_to_mark(self.ledger, branch, name, passed=not self.live and self._reach.includes(self._last))
        self.patches[patch] = self.patches.get(patch, True) and fresh
        if not fresh:
            return False
        key, position = branch.take_place("", name)
        request = StateRequest(name, True, site_of_caller())
        asked = AskedState(request, name, key, branch.name, position, self._last)
        self._recognise(asked)
        self.asked[key] = asked
        self.fresh.append(asked)
        return True

    def function_of(self, name: str) -> Callable[..., Any] | None:
        """The function of the workflow or step of that name; None while it cannot be found."""
        workflow = self._program.find_workflow(name)
        if workflow is not None:
            return workflow.function
        try:
            return self._program.find_step(name)
        except NotFound:
            return None

    def fan_out(self, name: str) -> str:
        """Take a place for a fan-out; the keys of its items begin with what is returned."""
        branch = self.require_body("flow.map")
        return branch.take_place("", clean_name(name, "flow.map"))[0]

    async def _awaited(self, asked: Asked[Any], *, in_cleanup: bool) -> Any:
        if self.over:
            raise PassOver("this pass of the run has ended")
        if self.cancel is not None and not in_cleanup:
            raise RunCancelled(self.cancel.reason)
        self._unawaited.pop(asked.key, None)
        asked.coroutine = None
        self._recognise(asked)
        asked.future = self._loop.create_future()
        self.asked[asked.key] = asked
        self.fresh.append(asked)
        try:
            return await asked.future
        except asyncio.CancelledError:
            if asked.given_up and not self.over:
                self.given_up.append(asked)
            raise

    def require_body(self, call: str) -> Branch:
        """The branch of the calling task. Refuses a call from inside a step, from elsewhere, or after the pass."""
        inside = CURRENT.get()
        if inside is not None:
            message = f'{call} was called inside the step "{inside.key}": a step cannot ask the run for anything'
            inside.misuse(message)
            self._raise(Misuse(message, hint="move the call into the workflow's body, before or after the step"))
        if self.over:
            self._refusals.refuse(PassOver("this pass of the run has ended"))
        elif self.cancel is not None and not _is_cleaning_up():
            self._refusals.refuse(RunCancelled(self.cancel.reason))
        branch = self._loop.root if self._refusals.endless else self._loop.current_branch()
        if branch is None:
            self._raise(Misuse(f"{call} was called from outside of the workflow's body (a thread or a callback)"))
        return branch

    def cancel_body(self, reason: str) -> NoReturn:
        """Cancel the run from within; it counts even if the body swallows what is raised."""
        self.require_body("flow.cancel")
        self.cancel = RunCancelled(reason)
        raise self.cancel

    @property
    def random(self) -> Random:
        """The random numbers of the calling branch."""
        branch = self.require_body("flow.random").name
        if branch not in self._randoms:
            self._randoms[branch] = Random(f"{self._seed}:{branch}")  # noqa: S311  # not for secrets: it must repeat
        return self._randoms[branch]

    def uuid(self, name: str) -> UUID:
        """The UUID of a name in the calling branch."""
        branch = self.require_body("flow.uuid").name
        return uuid5(INVOCATIONS, f"{self._seed}:{branch}:{name}")

    def _recognise(self, asked: Asked[Any]) -> None:
        record = self.ledger.by_place.get((asked.branch, asked.position))
        if record is not None:
            asked.record = record
            found = difference(self.ledger, record, asked, None if self._same_version else lambda: self._inputs)
            if found is not None:
                self._refuse(found)

    @cached_property
    def _inputs(self) -> Inputs:
        return inputs_of(self.ledger)  # in a replay nothing is added to it

    def _refuse_unasked(self, record: Operation) -> NoReturn:
        self._refuse(not_asked_for(self.ledger, record, same_version=self._same_version))

    def _refuse(self, found: Difference) -> NoReturn:
        self.difference = self.difference or found
        self._raise(Divergence(found.sentence))

    def _raise(self, interrupt: Interrupt) -> NoReturn:
        self.interrupt = self.interrupt or interrupt
        raise interrupt


def _is_cleaning_up() -> bool:
    """Whether the calling code handles RunCancelled right now: in its `except` or `finally`, where it may still run steps."""
    return any(_comes_of_cancel(error) for error in handled_by_caller())


def _comes_of_cancel(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, RunCancelled):
            return True
        if isinstance(error, BaseExceptionGroup) and error.subgroup(RunCancelled) is not None:
            return True
        error = error.__context__
    return False


def _untouched(coroutine: Coroutine[Any, Any, Any] | None) -> bool:
    """Not so for a task's that was cancelled before it began: it was not forgotten."""
    return coroutine is not None and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


def _is_operation(coroutine: Coroutine[Any, Any, Any]) -> bool:
    return getattr(coroutine, "cr_code", None) is Body._awaited.__code__


_CALLS: dict[type[Any], str] = {
    AskedStep: "do",
    AskedChild: "do",
    AskedSleep: "sleep",
    AskedSuspend: "suspend",
    AskedApproval: "approval",
    AskedState: "set_state",
}
