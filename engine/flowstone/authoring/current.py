"""What code inside a step can ask: which step and attempt it is. `current_step()` of the authors' API."""

import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from flowstone.errors import FlowMisuse, ValueRefused
from flowstone.identity import invocation_id


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The running attempt. Hand `invocation_id` to outside systems: every attempt of the step has the same."""

    run_id: str
    key: str
    attempt: int
    epoch: int
    predecessor_key: str | None
    """The step whose completion the body was given last before it asked for this one."""
    notes: dict[str, Any] = field(default_factory=dict)
    output: Callable[[str, str], None] = field(default=lambda stream, text: None, repr=False)
    """Takes output of the step: "out" or "err", and the text."""
    of_graph: bool = False
    """Whether it is a node of a graph."""
    said: dict[str, Any] = field(default_factory=dict)
    """What the node said for the graph: `branch`, and `state` as JSON texts by name."""
    misuse: Callable[[str], None] = field(default=lambda message: None, repr=False)
    """Tells the pass that the step called `flow`."""

    @property
    def invocation_id(self) -> str:
        """The id that every attempt of this step shares: the idempotency key for outside systems."""
        return invocation_id(self.run_id, self.key)

    @property
    def predecessor(self) -> str | None:
        """The invocation id of the predecessor."""
        return None if self.predecessor_key is None else invocation_id(self.run_id, self.predecessor_key)

    def note(self, **fields: Any) -> None:
        """Keep plain JSON fields with the attempt, such as a cost or a count; shown in the timeline. Raises ValueRefused."""
        for name, value in fields.items():
            try:
                self.notes[name] = json.loads(json.dumps(value, allow_nan=False))  # a copy: the author's may change
            except (TypeError, ValueError, RecursionError) as error:
                raise ValueRefused(
                    f'note "{name}" of step "{self.key}" is no plain JSON: {error}',
                    hint=f"give text or a number, as in {name}=str(value)",
                ) from None

    def branch(self, key: str) -> None:
        """In a node of a graph: choose what comes next by `next`. The last call wins. Raises FlowMisuse elsewhere."""
        self._require_graph("branch")
        if not isinstance(key, str):
            raise FlowMisuse(f"current_step().branch({key!r}): give text")
        self.said["branch"] = key

    def set_state(self, name: str, value: Any) -> None:
        """In a node of a graph: set a value of the run's state, once the step has succeeded. Raises FlowMisuse elsewhere."""
        self._require_graph("set_state")
        from flowstone.values.codec import record  # authors' modules import this file; keep it light

        self.said.setdefault("state", {})[name] = record(value, what=f'state "{name}"').text

    def _require_graph(self, call: str) -> None:
        if not self.of_graph:
            raise FlowMisuse(
                f"current_step().{call} was called in {self.key}, which is no node of a graph",
                hint="return the value, and let the body decide by it",
            )


CURRENT: ContextVar[CurrentStep | None] = ContextVar("flowstone_current_step", default=None)


def current_step() -> CurrentStep:
    """The step in which this code runs. Raises FlowMisuse outside of one."""
    found = CURRENT.get()
    if found is None:
        raise FlowMisuse("current_step() was called outside of a step", hint="call it inside a function that flow.do runs")
    return found
