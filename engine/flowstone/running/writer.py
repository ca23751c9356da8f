"""A run's pen: appends of its owner, grouped into one transaction when they come together, and applied to its ledger in order.

Blocking store calls are made in a thread of their own, so that neither the disk nor a lock keeps steps from going on.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from flowstone.errors import FlowError, Locked
from flowstone.journal.events import Draft, Event
from flowstone.journal.ledger import Ledger
from flowstone.journal.summary import Index
from flowstone.ports import Change, RunRow, Store, Summary
from flowstone.running.output import OutputLog

T = TypeVar("T")
Observe = Callable[[str, Sequence[Event]], None]


class Writer:
    """Appends to one run under one epoch. The first failure is kept in `failed`: after it nothing more is written."""

    def __init__(self, store: Store, run: RunRow, ledger: Ledger, index: Index, observe: Observe, output: OutputLog) -> None:
        self.ledger = ledger
        self.failed: FlowError | None = None
        self.alone: Callable[[], bool] = lambda: True
        """Whether whoever writes is the only one at work in this pass."""
        self._store = store
        self._run = run
        self._observe = observe
        self._index = index
        self._output = output
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._storing = threading.Lock()
        """Held by one write at a time, here or in the thread: the index goes from one to the next."""
        self._queue: list[tuple[Sequence[Draft], bool, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def append(self, drafts: Sequence[Draft], *, durable: bool = True) -> None:
        """Append; returns when written and applied to the ledger. Raises LostOwnership, StorageFailed, TryAgain."""
        if self._unhurried() and self._write_here(drafts, Change(durable=durable)) is not None:
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((drafts, durable, written))
        if self._flushing is None:
            self._flushing = asyncio.ensure_future(self._flush())
        await written

    async def append_alone(self, drafts: Sequence[Draft], change: Change) -> bool:
        """Append with a change of the run's row, after all that is queued; False if mail came in and nothing was written."""
        await self.rest()
        if self._unhurried() and (written := self._write_here(drafts, change)) is not None:
            return written
        return await self._write(drafts, change)

    def _unhurried(self) -> bool:
        """Whether a write may be made right here: nothing goes on that the disk would keep waiting, or that would be grouped."""
        return self._flushing is None and self.alone()

    async def rest(self) -> None:
        """Return when nothing is being written any more: only then does the ledger say how operations stand."""
        while self._flushing is not None:
            await asyncio.wait({self._flushing})

    @property
    def idle(self) -> bool:
        """Whether nothing is being written."""
        return self._flushing is None

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a blocking function of the store in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def catch_up(self) -> None:
        """Read what others have written since: mail."""
        self._take(await self.call(lambda: self._store.events(self._run.id, after=self.ledger.count - 1)))

    async def changed(self) -> bool:
        """Whether mail has come in: from another process, or from another run of this one."""
        row = await self.call(self._store.run, self._run.id)
        return row.mail != self.ledger.mail

    async def keep_logs(self) -> None:
        """Write output that has come without an event, so that it can be read while its step runs."""
        if self._output.waiting(self._run.id) and self._flushing is None:
            await self._write([], Change(durable=False))

    def close(self) -> None:
        """Give the thread up."""
        self._thread.shutdown(wait=False)

    async def _flush(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                drafts = [draft for drafts, _, _ in batch for draft in drafts]
                try:
                    await self._write(drafts, Change(durable=any(durable for _, durable, _ in batch)))
                except Exception as error:  # an observer's too: nobody may be left waiting
                    for _, _, written in batch:
                        if not written.done():
                            written.set_exception(error)
                            written.exception()  # whoever was waiting may be gone; `failed` tells the pass
                else:
                    for _, _, written in batch:
                        if not written.done():
                            written.set_result(None)
        finally:
            self._flushing = None

    async def _write(self, drafts: Sequence[Draft], change: Change) -> bool:
        """Write in the store's thread; False if mail came in."""
        return self._written(await self.call(self._store_append, drafts, change))

    def _write_here(self, drafts: Sequence[Draft], change: Change) -> bool | None:
        """Write in this thread; None, and nothing written, if another process writes just now."""
        try:
            return self._written(self._store_append(drafts, change, patient=False))
        except Locked:
            return None

    def _store_append(self, drafts: Sequence[Draft], change: Change, patient: bool = True) -> Sequence[Event] | None:
        if not self._storing.acquire(blocking=patient):
            raise Locked("another write of this run is on its way")
        try:
            return self._appended(drafts, change, patient)
        finally:
            self._storing.release()

    def _appended(self, drafts: Sequence[Draft], change: Change, patient: bool) -> Sequence[Event] | None:
        if self.failed is not None:
            raise self.failed
        logs = self._output.take(self._run.id)
        index = self._index.after(drafts)
        change = change._replace(patient=patient, summary=summary_of(index))
        try:
            events = self._store.append(self._run.id, self._run.epoch, drafts, change, logs)
            if events and events[0].n > self.ledger.count:
                events = self._store.events(self._run.id, after=self.ledger.count - 1)
        except FlowError as error:
            self._output.put_back(self._run.id, logs)
            if patient or not isinstance(error, Locked):
                self.failed = error
            raise
        if events is None:
            self._output.put_back(self._run.id, logs)
            return None
        self._index = index
        return events

    def _written(self, events: Sequence[Event] | None) -> bool:
        if events is not None:
            self._take(events)
        return events is not None

    def _take(self, events: Sequence[Event]) -> None:
        new = [event for event in events if event.n >= self.ledger.count]
        for event in new:
            self.ledger.apply(event)
        if new:
            self._observe(self._run.id, new)


def summary_of(index: Index) -> Summary:
    """The columns of the run's row for an index."""
    return Summary(waiting=index.waiting(), steps=index.steps, done=index.done, current_step=index.current, error=index.error)
