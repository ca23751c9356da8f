"""`@workflow` and `@step`: they mark a function with its definition and return the function itself.

Not here: finding marked functions in files (loader.py), the Flow that a body gets (flow.py).
"""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from shlex import quote
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

from flowstone.errors import FlowMisuse, UsageError

if TYPE_CHECKING:
    from flowstone.authoring.blocking import BlockingFlow
    from flowstone.authoring.flow import Flow
    from flowstone.journal.plan import Plan
    from flowstone.journal.versions import Version

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Ts = TypeVarTuple("Ts")

MARK = "__flowstone__"
Duration = str | timedelta


@dataclass(frozen=True, slots=True)
class Policy:
    """How a step is attempted; None means: as the settings say."""

    retries: int | None = None
    retry_delay: Duration | None = None
    timeout: Duration | None = None
    no_retry: tuple[type[BaseException], ...] = ()
    repeatable: bool = True

    def over(self, base: "Policy") -> "Policy":
        """This policy where it says something, else `base`."""
        if self is SAYS_NOTHING:
            return base
        return Policy(
            retries=base.retries if self.retries is None else self.retries,
            retry_delay=base.retry_delay if self.retry_delay is None else self.retry_delay,
            timeout=base.timeout if self.timeout is None else self.timeout,
            no_retry=self.no_retry or base.no_retry,
            repeatable=self.repeatable and base.repeatable,
        )


SAYS_NOTHING = Policy()


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """A named function that bodies ask for; still an ordinary function."""

    name: str
    function: Callable[..., Any]
    policy: Policy = SAYS_NOTHING
    description: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkflowDefinition:
    """A named body."""

    name: str
    function: Callable[..., Any]
    description: str = ""
    tags: tuple[str, ...] = ()
    blocking: bool = False
    """A `def` body, which runs with BlockingFlow."""
    version: "Version | None" = None
    """Of a body that was not read from source: a graph's."""
    plan: "Plan | None" = None
    """Likewise."""
    entries: tuple[str, ...] = ()
    """The nodes of a graph at which a run may begin."""
    require: "Callable[[Any, str | None, Callable[[str], Callable[..., Any] | None]], None] | None" = None
    """Of a graph: raises what a run could only fail with, given its input as data, where it begins, and how names are found."""

    @property
    def summary(self) -> str:
        """The first line of the description, for lists."""
        return self.description.strip().partition("\n")[0]


@dataclass(frozen=True)
class Done(Generic[R, Unpack[Ts]]):
    """What an undo gets: the step's arguments, its result (None when the outcome is unknown), and which step it was."""

    args: tuple[Unpack[Ts]]
    result: R
    outcome: str
    """"succeeded" or "unknown"."""
    step: str
    invocation_id: str


@dataclass(frozen=True)
class Failed(Generic[Unpack[Ts]]):
    """What an on_error handler gets: the step's arguments and its final error."""

    args: tuple[Unpack[Ts]]
    error: Exception
    step: str


def require_entry(workflow: WorkflowDefinition, node: str | None) -> None:
    """Raise UsageError unless a run of the workflow may begin at that node of it; None is its own beginning."""
    if node is None or node in workflow.entries:
        return
    if not workflow.entries:
        raise UsageError(
            f"{workflow.name} is no graph: its runs begin at its first line", hint=f"flow show {quote(workflow.name)}"
        )
    entries = ", ".join(f'"{entry}"' for entry in workflow.entries)
    raise UsageError(
        f'"{node}" is no entry of {workflow.name}; a run begins at {entries}', hint=f"flow show {quote(workflow.name)}"
    )


def definition_of(function: object) -> StepDefinition | WorkflowDefinition | None:
    """The definition that a decorator left on a function; None for an undecorated one."""
    found = getattr(function, MARK, None)
    return found if isinstance(found, StepDefinition | WorkflowDefinition) else None


@overload
def step(fn: F, /) -> F: ...


@overload
def step(
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Sequence[str] = (),
    retries: int | None = None,
    retry_delay: Duration | None = None,
    timeout: Duration | None = None,
    no_retry: Sequence[type[BaseException]] = (),
    repeatable: bool = True,
) -> Callable[[F], F]: ...


