"""The event loop of a body: a queue of ready callbacks and nothing else, so that a replay runs exactly as the first run did.

It knows no clock, no thread and no socket; what asks for one is refused with the cure. Tasks that the body makes are branches,
numbered in the order of their making in their parent (DESIGN.md section 6).
"""

import asyncio
import collections
import contextvars
import sys
import weakref
from asyncio import events
from collections.abc import AsyncGenerator, Callable, Coroutine
from types import FrameType
from typing import Any, NoReturn

from flowstone.authoring.sites import handling
from flowstone.errors import FlowMisuse
from flowstone.journal.keys import child_branch, key_of


class Branch:
    """A task of the body: where operations stand. `position` counts them, `names` counts each name."""

    __slots__ = ("children", "name", "names", "position")

    def __init__(self, name: str) -> None:
        self.name = name
        self.position = 0
        self.children = 0
        self.names: dict[str, int] = {}

    def child(self) -> "Branch":
        """The branch of the next task made in this one."""
        made = Branch(child_branch(self.name, self.children))
        self.children += 1
        return made

    def take_place(self, prefix: str, name: str) -> tuple[str, int]:
        """The key and the position of the next operation of that name in this branch."""
        counted = prefix + name
        occurrence = self.names.get(counted, 0)
        self.names[counted] = occurrence + 1
        position = self.position
        self.position += 1
        return key_of(prefix, self.name, name, occurrence), position


class BodyLoop(asyncio.AbstractEventLoop):
    """The queue, and the branch of each task. `drain` runs until it is empty: then the body is quiescent."""

    def __init__(self, own_code: Callable[[Coroutine[Any, Any, Any]], bool]) -> None:
        self._ready: collections.deque[asyncio.Handle] = collections.deque()
        self._branches: weakref.WeakKeyDictionary[asyncio.Task[Any], Branch] = weakref.WeakKeyDictionary()
        self._own_code = own_code
        self.root = Branch("")
        self.escaped: BaseException | None = None
        """A SystemExit or KeyboardInterrupt that the body raised: asyncio lets these out of the task."""

    def drain(self, at_most: int | None = None) -> None:
        """Run callbacks until none is ready, or `at_most` of them (for a body that goes on for ever while it is closed).

        Call it from outside of any task: a thread has one running task, and from CPython 3.14 on refuses to enter another.
        """
        before = events._get_running_loop()
        hooks = sys.get_asyncgen_hooks()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._put_away)
        try:
            while self._ready and at_most != 0:
                at_most = None if at_most is None else at_most - 1
                handle = self._ready.popleft()
                if not handle.cancelled():
                    try:
                        handle._run()
                    except (SystemExit, KeyboardInterrupt) as error:
                        self.escaped = self.escaped or error
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(before)

    def _put_away(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Finish an async generator that the body has dropped as a task of the body, not of the process's loop."""
        self.create_task(generator.aclose())

    def pending(self) -> "list[asyncio.Task[Any]]":
        """The tasks of the body that have not ended. asyncio.all_tasks would look through those of all bodies."""
        return [task for task in self._branches if not task.done()]

    def current_branch(self) -> Branch | None:
        """The branch of the task that is running in this loop; None outside of one."""
        if events._get_running_loop() is not self:  # asked by another thread while the body runs in its own
            return None
        task = asyncio.current_task(self)
        return None if task is None else self._branches.get(task)

    # what asyncio asks of a loop

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Put a callback at the end of the queue."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: object = None, context: contextvars.Context | None = None, **_: Any
    ) -> "asyncio.Task[Any]":
        """A task of the body, which is a branch: its number is the order of its making in its parent."""
        if not self._own_code(coro) and _called_by_as_completed():
            coro.close()
            raise FlowMisuse(
                "as_completed was given a coroutine of the body's own: asyncio starts those in the order of a set, "
                "which differs from process to process",
                hint="make them tasks first: as_completed([asyncio.create_task(c) for c in ...])",
            )
        parent = self.current_branch()
        handled = sys.exc_info()[1]
        if handled is not None and context is None:  # a task made in a cleanup belongs to it
            with handling(handled):
                context = contextvars.copy_context()
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)
        self._branches[task] = self.root if parent is None else parent.child()
        return task

    def get_debug(self) -> bool:
        """Never: debug mode measures time."""
        return False

    def is_running(self) -> bool:
        """As far as the body can tell."""
        return True

    def is_closed(self) -> bool:
        """As far as the body can tell."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A task's exception that nobody read is the body's own business, as in a plain asyncio program."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Part of asyncio's protocol; there are no timers."""

    def time(self) -> NoReturn:
        """Refused."""
        raise FlowMisuse("a body has no clock: it would differ at the next replay", hint="use flow.now()")

    def call_later(self, *_: Any, **__: Any) -> NoReturn:  # type: ignore[override]
        """Refused."""
        raise FlowMisuse(
            "a body has no timers (asyncio.sleep, timeout, wait_for)",
            hint='await flow.sleep("name", "10m"), or timeout= on the step',
        )

    call_at = call_later  # type: ignore[assignment]

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]
        """Refused."""
        raise FlowMisuse("a body has no threads (asyncio.to_thread)", hint='make it a step: await flow.do("name", fn)')

    def call_soon_threadsafe(self, *_: Any, **__: Any) -> NoReturn:  # type: ignore[override]
        """Refused."""
        raise FlowMisuse("a body cannot be called from a thread", hint='make it a step: await flow.do("name", fn)')


_NETWORK = frozenset(
    {
        "create_connection",
        "create_server",
        "create_datagram_endpoint",
        "create_unix_connection",
        "create_unix_server",
        "connect_read_pipe",
        "connect_write_pipe",
        "getaddrinfo",
        "getnameinfo",
        "sock_connect",
        "sock_recv",
        "sock_sendall",
        "add_reader",
        "add_writer",
        "subprocess_exec",
        "subprocess_shell",
    }
)


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(self: BodyLoop, *_: Any, **__: Any) -> NoReturn:
        raise FlowMisuse(f"a body has no network and no processes ({name})", hint='make it a step: await flow.do("name", fn)')

    return refuse


for _name in _NETWORK:
    setattr(BodyLoop, _name, _refused(_name))


def _called_by_as_completed() -> bool:
    """Whether asyncio.as_completed makes the task: within a few frames, in asyncio's own file."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(6):
        if frame is None or frame.f_code.co_filename != _TASKS:
            return False
        if "as_completed" in frame.f_code.co_name or "_AsCompletedIterator" in getattr(frame.f_code, "co_qualname", ""):
            return True
        frame = frame.f_back
    return False


_TASKS = asyncio.tasks.__file__
