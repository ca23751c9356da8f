"""What carries a body's requests out, as its Flow sees it: a pass of a run implements this."""

import logging
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, NoReturn, Protocol
from uuid import UUID

from flowstone.authoring.requests import Request


class Operations(Protocol):
    """What carries a body's requests out: one pass of one run."""

    run_id: str
    user: str
    input: Any
    log: "logging.LoggerAdapter[logging.Logger]"
    now: int
    state: dict[str, Any]
    start_node: str | None
    """The node at which a run of a graph begins, if not at all entries."""

    @property
    def random(self) -> Random:
        """Random numbers that are the same at every replay."""
        ...

    def ask(self, request: Request) -> Coroutine[Any, Any, Any]:
        """Fix the operation's identity now; the coroutine gives its outcome."""
        ...

    def function_of(self, name: str) -> Callable[..., Any] | None:
        """The function of the workflow or step of that name; None while it cannot be found."""
        ...

    def fan_out(self, name: str) -> str:
        """Take a place for a fan-out; gives the beginning of its items' keys."""
        ...

    def patched(self, patch: str) -> bool:
        """Whether the calling code is reached by a run that was not recorded before the patch existed."""
        ...

    def uuid(self, name: str) -> UUID:
        """The same UUID for the same name in the same branch of the run, at every replay."""
        ...

    def require_body(self, call: str) -> object:
        """Refuse the call unless it comes from the body of a pass that is going on."""
        ...

    def cancel_body(self, reason: str) -> NoReturn:
        """Cancel the run; it counts even if the body swallows what is raised."""
        ...
