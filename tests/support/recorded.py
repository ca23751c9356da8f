"""Puts journals built by hand into a database, with their ids and instants, so that commands can read them."""

from pathlib import Path

from flowstone.journal.events import Draft, Kind
from flowstone.journal.states import SETTLED
from flowstone.ports import Change, NewRun
from flowstone.storage.sqlite.store import SqliteStore
from support.journal_builder import Journal


class _Clock:
    at = 0

    def now(self) -> int:
        return self.at

    async def wait(self, until: int) -> None:
        raise AssertionError("nothing waits here")


def record(
    database: Path, run_id: str, journal: Journal, *, parent: tuple[str, str] | None = None, key: str | None = None
) -> None:
    """Write one run; its row is made anew from its journal."""
    clock = _Clock()
    database.parent.mkdir(exist_ok=True)
    store = SqliteStore(database, clock, mode="create")
    first, *rest = journal.events
    clock.at = first.at
    new = NewRun(run_id, first.body()["workflow"], "v1", key, "ana", "hand", *(parent or (None, None)))
    store.create(new, [_draft(first)])
    for event in rest:
        clock.at = event.at
        store.append(run_id, 1, [_draft(event)], Change(durable=False))
    store.append(run_id, 1, [], Change(release=True))
    row = store.reindex(run_id)
    assert journal.ledger().status in SETTLED or row.finished_at is None
    store.close()


def _draft(event) -> Draft:  # type: ignore[no-untyped-def]
    return Draft(Kind(event.kind), event.step, event.attempt, event.text)
