"""Forking: a new run from what another one had done before a step, checked against today's code before it exists."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, NamedTuple

from flowstone.clock import Clock
from flowstone.identity import new_run_id, who
from flowstone.journal.events import Draft, Event, Kind, body_text
from flowstone.journal.fork import copied, fork_point
from flowstone.journal.ledger import Ledger
from flowstone.journal.summary import Index
from flowstone.ports import AuditNote, NewRun, Owners, RunRow, Store
from flowstone.running.body import Program
from flowstone.running.ownership import claimed
from flowstone.running.taking import Differs, replayed_body
from flowstone.running.writer import summary_of

UNCHANGED: Any = object()
"""Says that a fork keeps its run's input."""


class Prepared(NamedTuple):
    """What a fork is made of."""

    ledger: Ledger
    """The old run's."""
    point: int
    data: Any
    """The new run's input."""
    program: Program
    copies: list[Draft]


@dataclass(frozen=True, slots=True)
class Forking:
    """Forks runs of one store."""

    store: Store
    owners: Owners
    clock: Clock
    program: Callable[[RunRow, Any, str], Program]
    """The code of a run, given its row, an input, and whose input that is."""
    plan: Callable[[str], dict[str, Any]]
    """What run.created keeps of a workflow's plan."""
    log: Callable[[str, int, str], None]
    given: Callable[[str, Any], Any]
    """The input of a workflow that a person gives, as it is recorded."""

    def prepared(self, row: RunRow, step: str, data: Any) -> "Prepared":
        """What a fork begins with, checked against today's code. Writes nothing.

        Raises NotFound (no such step), BadData (the input does not fit), Diverged (today's code would not have come there).
        """
        events = self.store.events(row.id)
        ledger = Ledger(events)
        point = fork_point(ledger, step, row.id)
        recorded = ledger.created["input"]
        data = recorded if data is UNCHANGED else self.given(row.workflow, data)
        program = self.program(row, data, "the run's recorded one" if data is recorded else "the fork's")
        copies = copied(events, ledger, point)
        begin = Draft(Kind.RUN_CREATED, text=body_text(**ledger.created | {"input": data, "version": ledger.version}))
        now = self.clock.now()
        kept = Ledger(Event(n, now, *draft) for n, draft in enumerate([begin, *copies]))  # under the version that they are of
        try:
            replayed_body(row.id, kept, program, self.log).close()
        except Differs as differs:
            found = differs.difference
            if program.source.version != ledger.version or data == recorded:
                raise
            raise Differs(
                row.id,
                replace(found, cause="the input is another, and with it the body asks for something else"),
                cure="begin at that step, or at an earlier one: what comes from there on is asked for anew",
                hint=f"flow fork {row.id} --from {quote(found.step)}",
            ) from None
        return Prepared(ledger, point, data, program, copies)

    def fork(self, row: RunRow, step: str, data: Any, user: str) -> RunRow:
        """Create the fork, owned by this process. Raises the same."""
        ledger, point, data, program, copies = self.prepared(row, step, data)
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
        drafts = [*begin, *copies]
        summary = summary_of(Index().after(drafts))
        audit = AuditNote("fork", json.dumps(by))
        return self.store.create(new, drafts, source=program.source, audit=audit, summary=summary)
