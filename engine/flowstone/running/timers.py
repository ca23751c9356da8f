"""The instants that a pass waits for, earliest first."""

import heapq
from itertools import count
from typing import Any


class Timers:
    """Operations by the instant at which something is to happen to them. An operation may stand in it more than once."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Any]] = []
        self._order = count()

    def add(self, due: int, asked: Any) -> None:
        """Wait for `due` on behalf of an operation."""
        heapq.heappush(self._heap, (due, next(self._order), asked))

    def next_due(self) -> int | None:
        """The earliest instant."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> list[Any]:
        """Take out the operations whose instant has come, in its order."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due
