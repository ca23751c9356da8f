"""What a body is refused once its run is cancelled or its pass is over; one that swallows every refusal is left standing.

Such a body would ask again for ever without letting its loop go on: `while True: try: ... except BaseException: pass`.
"""

import asyncio
from typing import Any

from flowstone.interrupts import PassOver, RunCancelled

MOST = 1000
"""How many times a body may ask in vain in one turn of its loop."""


class Refusals:
    """Counts them within one turn. What is asked for beyond is neither refused nor begun: it is awaited for ever."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.endless = False
        """Whether the body has asked too often: it will come to no end of its own."""
        self._loop = loop
        self._in_turn = 0

    def new_turn(self) -> None:
        """The body has let go meanwhile."""
        self._in_turn = 0

    def refuse(self, interrupt: PassOver | RunCancelled) -> None:
        """Raise it, unless that has been in vain too often."""
        self._in_turn += 1
        if self._in_turn <= MOST:
            raise interrupt
        self.endless = True

    async def never(self) -> None:
        """What the body awaits then."""
        await self._loop.create_future()


def keep(task: "asyncio.Task[Any]") -> None:
    """Never throw a task away: that would go on with its body once more, to close it, in the middle of whatever is going on."""
    import ctypes  # hardly any process needs it

    task._log_destroy_pending = False  # type: ignore[attr-defined]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
