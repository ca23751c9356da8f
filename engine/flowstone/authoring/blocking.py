"""BlockingFlow: the Flow of a `def` body. The same verbs; results are returned directly.

The body runs in a thread of its own, never at the same time as the body's loop: each call hands the baton over and waits.
"""

import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from queue import SimpleQueue
from random import Random
from typing import Any, Literal, NoReturn, TypeVar, TypeVarTuple, Unpack, overload
from uuid import UUID

from flowstone.authoring.answers import Answer
from flowstone.authoring.current import CURRENT
from flowstone.authoring.definition import Done, Failed
from flowstone.authoring.fan_out import MapResult
from flowstone.authoring.flow import Flow
from flowstone.authoring.requests import Site
from flowstone.authoring.shell import ShellResult
from flowstone.authoring.sites import handling, placed_at, site_of_caller
from flowstone.authoring.wait_verbs import Approvers
from flowstone.interrupts import Misuse

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
T = TypeVar("T")
D = TypeVar("D")
Duration = str | timedelta


class BlockingFlow:
    """What a `def` body gets as its first argument. Every call is recorded once and never done again after that.

    Only the body's own thread may call it: what is to run at the same time is a step, or `flow.map`.
    """

    __slots__ = ("_baton", "_flow")

    def __init__(self, flow: Flow, baton: "Baton") -> None:
        self._flow = flow
        self._baton = baton

    @overload
    def do(
        self,
        name: str,
        fn: Callable[[Unpack[Ts]], Coroutine[Any, Any, R]],
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
    ) -> R: ...

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
    ) -> R: ...

    @overload
    def do(self, name: str, fn: str, /, *args: Any, **options: Any) -> Any: ...

    def do(  # type: ignore[misc]  # mypy cannot see that *args: Any takes *args: *Ts
        self, name: str, fn: Any, /, *args: Any, **options: Any
    ) -> Any:
        """Run `fn(*args)` as the step `name`, and give its result. See Flow.do."""
        return self._ask(lambda flow: flow.do(name, fn, *args, **options))

    @overload
    def map(self, name: str, fn: Callable[[D], Coroutine[Any, Any, R]], items: Iterable[D], /, **options: Any) -> list[R]: ...

    @overload
    def map(self, name: str, fn: Callable[[D], R], items: Iterable[D], /, **options: Any) -> list[R]: ...

    @overload
    def map(self, name: str, fn: str, items: Iterable[Any], /, **options: Any) -> Any: ...

    def map(self, name: str, fn: Any, items: Iterable[Any], /, **options: Any) -> Any:
        """Run `fn(item)` for every item at the same time, each as a step `name[key]`. See Flow.map."""
        return self._ask(lambda flow: flow.map(name, fn, items, **options))

    def collect(self, name: str, fn: Callable[[D], R], items: Iterable[D], /, **options: Any) -> MapResult[R]:
        """As `map` with `failures="collect"`."""
        result: MapResult[R] = self._ask(lambda flow: flow.map(name, fn, items, failures="collect", **options))
        return result

    def shell(self, name: str, argv: Sequence[str], /, **options: Any) -> ShellResult:
        """Run a program as a step. See Flow.shell."""
        result: ShellResult = self._ask(lambda flow: flow.shell(name, argv, **options))
        return result

    def sleep(self, name: str, duration: Duration) -> None:
        """Wait, durably. See Flow.sleep."""
        self._ask(lambda flow: flow.sleep(name, duration))

    def sleep_until(self, name: str, moment: datetime) -> None:
        """Wait until an instant, durably. See Flow.sleep_until."""
        self._ask(lambda flow: flow.sleep_until(name, moment))

    def suspend(self, reason: str) -> None:
        """Stop here until a person types `flow resume RUN`."""
        self._ask(lambda flow: flow.suspend(reason))

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
    ) -> Answer[T]: ...

    @overload
    def approval(
        self,
        reason: str,
        *,
        schema: Literal[None] = None,
        expiry: Duration | None = None,
        approvers: Approvers = "any",
        scope: str | None = None,
        message: str = "",
    ) -> Answer[dict[str, Any]]: ...

    def approval(self, reason: str, **options: Any) -> Answer[Any]:
        """Ask a person. See Flow.approval."""
        answer: Answer[Any] = self._ask(lambda flow: flow.approval(reason, **options))
        return answer

    def set_state(self, name: str, value: Any) -> None:
        """Set a named value of the run's state, durably."""
        self._ask(lambda flow: flow.set_state(name, value))

    def cancel(self, reason: str) -> NoReturn:
        """End the run as cancelled."""
        self._tell(lambda flow: flow.cancel(reason))
        raise AssertionError("flow.cancel raises")

    def now(self) -> datetime:
        """The instant of the last completion that the body was given, in UTC."""
        moment: datetime = self._tell(lambda flow: flow.now())
        return moment

    def patched(self, patch: str) -> bool:
        """Whether this run goes the new way. See Flow.patched."""
        fresh: bool = self._tell(lambda flow: flow.patched(patch))
        return fresh

    @property
    def random(self) -> Random:
        """Random numbers that are the same at every replay."""
        numbers: Random = self._tell(lambda flow: flow.random)
        return numbers

    def uuid(self, name: str) -> UUID:
        """A UUID that is the same at every replay, one per name."""
        made: UUID = self._tell(lambda flow: flow.uuid(name))
        return made

    @property
    def state(self) -> Mapping[str, Any]:
        """The run's state as far as this body has come; read only."""
        return self._flow.state

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger that is silent while recorded history is replayed."""
        told: logging.LoggerAdapter[logging.Logger] = self._tell(lambda flow: flow.log)
        return told

    @property
    def run_id(self) -> str:
        """The run's id."""
        told: str = self._tell(lambda flow: flow.run_id)
        return told

    @property
    def user(self) -> str:
        """The user who started the run."""
        told: str = self._tell(lambda flow: flow.user)
        return told

    @property
    def input(self) -> Any:
        """The run's input as plain JSON data."""
        return self._tell(lambda flow: flow.input)

    def _ask(self, call: Callable[[Flow], Coroutine[Any, Any, Any]]) -> Any:
        return self._baton.pass_over(call, site_of_caller())

    def _tell(self, call: Callable[[Flow], Any]) -> Any:
        return self._baton.pass_over(call, site_of_caller())