def step(
    fn: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Sequence[str] = (),
    retries: int | None = None,
    retry_delay: Duration | None = None,
    timeout: Duration | None = None,
    no_retry: Sequence[type[BaseException]] = (),
    repeatable: bool = True,
) -> F | Callable[[F], F]:
    """Mark a function as a step that bodies can ask for by its name.

    The policy given here holds wherever the step is used, unless the call says otherwise. `no_retry` takes exception classes.
    Raises FlowMisuse at once for a policy that means nothing.
    """
    policy = policy_of(retries, retry_delay, timeout, no_retry, repeatable)

    def mark(function: F) -> F:
        definition = StepDefinition(
            name=name or function.__name__,
            function=function,
            policy=policy,
            description=description if description is not None else inspect.getdoc(function) or "",
            tags=tuple(tags),
        )
        setattr(function, MARK, definition)
        return function

    return mark if fn is None else mark(fn)


@overload
def workflow(
    fn: Callable[Concatenate["Flow", P], Coroutine[Any, Any, R]], /
) -> Callable[Concatenate["Flow", P], Coroutine[Any, Any, R]]: ...


@overload
def workflow(fn: Callable[Concatenate["BlockingFlow", P], R], /) -> Callable[Concatenate["BlockingFlow", P], R]: ...


@overload
def workflow(*, name: str | None = None, description: str | None = None, tags: Sequence[str] = ()) -> Callable[[F], F]: ...


def workflow(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Sequence[str] = (),
) -> Callable[..., Any]:
    """Mark a function as a workflow's body; its first parameter is the Flow.

    Raises FlowMisuse for a function without parameters.
    """

    def mark(function: F) -> F:
        if not inspect.signature(function).parameters:
            raise FlowMisuse(
                f"the workflow {function.__name__} takes no parameter; its first one is the flow",
                hint=f"async def {function.__name__}(flow: Flow, ...)",
            )
        _refuse_a_mix(function)
        definition = WorkflowDefinition(
            name=name or function.__name__,
            function=function,
            description=description if description is not None else inspect.getdoc(function) or "",
            tags=tuple(tags),
            blocking=not inspect.iscoroutinefunction(function),
        )
        setattr(function, MARK, definition)
        return function

    return mark if fn is None else mark(fn)


def _refuse_a_mix(function: Callable[..., Any]) -> None:
    """An `async def` body takes a Flow, a `def` body a BlockingFlow: the other way round nothing would be awaited."""
    first = next(iter(inspect.signature(function).parameters.values()))
    annotation = first.annotation if isinstance(first.annotation, str) else getattr(first.annotation, "__name__", "")
    is_async, name = inspect.iscoroutinefunction(function), annotation.rpartition(".")[2]
    if (is_async and name == "BlockingFlow") or (not is_async and name == "Flow"):
        cure = f"async def {function.__name__}(flow: Flow, ...), or def {function.__name__}(flow: BlockingFlow, ...)"
        kind = "async def" if is_async else "def"
        raise FlowMisuse(f"the workflow {function.__name__} is {kind} but its first parameter is a {name}", hint=cure)


def policy_of(
    retries: int | None = None,
    retry_delay: Duration | None = None,
    timeout: Duration | None = None,
    no_retry: Sequence[type[BaseException]] = (),
    repeatable: bool = True,
) -> Policy:
    """The policy with what an author gave. Raises FlowMisuse or BadData, naming what in it means nothing."""
    if retries is None and retry_delay is None and timeout is None and not no_retry and repeatable:
        return SAYS_NOTHING
    policy = Policy(retries, retry_delay, timeout, tuple(no_retry), repeatable)
    if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
        raise FlowMisuse(f"retries={retries!r}: give a whole number from 0; attempts are retries + 1")
    for kind in policy.no_retry:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise FlowMisuse(f"no_retry={kind!r}: give exception classes")
    from flowstone.values.duration import parse  # authors' modules import this file; keep it light

    if policy.retry_delay not in (None, "exponential"):
        parse(policy.retry_delay)
    if policy.timeout is not None:
        parse(policy.timeout)
    return policy
