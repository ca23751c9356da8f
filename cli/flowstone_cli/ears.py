"""Signals that stop a command, heard by a thread of their own: also while a step holds up the event loop, or sits in C code."""

import os
import signal
import threading
from collections.abc import Callable, Iterable

from flowstone.storage.sqlite import forks
from flowstone.storage.sqlite.descriptors import Descriptor


class Ears:
    """While it is entered, `hear` is called in a thread with each of these signals that comes, and nothing else happens then.

    One that this process was started to ignore (`nohup`, `&`) stays ignored. Enter it in the main thread.
    """

    def __init__(self, numbers: Iterable[int], hear: Callable[[int], None]) -> None:
        self._hear = hear
        self._before = {one: signal.getsignal(one) for one in numbers if signal.getsignal(one) is not signal.SIG_IGN}
        self._wakeup = -1
        forks.watch(self)

    def __enter__(self) -> "Ears":
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        self._writing = Descriptor(writing)
        for number in self._before:
            signal.signal(number, _nothing)
        self._wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=(Descriptor(reading),), name="flow-signals", daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        if self._writing.ours:
            self._writing.close()  # the thread reads the end of the pipe

    def hold(self) -> bool:
        """Listen again if somebody has put that out of order, and tell whether. Call it in the main thread."""
        if not self._writing.ours:
            return False  # a step has closed all that was open: there is nothing to come back to
        changed = [number for number in self._before if signal.getsignal(number) is not _nothing]
        for number in changed:
            signal.signal(number, _nothing)
        return signal.set_wakeup_fd(self._writing.number, warn_on_full_buffer=False) != self._writing.number or bool(changed)

    def forked(self) -> None:
        """In a child: what it is sent is not for the parent, whose pipe it has."""
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(-1)

    def _listen(self, reading: Descriptor) -> None:
        while reading.ours:
            try:
                arrived = os.read(reading.number, 64)
            except OSError:
                return  # a step has closed it
            if not arrived:
                reading.close()
                return
            for number in arrived:
                if number in self._before:
                    self._hear(number)


def _nothing(_number: int, _frame: object) -> None:
    """In place of what Python does by itself: it is done by who listens."""
