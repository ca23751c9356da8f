"""Forking: a new run from what another one had done before a step, checked against today's code before it exists."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flowstone.clock import Clock
from flowstone.identity import new_run_id, who
from flowstone.journal.events import Draft, Event, Kind, body_text
from flowstone.journal.fork import copied, fork_point
from flowstone.journal.ledger import Ledger
from flowstone.journal.summary import Index
from flowstone.ports import AuditNote, NewRun, Owners, RunRow, Store
from flowstone.running.body import Program
from flowstone.running.ownership import claimed
from flowstone.running.taking import replayed_body
from flowstone.running.writer import summary_of

UNCHANGED: Any = object()
"""Says that a fork keeps its run's input."""


@dataclass(frozen=True, slots=True)
class Forking:
    """Forks runs of one store."""

    store: Store
    owners: Owners
    clock: Clock
    program: Callable[[RunRow, Any], Program]
    plan: Callable[[str], dict[str, Any]]
    """What run.created keeps of a workflow's plan."""
    log: Callable[[str, int, str], None]

    def fork(self, row: RunRow, step: str, data: Any, user: str) -> RunRow:
        """Create the fork, owned by this process. Raises NotFound (no such step), BadData, Diverged."""
        events = self.store.events(row.id)
        ledger = Ledger(events)
        point = fork_point(ledger, step, row.id)
        data = ledger.created["input"] if data is UNCHANGED else data
        program = self.program(row, data)
        by = who() | {"user": user}
        new = NewRun(new_run_id(), row.workflow, program.source.version, None, user, self.owners.enlist())
        created = ledger.created | {
            "input": data,
            "version": new.version,
            "wire": {"type": "fork", "user": user, "host": by["host"], "parent_run": None, "parent_step": None},
            "key": None,
            "fork": {"run": row.id, "step": step, "n": point},
            **self.plan(row.workflow),
        }
        begin = [Draft(Kind.RUN_CREATED, text=body_text(**created)), claimed(self.owners.enlist(), 1)]
        drafts = [*begin, *copied(events, ledger, point)]
        now = self.clock.now()
        numbered = [Event(n, now, *draft) for n, draft in enumerate(drafts)]
        replayed_body(new.id, Ledger(numbered), program, self.log, of=row.id).close()
        summary = summary_of(Index().after(drafts))
        audit = AuditNote("fork", json.dumps(by))
        return self.store.create(new, drafts, source=program.source, audit=audit, summary=summary)
