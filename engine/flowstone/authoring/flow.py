"""The Flow: what a body asks its run for. Each call fixes what it asks at once and returns a coroutine.

Not here: carrying it out. A pass (running/) hands a Flow its `Operations`.
"""

import logging
import sys
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Concatenate, Literal, NoReturn, ParamSpec, Protocol, TypeVar, TypeVarTuple, Unpack, overload
from uuid import UUID

from flowstone.authoring.answers import Answer
from flowstone.authoring.definition import Done, Failed, Policy, checked
from flowstone.authoring.requests import ApprovalRequest, Request, Site, SleepRequest, StepRequest, SuspendRequest
from flowstone.clock import to_datetime
from flowstone.errors import BadData
from flowstone.values.duration import parse

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
T = TypeVar("T")
P = ParamSpec("P")
Coro = Coroutine[Any, Any, R]
"""Not an awaitable: `TaskGroup.create_task` takes coroutines only."""
Duration = str | timedelta
Approvers = Literal["any", "owner", "not-initiator"]


class Operations(Protocol):
    """What carries a body's requests out: one pass of one run."""

    run_id: str
    user: str
    input: Any
    log: "logging.LoggerAdapter[logging.Logger]"
    now: int

    @property
    def random(self) -> Random:
        """Random numbers that are the same at every replay."""
        ...

    def ask(self, request: Request) -> Coro[Any]:
        """Fix the operation's identity now; the coroutine gives its outcome."""
        ...

    def uuid(self, name: str) -> UUID:
        """The same UUID for the same name in the same branch of the run, at every replay."""
        ...

    def require_body(self, call: str) -> object:
        """Refuse the call unless it comes from the body of a pass that is going on."""
        ...

    def cancel_body(self, reason: str) -> NoReturn:
        """Cancel the run; it counts even if the body swallows what is raised."""
        ...


