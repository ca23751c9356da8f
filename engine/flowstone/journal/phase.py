"""The phase of a run: what people are shown, derived from its status, its owner's life and what it waits for."""

import json
from collections.abc import Sequence
from enum import StrEnum

from flowstone.journal.facts import RunFacts
from flowstone.journal.states import SETTLED, Status
from flowstone.journal.waits import NEVER_TAKEN_UP, WORD, Wait, first_due, never_taken_up


class Phase(StrEnum):
    """What a run is doing, in one word. Derived at reading, never stored."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    SLEEPING = "sleeping"
    WAITING = "waiting"
    RETRYING = "retrying"
    UNDOING = "undoing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


def phase_of(row: RunFacts, life: str | None) -> Phase:
    """The phase of a run by its row; `life` is its owner's ("alive", "dead", "unknown"; None without an owner).

    An owner of whom nothing is known is taken as alive: nobody may call a run interrupted without proof.
    """
    undoing = row.current_step is not None and row.current_step.endswith(":undo")
    return phase_by(row.status, row.owner, life, row_waits(row), undoing=undoing)


def phase_by(status: Status, owner: str | None, life: str | None, waits: Sequence[Wait], *, undoing: bool) -> Phase:
    """The phase by its parts; the same rule for a run's present and for a past point of it.

    `undoing` is whether the run has begun to undo. It is the phase only while somebody works on it: a run that is to undo and
    waits, or has lost its process, is said to wait or to be interrupted, since then a command takes it on.
    """
    if status in SETTLED:
        return Phase(status.value)
    if status is Status.SUSPENDED:
        return Phase.WAITING
    if owner is not None:
        if life == "dead":
            return Phase.INTERRUPTED
        return Phase.UNDOING if undoing else Phase.RUNNING
    due = first_due(waits)
    if any(wait["kind"] not in ("sleep", "retry") for wait in waits):
        return Phase.WAITING
    if due is None:
        return Phase.INTERRUPTED
    return Phase.SLEEPING if due["kind"] == "sleep" else Phase.RETRYING


def is_waiting(row: RunFacts, life: str | None) -> bool:
    """Whether people who look for runs that wait must find this one: it waits, or a person's word is wanted while it runs.

    This is what `@waiting`, `flow runs -s waiting` and `flow wait --for waiting` go by; the phase of the latter is `running`.
    """
    phase = phase_of(row, life)
    return phase is Phase.WAITING or (phase is Phase.RUNNING and any(wait["kind"] in WORD for wait in row_waits(row)))


def row_waits(row: RunFacts) -> list[Wait]:
    """What the run waits for, by its row."""
    if row.waiting in ("", "[]"):
        return [NEVER_TAKEN_UP] if never_taken_up(row.status, row.owner, row.events - row.mail) else []
    waits: list[Wait] = json.loads(row.waiting)
    return waits
