"""What the commands that act on a run share: the engine with stdout held for the answer, signals, progress, and the end."""

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from flowstone.engine import Engine
from flowstone.errors import FlowError, TryAgain, UsageError
from flowstone.graph.files import library as library_of
from flowstone.journal.labels import label_of
from flowstone.journal.states import SETTLED
from flowstone.ports import Life, RunRow
from flowstone.running.output import OutputLog
from flowstone.worker import drive_unfollowed
from flowstone_cli import exit_codes, json_text
from flowstone_cli.capture import Capture
from flowstone_cli.ears import Ears
from flowstone_cli.leftovers import LeftAlone, wait_for_threads
from flowstone_cli.onlooker import Onlooker
from flowstone_cli.progress import Progress
from flowstone_cli.render import outcome
from flowstone_cli.restoring import Restoring
from flowstone_cli.session import Mode, Session
from flowstone_cli.view import RunView

T = TypeVar("T")

_SIGNALS = {"STOPPED": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP}
"""Stop code of the engine → the signal that asks for it."""


_HELD = 0.5
"""Seconds after which a signal is told although the loop has not taken it yet."""


class Acting:
    """An engine at work for one command. While it is entered, stdout belongs to the answer."""

    def __init__(self, session: Session, mode: Mode, *, quiet: bool = False) -> None:
        """`quiet`: no progress, for commands that act on several runs."""
        self.session = session
        session.store(mode)
        self.out, err = session.out, session.err  # judged before the streams are exchanged
        self.progress = Progress(err, session.tell, session.clock, quiet=quiet or session.options.quiet)
        self._gone_on: list[str] = []
        """Parents that went on after the run that the command names."""
        self._output = OutputLog(session.clock, self.progress.echo)
        self._capture = Capture(self._output.write)
        self._output.settle = self._settle
        session.notify = self._say
        self._ears = Ears(_SIGNALS.values(), self._hear)
        self._heard = 0
        self._restoring: Restoring | None = None
        self._told: set[str] = set()
        self._crowd = False
        library = library_of(session.settings.dir, session.settings.root)
        self._onlooker = Onlooker(library, session.settings.root, self._say, self._running)
        self.engine = Engine(
            session.store(),
            session.owners,
            library,
            session.clock,
            session.settings,
            observe=self.progress.observe,
            output=self._output,
        )

    def __enter__(self) -> "Acting":
        gc.enable()
        self._capture.__enter__()
        self.out.file, self.session.err.file = self._capture.answer, self._capture.talk
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._onlooker.__exit__()
        self._capture.__exit__(kind, error, trace)
        self.progress.end()
        if kind is None and not self._heard:
            wait_for_threads(self.session.say)

    def drive(self, run_id: str, verb: str, park_after: int | None) -> RunRow:
        """Carry the run on until it ends, parks, or a signal stops it; its parents too, if that gets them further.

        `park_after`: see `Engine.drive`.
        """
        row = self.session.store().run(run_id)
        if self.session.life(row) == "alive" and row.owner != self.session.owners.enlist():
            pid = self.session.owners.facts(row.owner or "").pid
            self.session.say(f"process {pid} executes the run: following it")

        self._begin_progress(row)

        async def driven() -> RunRow:
            row = await self.engine.drive(run_id, park_after=park_after, verb=verb)
            await self._drive_parents(row, verb, park_after)
            return row

        return self.carry_out(driven())

    def _begin_progress(self, row: RunRow) -> None:
        self.progress.begin(f"{row.workflow} {self.session.short(row.id)}", row.id, self.session.store().events(row.id))

    async def _drive_parents(self, row: RunRow, verb: str, park_after: int | None) -> None:
        while row.status in SETTLED and row.parent_run is not None and self.engine.stop.code is None:
            before = self.session.store().run(row.parent_run)
            if self.engine.life(before) not in (None, Life.DEAD):
                return
            try:
                self._begin_progress(before)
                row = await self.engine.drive(before.id, park_after=park_after, verb=verb, follow=False)
            except FlowError as error:
                self._say(f"its parent {before.id} does not go on: {error.message}")
                return
            if row.events == before.events:
                return
            self._gone_on.append(row.id)

    def sweep(self, row: RunRow) -> RunRow | None:
        """Carry on a run that a sweep has found, without waiting; None if nothing is to be done or another process was first."""
        try:
            after = self.carry_out(drive_unfollowed(self.engine, row))
        except TryAgain:
            return None
        return after if after.events != row.events else None

    def carry_out(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the engine's work; a signal stops the engine. Raises StorageFailed if a step has closed what the loop needs."""

        async def watched() -> T:
            self._onlooker.loop = asyncio.get_running_loop()
            self._onlooker.loop.set_default_executor(LeftAlone())
            return await work

        try:
            with self._ears:
                self._restoring = Restoring(self._ears, self._capture)
                return asyncio.run(watched())
        except OSError:  # the loop has lost its own descriptors
            self.session.owners.beat()  # so has the owner: that is told
            raise
        finally:
            self._onlooker.loop = self._restoring = None

    @property
    def stopped_code(self) -> int | None:
        """The exit code of a command that a signal has stopped."""
        stopped = self.engine.stop.code
        return None if stopped is None else 128 + _SIGNALS[stopped]

    def _say(self, text: str) -> None:
        """One line on stderr while the engine works."""
        (self.session.say if self.progress.quiet else self.progress.say)(text)

    def _hear(self, number: int) -> None:
        """A signal came; called in a thread, since the loop may be held up. Leaves at once at the second."""
        self._heard += 1
        if self._heard > 1:  # the journal has all that is acknowledged
            self.progress.end()
            os._exit(128 + number)
        code = next(code for code, one in _SIGNALS.items() if one == number)
        once, told = threading.Lock(), threading.Event()

        def tell() -> None:
            if once.acquire(blocking=False):
                told.set()
                self._say("stopping: what runs gets 10 seconds; once more to leave at once")

        def stop() -> None:
            self.engine.stop.set(code)
            tell()  # not before: who reads it may rely on it

        loop = self._onlooker.loop
        if loop is None:  # nothing waits to be woken yet: the work stops as it begins
            stop()
            return
        try:
            loop.call_soon_threadsafe(stop)
        except RuntimeError:  # the work has ended just now
            return
        if not told.wait(_HELD):  # a step holds up the loop
            tell()

    def _running(self) -> list[str]:
        return [label_of(step) for _, step in list(self._output.running)]

    def _settle(self) -> None:
        """A step has ended: take what it has printed. After the last one set back what they have changed here."""
        self._capture.settle()
        running = self._running()
        self._crowd = self._crowd or len(running) > 1
        if len(running) > 1 or self._restoring is None:
            return
        whose = "a step" if self._crowd or not running else f'step "{running[0]}"'
        self._crowd = False
        for what in self._restoring.set_back():
            if what not in self._told:
                self._told.add(what)
                self._say(f"warning: {whose} has left {what}; it is set back, since a later process would not have it")

    def conclude(self, run_id: str, *, answer: bool = False, code: int | None = None) -> int:
        """Tell how the run stands and return the exit code: the run's, or `code`.

        `answer`: print the output of a completed run on stdout.
        """
        session = self.session
        view = session.view(session.store().run(run_id), session.err)
        if code is None:
            ended = view.row.status in SETTLED
            code = exit_codes.of_row(view.row) if ended or self.stopped_code is None else self.stopped_code
        self.progress.end({"status": view.phase.value, "id": run_id, "exit": code, "next": view.next})
        if not session.options.quiet or code != exit_codes.OK:
            session.tell(outcome.block(view, session.err))
            for parent in self._gone_on:
                session.tell(outcome.block(session.view(session.store().run(parent), session.err), session.err))
        if session.options.json:
            self.out.write(json_text.document(view.document))
        elif answer and code == exit_codes.OK:
            self.out.write(answer_text(session.view(view.row, session.err, reveal=True), pretty=self.out.terminal))
        return code


def answer_text(view: RunView, *, pretty: bool) -> str:
    """The output of a completed run as one JSON value: on one line in a pipe."""
    return (json_text.pretty if pretty else json_text.compact)(view.ledger.output) + "\n"


def park_after(wait: bool, no_wait: bool) -> int | None:
    """What `--wait` and `--no-wait` mean for `Engine.drive`. Raises UsageError for both."""
    if wait and no_wait:
        raise UsageError("--wait and --no-wait exclude each other")
    return None if wait else 0 if no_wait else -1
