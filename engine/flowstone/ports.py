"""What the engine asks of the world: a store of runs and journals, and the owners of runs. Implemented in storage/.

A verb of the store is one transaction. Every write that moves a run is one conditional statement on its row, and the number of
rows that it changed is checked (STYLE.md, rule 6). Writes of a run's owner carry the epoch under which it claimed the run; under
an older epoch they change nothing and raise LostOwnership.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from flowstone.journal.events import Draft, Event
from flowstone.journal.states import Status, Verb

if TYPE_CHECKING:  # reading commands have no use for what reads source
    from flowstone.journal.plan import Plan
    from flowstone.journal.versions import Version


class RunRow(NamedTuple):
    """A run's row: an index over its journal, and its ownership. Instants are microseconds UTC."""

    id: str
    workflow: str
    status: Status
    version: str
    key: str | None
    user: str
    parent_run: str | None
    parent_step: str | None
    created_at: int
    updated_at: int
    finished_at: int | None
    owner: str | None
    epoch: int
    mail: int
    """How many pieces of mail the journal holds."""
    events: int
    """How many events the journal holds; the next one's number."""
    waiting: str
    """JSON list: what the run waits for (DESIGN.md section 19, `waiting[]`)."""
    steps: int
    """How many operations have been started."""
    done: int
    """How many of them have succeeded."""
    current_step: str | None
    error: str | None
    """JSON object of the run's error, if it failed."""


class NewRun(NamedTuple):
    """What makes a run's row when it is created."""

    id: str
    workflow: str
    version: str
    key: str | None
    user: str
    owner: str | None
    """Owner from the start (epoch 1), or None for a run that waits for a worker (epoch 0)."""
    parent_run: str | None = None
    parent_step: str | None = None


class Summary(NamedTuple):
    """The index columns of a run's row, as the fold of its journal gives them."""

    waiting: str
    steps: int
    done: int
    current_step: str | None
    error: str | None


class Change(NamedTuple):
    """What an append of the owner does to the run's row, beside counting its events."""

    verb: Verb | None = None
    """The transition, checked against TRANSITIONS in the same statement."""
    release: bool = False
    """Give the run up: from then on it has no owner."""
    seen_mail: int | None = None
    """Only if the run's mail is still this many; else nothing is written and `append` returns None."""
    summary: Summary | None = None
    durable: bool = True
    """Synced to the disk before `append` returns; False only for start marks of steps that may run again."""
    patient: bool = True
    """Wait while another process writes; else raise Locked at once."""


class LogPiece(NamedTuple):
    """Some output of a step's attempt (or of the body, without a step)."""

    step: str | None
    attempt: int | None
    at: int
    stream: str
    """"out" or "err"."""
    text: str


class Source(NamedTuple):
    """The source of a workflow's body under a version, stored once per version."""

    version: str
    workflow: str
    text: str


class AuditNote(NamedTuple):
    """Who did what by hand, written beside the event in its transaction."""

    action: str
    by: str
    """JSON object: who (see identity.who)."""


class AuditEntry(NamedTuple):
    """An audit note as it was written: on which run, beside which event, when."""

    run_id: str
    n: int
    at: int
    action: str
    by: str
    """JSON object: who (see identity.who)."""


class Filter(NamedTuple):
    """Which runs `runs` lists; None means any."""

    workflow: str | None = None
    status: Status | None = None
    key: str | None = None
    unfinished: bool | None = None
    ownable: bool = False
    """Only runs in status running."""


class Life(StrEnum):
    """What is known of the process behind an owner id."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    """No proof either way (another host); never taken over without --takeover."""


class OwnerFacts(NamedTuple):
    """What an owner left about itself for people; None where it is not known."""

    pid: int | None
    host: str | None
    user: str | None
    seen_at: int | None = None
    """When it last showed that it lives, in microseconds UTC."""
    stopped: bool = False
    """Whether somebody has stopped it (SIGSTOP, a debugger): it lives, and does nothing."""


class Owners(Protocol):
    """Tells whether the process behind an owner id lives, and makes this process one."""

    def enlist(self) -> str:
        """Make this process an owner for the rest of its life; the same id at every call."""
        ...

    def life(self, owner: str) -> Life:
        """Whether that owner lives. DEAD only on proof."""
        ...

    def facts(self, owner: str) -> OwnerFacts:
        """What is known about that owner."""
        ...

    def beat(self) -> None:
        """Show that this process lives, so that it can be told later until when it did."""
        ...

    def retire(self) -> None:
        """This process stops being an owner (at its end)."""
        ...


Decide = Callable[[RunRow, list[Event]], Sequence[Draft]]
"""Given, under the lock, the run's row and a step's events: the mail to write. Pure; raises a FlowError to write nothing."""


class Library(Protocol):
    """Where the author's workflows and steps are found."""

    def load(self, name: str) -> Any:
        """The decorated function of a workflow. Raises NotFound, LoadFailed."""
        ...

    def step(self, name: str) -> Any:
        """The decorated function of a registered step. Raises NotFound, LoadFailed."""
        ...

    def require_single_steps(self, name: str) -> None:
        """Raise LoadFailed if a workflow gives a step by a name that more than one file defines."""
        ...

    def version(self, name: str) -> "Version":
        """The version of a workflow's body as it was loaded."""
        ...

    def plan(self, name: str) -> "Plan":
        """What the body of a workflow asks for, as far as its source tells."""
        ...

    def names(self) -> frozenset[str]:
        """The names of the workflows that this folder has."""
        ...


