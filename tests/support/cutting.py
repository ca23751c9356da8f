"""What a process leaves that died at some event: a copy of its project, cut there."""

import shutil
import sqlite3
from pathlib import Path

from flowstone.journal.events import MAIL, Event
from flowstone.journal.ledger import Ledger
from flowstone.journal.summary import Index


def cut_copy(folder: Path, copy: Path, run_id: str, events: list[Event], cut: int) -> None:
    """A copy of a project whose process died when the run's journal held its first `cut` events."""
    shutil.copytree(folder, copy)
    kept = events[:cut]
    ledger, index = Ledger(kept), Index().after(kept)
    parked = ledger.owner is not None and cut < len(events) and events[cut].kind == "run.claimed"
    database = sqlite3.connect(copy / "flow.db")
    try:
        with database:
            database.execute("delete from journal where run_id = ? and n >= ?", (run_id, cut))
            database.execute(
                "update runs set events=?, status=?, owner=?, epoch=?, mail=?, waiting=?, steps=?, done=?, current_step=?,"
                " error=null, finished_at=null where id=?",
                (
                    cut,
                    ledger.status.value,
                    None if parked else ledger.owner,
                    ledger.epoch,
                    sum(event.kind in MAIL for event in kept),
                    index.waiting(),
                    index.steps,
                    index.done,
                    index.current,
                    run_id,
                ),
            )
    finally:
        database.close()
