"""Creating runs: the first events of a new run, and of a child of another one."""

import json
from dataclasses import dataclass
from typing import Any

from flowstone.identity import new_seed
from flowstone.journal.events import Draft, Kind, body_text
from flowstone.ports import AuditNote, NewRun, RunRow, Store
from flowstone.running.ownership import claimed
from flowstone.running.programs import Programs


@dataclass(frozen=True, slots=True)
class Creating:
    """Creates runs in one store."""

    store: Store
    programs: Programs

    def create(self, new: NewRun, data: Any, by: dict[str, Any], start: str | None = None) -> RunRow:
        """The row of the new run, or of the one that has its key already; `by` says who asks. The input is not checked here."""
        is_child = new.parent_run is not None
        wire = {
            "type": "child" if is_child else "cli",
            "user": new.user,
            "host": by["host"],
            "parent_run": new.parent_run,
            "parent_step": new.parent_step,
        }
        created = body_text(
            workflow=new.workflow,
            input=data,
            version=new.version,
            seed=new_seed(),
            wire=wire,
            key=new.key,
            fork=None,
            **self.programs.plan(new.workflow),
            **({} if start is None else {"start": start}),
        )
        drafts = [Draft(Kind.RUN_CREATED, text=created)]
        if new.owner is not None:
            drafts.append(claimed(new.owner, 1))
        audit = None if is_child else AuditNote("run", json.dumps(by))
        return self.store.create(new, drafts, source=self.programs.source(new.workflow), audit=audit)
