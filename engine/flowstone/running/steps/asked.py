"""An operation as the body asked for it in this pass: its place, its key, its future. Each kind of operation is a subclass."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, ClassVar, Generic, TypeVar

from flowstone.authoring.requests import Request
from flowstone.journal.events import Draft, Event
from flowstone.journal.operations import Operation
from flowstone.journal.shapes import wrong_in

Q = TypeVar("Q", bound=Request)


class Asked(ABC, Generic[Q]):
    """One operation. `record` is what the journal has of it, if anything."""

    __slots__ = (
        "branch",
        "coroutine",
        "dropped",
        "failure",
        "future",
        "key",
        "name",
        "position",
        "predecessor",
        "record",
        "request",
    )

    kind: ClassVar[str]
    prefix: ClassVar[str] = ""

    def __init__(self, request: Q, name: str, key: str, branch: str, position: int, predecessor: str | None) -> None:
        self.request = request
        self.name = name
        self.key = key
        self.branch = branch
        self.position = position
        self.predecessor = predecessor
        self.record: Operation | None = None
        self.future: asyncio.Future[Any] | None = None
        """Made when the body awaits the operation."""
        self.dropped = False
        """Whether a cancel of the run was raised where it is awaited."""
        self.failure: Exception | None = None
        """What its completion raised in the body."""
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        """Held until then, so that one never awaited can be told and closed."""

    @property
    def function(self) -> str | None:
        """The recorded name of the function, for operations that have one."""
        return None

    @property
    def digest(self) -> str | None:
        """The digest of the recorded input, for operations that have one."""
        return None

    @property
    def given_up(self) -> bool:
        """Whether the body no longer waits for it."""
        return self.dropped or (self.future is not None and self.future.cancelled())

    def place(self) -> dict[str, Any]:
        """The fields by which the event that begins the operation identifies it."""
        return {
            "kind": self.kind,
            "name": self.name,
            "branch": self.branch,
            "position": self.position,
            "predecessor": self.predecessor,
            "site": str(self.request.site),
        }

    @abstractmethod
    def opening(self, now: int) -> Draft:
        """The event that begins the operation, at the instant `now`."""

    @abstractmethod
    def outcome(self, completion: Event) -> Any:
        """What a completion gives the body; raises what the body is to see raised."""

    def hand_out(self, completion: Event) -> None:
        """Give the body the completion, unless it has stopped waiting."""
        if self.future is None or self.future.done():
            return
        try:
            value = self.outcome(completion)
        except Exception as error:
            if wrong_in(completion) is not None:
                raise  # the journal's, and nothing that the body should see
            self.failure = error
            self.future.set_exception(error)
        else:
            self.future.set_result(value)
