"""What every store must do when house is kept: deleting runs, making the index anew, giving room back."""

import json

import pytest

from flowstone.errors import NotFound, TryAgain
from flowstone.journal.columns import columns_in, columns_of
from flowstone.journal.events import Draft, Kind
from flowstone.journal.states import Status, Verb
from flowstone.journal.waits import make_wait
from flowstone.ports import AuditNote, Change, Filter, LogPiece, Store, Summary
from flowstone.testing.store_fixtures import (
    ANSWERED,
    CREATED,
    OPENED,
    STARTED,
    SUCCEEDED,
    Fixtures,
    SetClock,
    brought_to,
    new_run,
)

DELETED = AuditNote(action="delete", by='{"user":"ann"}')


class KeepingContract(Fixtures):
    """Deleting, and making anew what can be made anew."""

    def test_a_deleted_run_is_gone_with_its_journal_and_its_output(self, store: Store, other: Store) -> None:
        """Its neighbour stays."""
        run = store.create(new_run("a00000000000", key="k"), [CREATED, STARTED])
        kept = store.create(new_run("b00000000000"), [CREATED])
        store.append(run.id, 1, [SUCCEEDED], Change(), [LogPiece("charge card", 1, 0, "out", "hello")])
        store.delete(store.run(run.id))
        with pytest.raises(NotFound):
            other.run(run.id)
        assert other.events(run.id) == []
        assert other.logs(run.id) == []
        assert other.runs(Filter()) == [kept]
        assert len(other.events(kept.id)) == 1
        assert other.create(new_run("c00000000000", key="k"), [CREATED]).id == "c00000000000"

    def test_who_deleted_a_run_stays_known(self, store: Store, clock: SetClock) -> None:
        """So does what was audited before."""
        run = store.create(new_run(), [CREATED], audit=AuditNote(action="run", by="{}"))
        clock.at += 7
        store.delete(run, audit=DELETED)
        assert [(one.action, one.n, one.at) for one in store.audit(run.id)] == [
            ("delete", 1, clock.at),
            ("run", 0, clock.at - 7),
        ]

    def test_a_run_that_changed_since_it_was_seen_is_not_deleted(self, store: Store, other: Store) -> None:
        """Nor is anything of it."""
        seen = store.create(new_run(), [CREATED, STARTED])
        other.append(seen.id, 1, [SUCCEEDED], Change())
        with pytest.raises(TryAgain):
            store.delete(seen, audit=DELETED)
        assert len(store.events(seen.id)) == 3
        assert store.audit(seen.id) == []
        other.append(seen.id, 1, [], Change(release=True))
        other.claim(store.run(seen.id), "you", [])
        with pytest.raises(TryAgain):
            store.delete(seen)

    def test_a_run_that_does_not_exist_cannot_be_deleted(self, store: Store) -> None:
        """It is not found, also the second time."""
        run = store.create(new_run(), [CREATED])
        store.delete(run)
        with pytest.raises(NotFound):
            store.delete(run)

    def test_a_row_is_made_anew_from_its_journal(self, store: Store) -> None:
        """Whatever it said before."""
        opened = OPENED._replace(text='{"kind":"approval","name":"large order","deadline":null,"schema":null,"message":""}')
        started = STARTED._replace(text='{"kind":"step","name":"charge card"}')
        run = store.create(new_run(), [CREATED._replace(text='{"version":"v1"}'), started, SUCCEEDED, opened])
        wrong = Summary(waiting=json.dumps([make_wait("sleep")]), steps=7, done=9, current_step="nothing", error='{"type":"X"}')
        store.append(run.id, 1, [Draft(Kind.RUN_SUSPENDED, text='{"code":"WAITING"}')], Change(summary=wrong))
        store.post(run.id, None, lambda _row, _events: [ANSWERED])
        assert store.run(run.id).status is Status.RUNNING
        anew = store.reindex(run.id)
        assert anew == store.run(run.id)
        assert columns_in(anew) == columns_of(store.events(run.id))
        assert (anew.status, anew.steps, anew.done, anew.error, anew.mail) == (Status.SUSPENDED, 1, 1, None, 1)
        assert (anew.owner, anew.epoch, anew.version) == (run.owner, run.epoch, run.version)

    def test_room_is_given_back_and_nothing_else_changes(self, store: Store, other: Store) -> None:
        """Also while another connection is open."""
        run = store.create(new_run(), [CREATED])
        store.append(run.id, 1, [], Change(), [LogPiece(None, None, 0, "out", "x" * 100_000)])
        row = brought_to(store, store.run(run.id), Status.COMPLETED)
        kept = store.create(new_run("b00000000000"), [CREATED])
        store.delete(row)
        store.vacuum()
        assert other.runs(Filter()) == [kept]
        assert store.append(kept.id, 1, [STARTED], Change(verb=Verb.COMPLETE)) is not None

    def test_the_size_of_a_run_is_that_of_its_texts_in_bytes(self, store: Store) -> None:
        """Letters of more than one byte count as many."""
        run = store.create(new_run(), [CREATED])
        store.append(run.id, 1, [], Change(), [LogPiece(None, None, 0, "out", "größe")])
        assert store.size(run.id) == len(CREATED.text.encode()) + len("größe".encode())
        assert store.size("nothing00000") == 0
