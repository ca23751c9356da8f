"""One run as it is shown: its row, its journal's fold, its owner's life, and how its id is written on one stream."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowstone.journal.documents import run_document
from flowstone.journal.events import Event, Kind
from flowstone.journal.ledger import Ledger
from flowstone.journal.notes import next_command, took, wanted, worked_until
from flowstone.journal.operations import Operation
from flowstone.journal.phase import Phase, phase_of
from flowstone.journal.states import STEP_ENDS, StepStatus
from flowstone.journal.timeline import Span
from flowstone.journal.waits import Wait, waits_of
from flowstone.ports import RunRow, Source

if TYPE_CHECKING:
    from flowstone.graph.fates import Fate
    from flowstone.graph.model import Model


SHOWN_STEPS = {
    "all": frozenset(StepStatus),
    "open": frozenset(StepStatus) - STEP_ENDS,
    "failed": frozenset({StepStatus.FAILED}),
}
"""What `flow status --steps` takes, and the statuses that it shows."""


@dataclass(frozen=True)
class RunView:
    """All that a drawing of a run reads."""

    row: RunRow
    events: Sequence[Event]
    life: str | None
    now: int
    owner_pid: int | None
    seen_at: int | None
    """When the process that has it last showed that it lived; None without one, or if that is not known."""
    id: str
    """The id as it is written in commands: short for people, whole in a pipe."""
    root: Path
    """The project."""
    source: Callable[[], Source | None] = lambda: None
    """The stored source of the workflow, as the run has it."""
    kin: Callable[[Sequence[Span]], Sequence[Span]] = lambda _found: ()
    """The spans of the child runs of some spans, theirs too."""
    child: "Callable[[str], RunView | None]" = lambda _run: None
    """A child run by its id, if it is here."""
    steps: str = "all"
    """Which steps the document has: all, open (not ended), failed."""
    verbose: bool = False
    """Whether the traces of errors are wanted."""

    @cached_property
    def ledger(self) -> Ledger:
        """The fold of its journal; made when it is asked for, since a timeline of many events does without."""
        return Ledger(self.events)

    @cached_property
    def graph(self) -> "Model | None":
        """The graph that the run walks, if its workflow is one."""
        source = self.source()
        if source is None or not source.text.startswith("{"):
            return None
        from flowstone.graph.document import model_in

        return model_in(source.text)

    @cached_property
    def unvisited(self) -> "list[Fate]":
        """The nodes of a graph that the run has not visited: still planned, or skipped and why."""
        if self.graph is None:
            return []
        from flowstone.graph.fates import fates

        return fates(self.graph, self.ledger)

    @property
    def phase(self) -> Phase:
        """What the run is doing, in one word."""
        return phase_of(self.row, self.life)

    @property
    def versions(self) -> list[tuple[str, int]]:
        """Under which versions it went on, each with the event from which on."""
        migrated = [(event.body()["to"], event.n) for event in self.events if event.kind == Kind.RUN_MIGRATED]
        return [(self.events[0].body()["version"], 0), *migrated]

    @property
    def waits(self) -> list[Wait]:
        """What it waits for; instants in microseconds."""
        return waits_of(self.ledger)

    @property
    def took(self) -> int:
        """Microseconds from its start to its end, or until now, or to its last event."""
        return took(self.row, self.phase, self.now, self.seen_at)

    @property
    def worked_until(self) -> int:
        """Until when what has no end yet has lasted, as far as is known."""
        if self.row.finished_at is not None:
            return self.row.finished_at
        return self.now if self.life == "alive" else worked_until(self.row, self.phase, self.now, self.seen_at)

    @property
    def next(self) -> str | None:
        """The command to type next."""
        return self._next(whole=False)

    def _next(self, *, whole: bool) -> str | None:
        """For a run whose child waits for a person it is the child's. `whole`: with whole ids."""
        wait = self.wanted
        child = self.child(wait["child"]) if wait is not None and wait["kind"] == "child" and wait["child"] else None
        if child is not None and child.phase is Phase.WAITING:
            return child._next(whole=whole)
        return next_command(self.phase, self.waits, self.row.id if whole else self.id, now=self.now, ledger=self.ledger)

    @property
    def wanted(self) -> Wait | None:
        """The wait of this run that this command is about."""
        return wanted(self.phase, self.waits, now=self.now, ledger=self.ledger)

    @property
    def steps_done(self) -> int:
        """How many steps have succeeded; gates, sleeps and states are not counted."""
        return self.ledger.done

    @property
    def document(self) -> dict[str, Any]:
        """`flow.run/1`."""
        made = run_document(self.row, self.ledger, life=self.life, now=self.now, seen_at=self.seen_at)
        made["next"] = self._next(whole=True)
        if self.steps != "all":
            made["steps"] = [step for step in made["steps"] if step["status"] in SHOWN_STEPS[self.steps]]
        if self.graph is not None:
            from flowstone.graph.fates import plan_document

            made["plan"] = plan_document(self.graph, self.unvisited)
        return made

    @property
    def traces(self) -> list[tuple[str, str]]:
        """With -v where the errors were raised by which the run has failed or is held up: step and trace."""
        if not self.verbose:
            return []
        error = (self.ledger.error or {}) if self.phase is Phase.FAILED else {}
        errors = [(error.get("step"), error), ((error.get("undo") or {}).get("step"), error.get("undo") or {})]
        held = [one for one in self.ledger.operations.values() if one.status is StepStatus.RETRYING]
        errors += [(one.key, one.last.error or {}) for one in held]
        return [(str(step or ""), str(one["trace"])) for step, one in errors if one.get("trace")]

    @property
    def failed_operation(self) -> Operation | None:
        """The operation whose failure ended the run."""
        step = (self.ledger.error or {}).get("step")
        return self.ledger.operations.get(step) if step else None

    @property
    def failed_node(self) -> str | None:
        """The node at which a graph could not go on, if that is why the run failed."""
        if self.graph is None:
            return None
        from flowstone.graph.fates import failed_at

        return failed_at(self.ledger)

    def whose_process(self) -> str:
        """Why an interrupted run does not go on: `its process (pid 4711) is gone`."""
        last = next((event.body() for event in reversed(self.events) if event.kind == Kind.RUN_INTERRUPTED), {})
        if self.row.owner is not None:
            last = {"pid": self.owner_pid, "code": "VANISHED"}
        claims = (event.body() for event in reversed(self.events) if event.kind == Kind.RUN_CLAIMED)
        number = last.get("pid") or next(claims, {}).get("pid")
        pid = f" (pid {number})" if number else ""
        code = last.get("code", "VANISHED")
        if code == "TAKEOVER":
            return f"it was taken from its process{pid}"
        return f"its process{pid} is gone" if code == "VANISHED" else f"its process{pid} was stopped by {code}"
