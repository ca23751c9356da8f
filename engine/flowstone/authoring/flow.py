"""The Flow: what a body asks its run for. Each call fixes what it asks at once and returns a coroutine.

Not here: carrying it out. A pass (running/) hands a Flow its `Operations`.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from types import MappingProxyType
from typing import Any, Concatenate, Literal, NoReturn, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload
from uuid import UUID

from flowstone.authoring.answers import Answer
from flowstone.authoring.definition import Done, Failed, policy_of
from flowstone.authoring.fan_out import MapResult, Winner, keys_of, run_map, run_race
from flowstone.authoring.operations import Operations
from flowstone.authoring.requests import (
    ApprovalRequest,
    Item,
    SleepRequest,
    StateRequest,
    StepRequest,
    SuspendRequest,
)
from flowstone.authoring.shell import ShellResult, run_program
from flowstone.authoring.sites import site_of_caller
from flowstone.clock import from_datetime, to_datetime
from flowstone.errors import BadData
from flowstone.values.duration import parse

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
T = TypeVar("T")
D = TypeVar("D")
P = ParamSpec("P")
Coro = Coroutine[Any, Any, R]
"""Not an awaitable: `TaskGroup.create_task` takes coroutines only."""
Duration = str | timedelta
Approvers = Literal["any", "owner", "not-initiator"]


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
        policy = policy_of(retries, retry_delay, timeout, no_retry)
        return self._operations.ask(
            StepRequest(
                name=name,
                function=fn,
                args=args,
                site=site_of_caller(),
                policy=policy,
                undo=undo,
                on_error=on_error,
                actor=actor,
                description=description,
            )
        )

    @overload
    def map(
        self,
        name: str,
        fn: Callable[[D], Coro[R]],
        items: Iterable[D],
        /,
        *,
        key: Callable[[D], str] | None = None,
        limit: int | None = None,
        failures: Literal["raise"] = "raise",
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        undo: Callable[[Done[R, D]], object] | None = None,
    ) -> Coro[list[R]]: ...

    @overload
    def map(
        self,
        name: str,
        fn: Callable[[D], Coro[R]],
        items: Iterable[D],
        /,
        *,
        key: Callable[[D], str] | None = None,
        limit: int | None = None,
        failures: Literal["collect"],
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        undo: Callable[[Done[R, D]], object] | None = None,
    ) -> Coro[MapResult[R]]: ...

    @overload
    def map(
        self,
        name: str,
        fn: Callable[[D], R],
        items: Iterable[D],
        /,
        *,
        key: Callable[[D], str] | None = None,
        limit: int | None = None,
        failures: Literal["raise"] = "raise",
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        undo: Callable[[Done[R, D]], object] | None = None,
    ) -> Coro[list[R]]: ...

    @overload
    def map(
        self,
        name: str,
        fn: Callable[[D], R],
        items: Iterable[D],
        /,
        *,
        key: Callable[[D], str] | None = None,
        limit: int | None = None,
        failures: Literal["collect"],
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        undo: Callable[[Done[R, D]], object] | None = None,
    ) -> Coro[MapResult[R]]: ...

    @overload
    def map(
        self,
        name: str,
        fn: str,
        items: Iterable[Any],
        /,
        *,
        key: Callable[[Any], str] | None = None,
        limit: int | None = None,
        failures: Literal["raise", "collect"] = "raise",
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        undo: Callable[..., object] | None = None,
    ) -> Coro[Any]: ...

    def map(
        self,
        name: str,
        fn: Callable[..., Any] | str,
        items: Iterable[Any],
        /,
        *,
        key: Callable[[Any], str] | None = None,
        limit: int | None = None,
        failures: Literal["raise", "collect"] = "raise",
        retries: int | None = None,
        retry_delay: Duration | None = None,
        timeout: Duration | None = None,
        no_retry: tuple[type[BaseException], ...] = (),
        undo: Callable[..., object] | None = None,
    ) -> Coro[Any]:
        """Run `fn(item)` for every item, each as a step `name[key]`; results come in the order of the items.

        `fn` is a step or a workflow. `key` names an item (its index by default): a resumed run repeats only what is unfinished,
        whatever the order. `limit` is how many run at once. With `failures="collect"` the outcome is a MapResult; otherwise the
        first failure is raised and what still runs is cancelled.
        """
        if failures not in ("raise", "collect"):
            raise BadData(f'failures="{failures}": give "raise" or "collect"')
        if limit is not None and limit < 1:
            raise BadData(f"limit={limit}: give a whole number from 1")
        policy = policy_of(retries, retry_delay, timeout, no_retry)
        all_items, site, fan_out = list(items), site_of_caller(), self._operations.fan_out(name)
        keys = keys_of(name, all_items, key)

        def ask(index: int) -> Coro[Any]:
            item = Item(fan_out, keys[index])
            request = StepRequest(name, fn, (all_items[index],), site, policy=policy, undo=undo, item=item)
            return self._operations.ask(request)

        return run_map(keys, ask, limit, failures)

    def race(self, contestants: Mapping[str, Coro[Any]]) -> Coro[Winner]:
        """Await the first of several operations to end, as in `flow.race({"yes": flow.approval("ok"), "late": flow.sleep(...)})`.

        Gives its name and its value; raises its error if it failed. The others are cancelled; one that has an `undo` is let end,
        and undone if it succeeded.
        """
        if not contestants:
            raise BadData("flow.race: nobody races; give a dict of operations")
        return run_race(dict(contestants))

    def shell(
        self,
        name: str,
        argv: Sequence[str],
        /,
        *,
        timeout: Duration | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        retries: int | None = None,
        retry_delay: Duration | None = None,
        undo: Callable[..., object] | None = None,
        on_error: Callable[..., object] | None = None,
        description: str | None = None,
    ) -> Coro[ShellResult]:
        """Run a program as a step: no shell reads `argv`. Its output goes to the log; an exit code other than 0 is a failure.

        When an attempt ends early (timeout, cancel) the program's whole process group is ended. `env` is recorded: no secrets.
        """
        if isinstance(argv, str):
            raise BadData(f'flow.shell("{name}"): argv is text; give a list, as in ["tar", "-czf", "x.tgz", "."]')
        policy = policy_of(retries, retry_delay, timeout)
        return self._operations.ask(
            StepRequest(
                name=name,
                function=run_program,
                args=(list(argv), cwd, None if env is None else dict(env)),
                site=site_of_caller(),
                policy=policy,
                undo=undo,
                on_error=on_error,
                description=description,
            )
        )

    # state and waiting

    def set_state(self, name: str, value: Any) -> Coro[None]:
        """Set a named value of the run's state, durably; `flow state` and `flow.state` show it."""
        return self._operations.ask(StateRequest(name=name, value=value, site=site_of_caller()))

    @property
    def state(self) -> Mapping[str, Any]:
        """The run's state as far as this body has come; read only."""
        return MappingProxyType(dict(self._operations.state))

    def sleep(self, name: str, duration: Duration) -> Coro[None]:
        """Wait; the instant of waking is recorded, so a crash does not start the wait anew.

        `duration` is text such as "500ms", "2s", "10m", "2d", or a timedelta.
        """
        return self._operations.ask(SleepRequest(name=name, site=site_of_caller(), duration=parse(duration)))

    def sleep_until(self, name: str, moment: datetime) -> Coro[None]:
        """Wait until an instant. Raises BadData for a naive datetime: nobody knows its instant."""
        if moment.tzinfo is None:
            raise BadData(
                f'flow.sleep_until("{name}"): {moment} has no time zone, so it is no instant',
                hint="give tzinfo=, as in datetime(2030, 1, 1, tzinfo=UTC)",
            )
        return self._operations.ask(SleepRequest(name=name, site=site_of_caller(), until=from_datetime(moment)))

    def suspend(self, reason: str) -> Coro[None]:
        """Stop here until a person types `flow resume RUN`."""
        return self._operations.ask(SuspendRequest(name=reason, site=site_of_caller()))

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
                site=site_of_caller(),
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

    def patched(self, patch: str) -> bool:
        """Whether this run goes the new way: true for runs that get here fresh, false for those recorded before the call existed.

        So that code may change under runs that are going on: `if flow.patched("two reviewers"): … else: the old way`. Which way a
        run went is recorded, once.
        """
        return self._operations.patched(patch)

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