BODY = "body"
"""The name of the thread that a `def` body has."""


class Baton:
    """The hand-over between the thread of a `def` body and the body's loop: just one of them runs at any time."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[Flow], Any] | None] = SimpleQueue()
        self._replies: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended: tuple[bool, Any] = (False, None)
        self._site: Site | None = None
        self._handled: BaseException | None = None

    async def run(self, function: Callable[..., Any], flow: Flow, *args: Any, **named: Any) -> Any:
        """Run the body to its end; this coroutine is the body as its loop sees it."""

        def body() -> None:
            try:
                self._ended = (True, function(BlockingFlow(flow, self), *args, **named))
            except BaseException as error:
                self._ended = (False, error)
            self._calls.put(None)

        self._thread = threading.Thread(target=body, name=BODY, daemon=True)
        self._thread.start()
        while (call := self._calls.get()) is not None:
            self._replies.put(await self._carried_out(call, flow))
        returned, value = self._ended
        if not returned:
            raise value
        return value

    async def _carried_out(self, call: Callable[[Flow], Any], flow: Flow) -> tuple[bool, Any]:
        try:
            with handling(self._handled):
                with placed_at(self._site):
                    value = call(flow)
                if isinstance(value, Coroutine):
                    value = await value
        except BaseException as error:
            return False, error
        return True, value

    def pass_over(self, call: Callable[[Flow], Any], site: Site) -> Any:
        """From the body's thread: let the loop carry a call out, and give its outcome."""
        inside = CURRENT.get()
        if inside is not None:
            message = f'flow was called inside the step "{inside.key}": a step cannot ask the run for anything'
            inside.misuse(message)
            raise Misuse(message)
        if threading.current_thread() is not self._thread:
            raise Misuse(
                f"flow was called from a thread that the body started ({site})",
                hint="call it from the body itself; what is to run at the same time is a step, or flow.map",
            )
        self._site, self._handled = site, sys.exc_info()[1]
        self._calls.put(call)
        returned, value = self._replies.get()
        if not returned:
            raise value
        return value
