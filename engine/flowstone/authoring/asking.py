"""What the verbs of a Flow share: the operations that carry them out."""

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from flowstone.authoring.operations import Operations

R = TypeVar("R")
Coro = Coroutine[Any, Any, R]
"""Not an awaitable: `TaskGroup.create_task` takes coroutines only."""
Duration = str | timedelta


class Asking:
    """The side of a Flow that asks."""

    __slots__ = ("_operations",)

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
