"""The verbs of a Flow that run functions: do, map, race, shell."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

from flowstone.authoring.asking import Asking, Coro, Duration
from flowstone.authoring.definition import Done, Failed, policy_of
from flowstone.authoring.fan_out import MapResult, Winner, keys_of, run_map, run_race
from flowstone.authoring.requests import Item, StepRequest
from flowstone.authoring.shell import ShellResult, run_program
from flowstone.authoring.sites import site_of_caller
from flowstone.errors import BadData

if TYPE_CHECKING:
    from flowstone.authoring.flow import Flow

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
D = TypeVar("D")
P = ParamSpec("P")


class StepVerbs(Asking):
    """Running functions as steps, one or many."""

    __slots__ = ()

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
