"""The statuses of a run and of a step, and the one table of a run's transitions; guards, diagram and tests come from it."""

from enum import StrEnum


class Status(StrEnum):
    """What a run's row says. People are shown the derived phase (see `phase.py`)."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Verb(StrEnum):
    """What moves a run from one status to another."""

    SUSPEND = "suspend"
    RESUME = "resume"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    REOPEN = "reopen"


class StepStatus(StrEnum):
    """What a step has come to; `failed` is final, between two attempts it is `retrying`."""

    SCHEDULED = "scheduled"
    RUNNING = "running"
    RETRYING = "retrying"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TRANSITIONS: dict[Verb, tuple[frozenset[Status], Status]] = {
    Verb.SUSPEND: (frozenset({Status.RUNNING}), Status.SUSPENDED),
    Verb.RESUME: (frozenset({Status.SUSPENDED}), Status.RUNNING),
    Verb.COMPLETE: (frozenset({Status.RUNNING}), Status.COMPLETED),
    Verb.FAIL: (frozenset({Status.RUNNING}), Status.FAILED),
    Verb.CANCEL: (frozenset({Status.RUNNING, Status.SUSPENDED}), Status.CANCELLED),
    Verb.REOPEN: (frozenset({Status.FAILED, Status.CANCELLED}), Status.RUNNING),
}
"""(verb) → (the statuses it may start from, the status it leads to). Creating a run starts it as `running`."""

SETTLED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
"""Statuses that only `reopen` leaves."""

STEP_ENDS = frozenset({StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.CANCELLED})
"""Statuses of a step that has its completion."""
