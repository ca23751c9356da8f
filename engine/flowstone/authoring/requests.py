"""What a body can ask its run for, as plain records; running/ carries them out.

A request is made at the call on `flow`, before anything is awaited.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flowstone.authoring.definition import SAYS_NOTHING, Policy


class Site(NamedTuple):
    """The line of the author's code that made the call; as text with the folder's name, `workflows/deploy.py:16`."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{'/'.join(self.file.split('/')[-2:])}:{self.line}"


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a fan-out: the fan-out's own key, and the item's."""

    fan_out: str
    key: str


class StepRequest(NamedTuple):
    """Run a function once, durably. `function` is a callable or a registered name."""

    name: str
    function: Callable[..., Any] | str
    args: tuple[Any, ...]
    site: Site
    policy: Policy = SAYS_NOTHING
    undo: Callable[..., Any] | None = None
    on_error: Callable[..., Any] | None = None
    actor: str | None = None
    description: str | None = None
    item: Item | None = None
    of_graph: bool = False
    """Asked by a node of a graph: its outcome is a NodeOutcome."""


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """What a node of a graph gave, as recorded: its result, and the branch and the state that its step has set."""

    data: Any
    branch: str | None = None
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SleepRequest:
    """Wait for an amount of time, or until an instant; both in microseconds, exactly one given."""

    name: str
    site: Site
    duration: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class SuspendRequest:
    """Wait until a person types `flow resume`."""

    name: str
    site: Site


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """Wait for a person's yes or no."""

    name: str
    site: Site
    schema: Any = None
    expiry: int | None = None
    """Microseconds from the opening to the deadline."""
    approvers: str = "any"
    scope: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class StateRequest:
    """Set a named value of the run's state."""

    name: str
    value: Any
    site: Site


Request = StepRequest | SleepRequest | SuspendRequest | ApprovalRequest | StateRequest