class Flow:
    """What a body gets as its first argument. Every awaited call is recorded once and never done again after that.

    Names, positions and keys are fixed at the call, so `gather(flow.do("a", f), flow.do("b", g))` is as good as two awaits.
    """

    __slots__ = ("_operations",)

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    # steps

    @overload
    def do(
        self,
        name: str,
        fn: Callable[Concatenate["Flow", P], Coro[R]],
        /,
        *args: Any,
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        actor: str | None = None,
        description: str | None = None,
    ) -> Coro[R]: ...

    @overload
    def do(
        self,
        name: str,
        fn: Callable[[Unpack[Ts]], Coro[R]],
        /,
        *args: Unpack[Ts],
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        on_error: Callable[[Failed[Unpack[Ts]]], object] | None = None,
        undo: Callable[[Done[R, Unpack[Ts]]], object] | None = None,
        actor: str | None = None,
        description: str | None = None,
    ) -> Coro[R]: ...

    @overload
    def do(
        self,
        name: str,
        fn: Callable[[Unpack[Ts]], R],
        /,
        *args: Unpack[Ts],
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        on_error: Callable[[Failed[Unpack[Ts]]], object] | None = None,
        undo: Callable[[Done[R, Unpack[Ts]]], object] | None = None,
        actor: str | None = None,
        description: str | None = None,
    ) -> Coro[R]: ...

    @overload
    def do(
        self,
        name: str,
        fn: str,
        /,
        *args: Any,
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        on_error: Callable[..., object] | None = None,
        undo: Callable[..., object] | None = None,
        actor: str | None = None,
        description: str | None = None,
    ) -> Coro[Any]: ...

    def do(  # type: ignore[misc]  # mypy cannot see that *args: Any takes *args: *Ts
        self,
        name: str,
        fn: Callable[..., Any] | str,
        /,
        *args: Any,
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        on_error: Callable[..., object] | None = None,
        undo: Callable[..., object] | None = None,
        actor: str | None = None,
        description: str | None = None,
    ) -> Coro[Any]:
        """Run `fn(*args)` as the step `name`: once it has succeeded its result is recorded and never computed again.

        `fn` is a function (`async def`, or `def`, which runs in a thread), the registered name of a step, or a closure without
        arguments. Positional arguments are the recorded input. `retries` counts the attempts after the first; `retry_delay` and
        `timeout` are durations. A final failure is raised as StepFailed, which is also the author's own exception class.
        """
        policy = Policy(retries, retry_delay, timeout, tuple(no_retry))
        if policy != Policy():
            checked(policy)
        return self._operations.ask(
            StepRequest(
                name=name,
                function=fn,
                args=args,
                site=_site(),
                policy=policy,
                undo=undo,
                on_error=on_error,
                actor=actor,
                description=description,
            )
        )

    # waiting

    def sleep(self, name: str, duration: Duration) -> Coro[None]:
        """Wait; the instant of waking is recorded, so a crash does not start the wait anew.

        `duration` is text such as "500ms", "2s", "10m", "2d", or a timedelta.
        """
        return self._operations.ask(SleepRequest(name=name, site=_site(), duration=parse(duration)))

    def suspend(self, reason: str) -> Coro[None]:
        """Stop here until a person types `flow resume RUN`."""
        return self._operations.ask(SuspendRequest(name=reason, site=_site()))

    @overload
    def approval(
        self,
        reason: str,
        *,
        schema: type[T],
        expiry: Duration | None = None,
        approvers: Approvers = "any",
        scope: str | None = None,
        message: str = "",
    ) -> Coro[Answer[T]]: ...

    @overload
    def approval(
        self,
        reason: str,
        *,
        schema: None = None,
        expiry: Duration | None = None,
        approvers: Approvers = "any",
        scope: str | None = None,
        message: str = "",
    ) -> Coro[Answer[dict[str, Any]]]: ...

    def approval(
        self,
        reason: str,
        *,
        schema: Any = None,
        expiry: Duration | None = None,
        approvers: Approvers = "any",
        scope: str | None = None,
        message: str = "",
    ) -> Coro[Answer[Any]]:
        """Ask a person: `flow approve RUN REASON` says yes, `flow reject` says no, and after `expiry` it is "expired".

        `schema` is the type of the data that comes with a yes. `approvers`: "any", "owner" (who started the run), or
        "not-initiator" (anybody else). `message` is shown to whoever is asked.
        """
        if approvers not in ("any", "owner", "not-initiator"):
            raise BadData(f'approvers="{approvers}": give "any", "owner" or "not-initiator"')
        return self._operations.ask(
            ApprovalRequest(
                name=reason,
                site=_site(),
                schema=schema,
                expiry=None if expiry is None else parse(expiry),
                approvers=approvers,
                scope=scope,
                message=message,
            )
        )

    def cancel(self, reason: str) -> NoReturn:
        """End the run as cancelled."""
        self._operations.cancel_body(reason)

    # what writes nothing

    def now(self) -> datetime:
        """The instant of the last completion that the body was given (at first, of the run's creation), in UTC."""
        self._operations.require_body("flow.now")
        return to_datetime(self._operations.now)

    @property
    def random(self) -> Random:
        """Random numbers from the run's recorded seed: the same ones at every replay."""
        self._operations.require_body("flow.random")
        return self._operations.random

    def uuid(self, name: str) -> UUID:
        """A UUID that is the same at every replay, one per name and branch."""
        self._operations.require_body("flow.uuid")
        return self._operations.uuid(name)

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger that is silent while recorded history is replayed."""
        return self._operations.log

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._operations.run_id

    @property
    def user(self) -> str:
        """The user who started the run."""
        return self._operations.user

    @property
    def input(self) -> Any:
        """The run's input as plain JSON data."""
        return self._operations.input


_HERE = str(Path(__file__))


def _site() -> Site:
    """The author's line: the nearest frame outside of this file."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == _HERE and frame.f_back is not None:
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)
