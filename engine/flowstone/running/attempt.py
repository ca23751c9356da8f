"""One attempt of one step: the author's function is called once, behind a fence that nothing it raises gets through.

The second of the two verbs that run user code (DESIGN.md section 1). Nothing is written here.
"""

import asyncio
import contextvars
import inspect
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

from flowstone.authoring.current import CURRENT, CurrentStep
from flowstone.running.functions import StepFunction
from flowstone.values.codec import Recorded, record

SWALLOWED_CANCEL = 5.0
"""Seconds after which a step that swallows its cancelling is abandoned."""


THREADS = 64
"""Blocking steps that run at the same time; one that is abandoned gives its place up."""
_PLACES: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _places() -> asyncio.Semaphore:
    loop = asyncio.get_running_loop()
    return _PLACES.setdefault(loop, asyncio.Semaphore(THREADS))


class TimedOut(Exception):
    """The attempt took longer than the step's timeout. Its message says so if what it was doing may still be going on."""


async def attempt_step(
    function: StepFunction, arguments: tuple[Any, ...], current: CurrentStep, *, timeout: int | None
) -> Recorded:
    """Call the function and record its result. `timeout` in microseconds.

    Raises whatever the function raised, TimedOut, or ValueRefused for a result that cannot be recorded. A cancelling of the
    calling task is passed on as CancelledError; a CancelledError that nobody asked for is the step's failure like any other.
    """
    before = CURRENT.set(current)
    try:
        async with nullcontext() if function.is_async else _places():
            kind, value = await (_call(function, arguments) if timeout is None else _timed(function, arguments, timeout))
    finally:
        CURRENT.reset(before)
    if kind == "raised":
        raise value
    return record(value, function.signature.result, what=f'result of step "{current.key}"')


async def _timed(function: StepFunction, arguments: tuple[Any, ...], timeout: int) -> tuple[str, Any]:
    threads: list[threading.Thread] = []
    work = asyncio.ensure_future(_call(function, arguments, threads))
    try:
        done, _ = await asyncio.wait({work}, timeout=timeout / 1_000_000)
    except asyncio.CancelledError:
        await _stop(work)
        raise
    if not done:
        stopped = await _stop(work) and not any(thread.is_alive() for thread in threads)
        late = "" if stopped else " (it may still be running)"
        raise TimedOut(f"took longer than its timeout of {timeout / 1_000_000:g} s{late}")
    return work.result()


async def _call(
    function: StepFunction, arguments: tuple[Any, ...], threads: list[threading.Thread] | None = None
) -> tuple[str, Any]:
    """What the function returned or raised. `threads` is told the thread that it runs in, if it blocks."""
    process = os.getpid()
    try:
        if function.is_async:
            value = await function.call(*arguments)
        else:
            value = await _in_thread(function.call, arguments, [] if threads is None else threads)
            if inspect.iscoroutine(value):  # a closure such as `lambda: fetch(1)`
                value = await value
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return "raised", error
    except BaseException as error:
        return "raised", error
    finally:
        if os.getpid() != process:  # the step forked, and this is the child: it must not reach the journal
            os._exit(70)
    return "returned", value


async def _in_thread(call: Callable[..., Any], arguments: tuple[Any, ...], threads: list[threading.Thread]) -> Any:
    """Run in a daemon thread of its own, so that one that hangs can be abandoned and never keeps the process."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[bool, Any]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(returned: bool, value: Any) -> None:
        if not answer.done():
            answer.set_result((returned, value))

    def work() -> None:
        process = os.getpid()
        try:
            returned, value = True, context.run(call, *arguments)
        except BaseException as error:
            returned, value = False, error
        if os.getpid() != process:
            os._exit(70)
        try:
            loop.call_soon_threadsafe(settle, returned, value)
        except RuntimeError:
            return  # the loop is closed: this attempt was abandoned

    threads.append(threading.Thread(target=work, name="step", daemon=True))
    threads[-1].start()
    returned, value = await answer
    if not returned:
        raise value
    return value


async def _stop(work: "asyncio.Task[tuple[str, Any]]") -> bool:
    """Cancel; abandon what swallows it. Returns whether it has stopped."""
    work.cancel()
    await asyncio.wait({work}, timeout=SWALLOWED_CANCEL)
    stopped = work.done()
    if not stopped:
        abandon(work)
    return stopped


def abandon(task: "asyncio.Task[Any]") -> None:
    """Let a task go that swallows its cancelling: the end of the loop would wait for it."""
    asyncio._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
