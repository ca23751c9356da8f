"""What the journal says about one operation and its attempts, as the ledger folds it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flowstone.journal.events import Event, Kind
from flowstone.journal.states import StepStatus


@dataclass(slots=True)
class Attempt:
    """One attempt of a step, one wait of a sleep, or one round of a gate."""

    number: int
    start_n: int
    start_at: int
    status: str = "running"
    """running, succeeded, failed, interrupted, cancelled; for a gate's round also waiting, refused and its outcome."""
    end_n: int | None = None
    end_at: int | None = None
    error: dict[str, Any] | None = None
    next_attempt_at: int | None = None


@dataclass(slots=True)
class Operation:
    """All that the journal says about one operation of the body."""

    key: str
    name: str
    kind: str
    """step, child, sleep, suspend, approval or state; undo and on_error are the engine's own, no operation of the body."""
    function: str | None
    branch: str | None
    position: int | None
    digest: str | None
    opened: dict[str, Any]
    """The body of the event that began it."""
    asked_n: int
    asked_at: int
    status: StepStatus = StepStatus.RUNNING
    attempts: list[Attempt] = field(default_factory=list)
    completion: Event | None = None
    wake_at: int | None = None
    """When a sleep ends."""
    failures: int = 0
    """How many attempts raised: what counts against the retries."""
    answer: Event | None = None
    """The last piece of mail for it, read or not: gate.answered, step.resolved, step.reported."""
    child: str | None = None
    """The run that a child step stands for."""
    failure: Event | None = None
    """The final step.failed of a step whose on_error has not ended yet: it counts from that end on."""

    @property
    def last(self) -> Attempt:
        """The newest attempt or round."""
        return self.attempts[-1]

    @property
    def is_gate(self) -> bool:
        """Whether a person's word ends it."""
        return self.kind in ("approval", "suspend")

    @property
    def of_body(self) -> bool:
        """Whether the body asked for it; else it is an undo or an on_error."""
        return self.branch is not None

    @property
    def is_step(self) -> bool:
        """Whether it is a step or a child run that the body asked for; people count these."""
        return self.kind in ("step", "child")

    @property
    def is_patch(self) -> bool:
        """Whether it is the mark of a `flow.patched` that was reached fresh; its name is `patched:ID`, its key has no prefix."""
        return self.kind == "state" and self.key.rpartition("/")[2].startswith("patched%3A")

    @property
    def repeatable(self) -> bool:
        """Whether an attempt with an unknown outcome may be followed by another."""
        return bool((self.opened.get("policy") or {}).get("repeatable", True))

    @property
    def resolved(self) -> dict[str, Any] | None:
        """What a person said that its unknown outcome was, if that is how it ended: the body of step.resolved."""
        answer, completion = self.answer, self.completion
        if answer is None or answer.kind != Kind.STEP_RESOLVED or answer.attempt != self.last.number or completion is None:
            return None
        return answer.body() if completion.kind in (Kind.STEP_SUCCEEDED, Kind.STEP_FAILED) else None

    @property
    def open(self) -> bool:
        """Whether it has no completion yet."""
        return self.completion is None


def put_down_from(completions: Sequence[Event], n: int) -> int:
    """The first event of the append that ends with event `n`: it may have closed what was open."""
    for completion in reversed(completions):
        if completion.n != n - 1 or completion.kind not in (Kind.STEP_CANCELLED, Kind.GATE_CLOSED):
            break
        n -= 1
    return n