class Store(Protocol):
    """Runs and their journals. Methods block; the engine calls the writing ones in a thread of their own."""

    # writing
    def create(
        self,
        new: NewRun,
        drafts: Sequence[Draft],
        *,
        source: Source | None = None,
        audit: AuditNote | None = None,
        summary: Summary | None = None,
    ) -> RunRow:
        """Create a run with its first events, durably. If `new.key` is taken, write nothing and return the run that has it."""
        ...

    def claim(
        self,
        run: RunRow,
        owner: str,
        drafts: Sequence[Draft],
        *,
        verb: Verb | None = None,
        source: Source | None = None,
        audit: AuditNote | None = None,
        summary: Summary | None = None,
    ) -> RunRow:
        """Make `owner` the run's owner under the next epoch, durably, with these events.

        Only if epoch, status and owner are still those of `run`; else raises TryAgain. `verb` is a transition made with it.
        """
        ...

    def append(
        self, run_id: str, epoch: int, drafts: Sequence[Draft], change: Change, logs: Sequence[LogPiece] = ()
    ) -> list[Event] | None:
        """Append events as the owner under `epoch`. None, and nothing written, if mail came in (`change.seen_mail`).

        Raises LostOwnership under an old epoch. With no drafts only logs and the row's columns are written.
        """
        ...

    def post(
        self, run_id: str, step: str | None, decide: Decide, *, audit: AuditNote | None = None
    ) -> tuple[RunRow, list[Event]]:
        """Write mail, durably: under the lock call `decide` with the row and the events of `step` (all events if None).

        Returns the row as it is after that, in the same transaction, and the appended events (none if `decide` gave none).
        """
        ...

    # keeping house
    def delete(self, run: RunRow, *, audit: AuditNote | None = None) -> None:
        """Delete a run with its journal and its output, durably. What was audited stays, and this with it.

        Only if epoch, status, owner and events are still those of `run`; else raises TryAgain.
        """
        ...

    def reindex(self, run_id: str) -> RunRow:
        """Write the index columns of a run's row anew, as its journal has them (see journal/columns.py). Returns the row."""
        ...

    def vacuum(self) -> None:
        """Give the room of what was deleted back to the disk."""
        ...

    # reading
    def size(self, run_id: str) -> int:
        """How many bytes the texts of a run's journal and output take."""
        ...

    def run(self, run_id: str) -> RunRow:
        """A run's row by its whole id. Raises NotFound."""
        ...

    def runs(self, wanted: Filter, *, limit: int | None = None, offset: int = 0) -> list[RunRow]:
        """Runs that fit, newest first, without those whose rows make no sense. Raises Damaged if there are no others."""
        ...

    def count(self, wanted: Filter) -> int:
        """How many runs fit."""
        ...

    def with_prefix(self, prefix: str, *, limit: int) -> list[RunRow]:
        """Runs whose id starts with `prefix`, newest first."""
        ...

    def prefix_length(self) -> int:
        """How many characters of an id tell every run of this store apart; at least 6."""
        ...

    def events(self, run_id: str, *, after: int = -1) -> list[Event]:
        """The run's events with n > `after`, by n. Raises Damaged if a body's checksum is wrong."""
        ...

    def changed(self) -> bool:
        """Whether another connection may have written since the last call: cheap enough to ask several times a second."""
        ...

    def logs(self, run_id: str, *, step: str | None = None, after: int = 0) -> list[tuple[int, LogPiece]]:
        """Recorded output with its row ids, in the order written."""
        ...

    def source(self, version: str) -> Source | None:
        """The stored source of a version."""
        ...

    def audit(self, run_id: str | None, *, limit: int | None = None) -> list[AuditEntry]:
        """Who did what by hand on a run (None: on any), newest first."""
        ...

    def close(self) -> None:
        """Close; idempotent."""
        ...
