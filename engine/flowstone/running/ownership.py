"""Taking a run up: the events that a claim writes, for a run that was left, lost its process, or is suspended."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flowstone.errors import RunOwned
from flowstone.journal.events import Draft, Kind, body_text
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.states import Status, Verb
from flowstone.ports import Life, Owners, RunRow


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a run is taken up, and by whom."""

    verb: str
    """The command: resume, approve, reject, recover."""
    by: dict[str, Any]
    passes: Sequence[str] = ()
    """Keys of the suspend gates that it passes."""
    takeover: bool = False


def life_of(owners: Owners, run: RunRow) -> Life | None:
    """Whether the run's owner lives; None if it has none."""
    return None if run.owner is None else owners.life(run.owner)


def refuse_if_owned(owners: Owners, run: RunRow, *, takeover: bool = False) -> None:
    """Raise RunOwned if a process that is not proven dead executes the run."""
    life = life_of(owners, run)
    if life in (None, Life.DEAD) or takeover or run.owner is None:
        return
    facts = owners.facts(run.owner)
    whose = f"pid {facts.pid}" if facts.pid else f"owner {run.owner}"
    details = ", ".join(part for part in (f"user {facts.user}" if facts.user else "", facts.host or "") if part)
    sentence = f"run {run.id} is being executed by {whose}" + (f" ({details})" if details else "")
    if facts.stopped:
        takeover_words = f"flow resume {run.id} --takeover takes the run from it"
        raise RunOwned(f"{sentence}, which is stopped", details=[takeover_words], hint=f"kill -CONT {facts.pid}")
    raise RunOwned(sentence, hint=f"flow status {run.id}" if life is Life.ALIVE else f"flow resume {run.id} --takeover")


def claim_drafts(
    owners: Owners, run: RunRow, ledger: Ledger, cause: Cause, migrated: Sequence[Draft]
) -> tuple[list[Draft], Verb | None]:
    """The events of a claim in their order, and the transition that goes with it; `migrated` says that the version is another.

    Every attempt that is still open belongs to a process that is gone: it is recorded as interrupted. Not so a child run, which
    is found again as it stands.
    """
    drafts: list[Draft] = []
    if run.owner is not None:
        facts = owners.facts(run.owner)
        drafts.append(
            Draft(
                Kind.RUN_INTERRUPTED,
                text=body_text(
                    code="TAKEOVER" if cause.takeover else "VANISHED",
                    owner=run.owner,
                    pid=facts.pid,
                    host=facts.host,
                    found_by=cause.by,
                    seen_at=facts.seen_at,
                ),
            )
        )
    drafts.append(claimed(owners.enlist(), run.epoch + 1))
    drafts += [
        cut_off(operation, "TAKEOVER" if cause.takeover else "VANISHED")
        for operation in ledger.operations.values()
        if operation.open and operation.attempts and operation.last.status == "running" and operation.child is None
    ]
    drafts += migrated
    if run.status is not Status.SUSPENDED:
        return drafts, None
    drafts.append(Draft(Kind.RUN_RESUMED, text=body_text(by=cause.by, cause=cause.verb, passes=list(cause.passes))))
    return drafts, Verb.RESUME


def cut_off(operation: Operation, code: str) -> Draft:
    """The end of an attempt that did not end by itself; of a step that must not be repeated the outcome is then unknown."""
    unknown = {} if operation.repeatable else {"unknown": True}
    return Draft(Kind.STEP_INTERRUPTED, operation.key, operation.last.number, body_text(code=code, **unknown))


def claimed(owner: str, epoch: int) -> Draft:
    """The event that says whose the run is now."""
    return Draft(Kind.RUN_CLAIMED, text=body_text(owner=owner, epoch=epoch, pid=os.getpid(), host=socket.gethostname()))
