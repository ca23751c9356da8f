"""What every store must do, as pytest classes: a store's tests derive from `StoreContract` and give it the fixture `opened`."""

import json
from collections.abc import Sequence

import pytest

from flowstone.errors import AlreadyAnswered, LostOwnership, NotFound, TryAgain
from flowstone.journal.events import Draft, Event, Kind
from flowstone.journal.states import SETTLED, TRANSITIONS, Status, Verb
from flowstone.journal.waits import make_wait
from flowstone.ports import Change, Filter, LogPiece, NewRun, RunRow, Source, Store, Summary
from flowstone.testing.store_fixtures import (
    ANSWERED,
    BY_HAND,
    CREATED,
    OPENED,
    START,
    STARTED,
    SUCCEEDED,
    Fixtures,
    SetClock,
    brought_to,
    new_run,
)
from flowstone.testing.store_keeping_contract import KeepingContract
from flowstone.testing.store_reading_contract import ReadingContract


class CreatingContract(Fixtures):
    """Creating runs."""

    def test_a_created_run_has_its_row_and_its_events(self, store: Store, clock: SetClock) -> None:
        """One transaction makes both."""
        run = store.create(new_run(), [CREATED, STARTED])
        assert run == store.run("a00000000000")
        assert run == RunRow(
            id="a00000000000",
            workflow="shop",
            status=Status.RUNNING,
            version="v1",
            key=None,
            user="ann",
            parent_run=None,
            parent_step=None,
            created_at=clock.at,
            updated_at=clock.at,
            finished_at=None,
            owner="me",
            epoch=1,
            mail=0,
            events=2,
            waiting="[]",
            steps=0,
            done=0,
            current_step=None,
            error=None,
        )
        assert store.events(run.id) == [
            Event(0, clock.at, "run.created", None, None, '{"input":{"größe":1}}'),
            Event(1, clock.at, "step.started", "charge card", 1, '{"kind":"do"}'),
        ]

    def test_a_run_without_owner_starts_under_epoch_0(self, store: Store) -> None:
        """It waits for a worker."""
        run = store.create(new_run(owner=None), [CREATED])
        assert (run.owner, run.epoch) == (None, 0)

    def test_a_taken_key_gives_the_run_that_has_it_and_writes_nothing(self, store: Store, other: Store) -> None:
        """Also through another connection."""
        first = store.create(new_run("a00000000000", key="k"), [CREATED])
        source = Source("v2", "shop", "...")
        assert other.create(new_run("b00000000000", key="k"), [CREATED], source=source, audit=BY_HAND) == first
        assert store.count(Filter()) == 1
        assert store.events("b00000000000") == []
        assert store.source("v2") is None

    def test_a_taken_id_is_refused(self, store: Store) -> None:
        """And nothing is written."""
        store.create(new_run(), [CREATED])
        with pytest.raises(TryAgain):
            store.create(new_run(), [CREATED])
        assert store.run("a00000000000").events == 1

    def test_a_source_is_stored_once_per_version(self, store: Store) -> None:
        """The first stays."""
        store.create(new_run("a00000000000"), [CREATED], source=Source("v1", "shop", "first"))
        store.create(new_run("b00000000000"), [CREATED], source=Source("v1", "shop", "second"))
        assert store.source("v1") == Source("v1", "shop", "first")

    def test_links_to_the_parent_are_kept(self, store: Store) -> None:
        """A child run knows where it came from."""
        child = NewRun("b00000000000", "ship", "v1", None, "ann", None, parent_run="a00000000000", parent_step="ship it")
        row = store.create(child, [CREATED])
        assert (row.parent_run, row.parent_step) == ("a00000000000", "ship it")


class ClaimingContract(Fixtures):
    """Claiming runs."""

    def test_a_claim_raises_the_epoch_and_makes_the_owner(self, store: Store, clock: SetClock) -> None:
        """Its events are numbered on."""
        run = store.create(new_run(owner=None), [CREATED])
        clock.at += 5
        claimed = store.claim(run, "me", [Draft(Kind.RUN_CLAIMED)], source=Source("v2", "shop", "..."))
        assert (claimed.owner, claimed.epoch, claimed.events, claimed.updated_at) == ("me", 1, 2, clock.at)
        assert claimed.version == "v2"
        assert [(event.n, event.kind) for event in store.events(run.id)] == [(0, "run.created"), (1, "run.claimed")]
        assert store.source("v2") is not None

    def test_a_run_that_was_claimed_since_it_was_seen_cannot_be_claimed(self, store: Store, other: Store) -> None:
        """Of two who saw the same row one wins."""
        run = store.create(new_run(owner=None), [CREATED])
        store.claim(run, "me", [])
        with pytest.raises(TryAgain):
            other.claim(run, "you", [Draft(Kind.RUN_CLAIMED)])
        assert store.run(run.id).owner == "me"
        assert store.run(run.id).events == 1

    def test_a_run_that_was_released_since_it_was_seen_cannot_be_claimed(self, store: Store) -> None:
        """The owner seen is part of what must still be so."""
        run = store.create(new_run(), [CREATED])
        store.append(run.id, 1, [], Change(release=True))
        with pytest.raises(TryAgain):
            store.claim(run, "you", [])

    def test_a_run_that_had_an_owner_since_it_was_seen_cannot_be_claimed(self, store: Store) -> None:
        """Though its row looks as before, but for the epoch."""
        run = store.create(new_run(owner=None), [CREATED])
        store.claim(run, "me", [])
        store.append(run.id, 1, [], Change(release=True))
        with pytest.raises(TryAgain):
            store.claim(run, "you", [])
        assert store.run(run.id).owner is None

    def test_a_run_that_does_not_exist_cannot_be_claimed(self, store: Store) -> None:
        """It is not found."""
        run = store.create(new_run(), [CREATED])
        gone = RunRow(**{name: getattr(run, name) for name in RunRow._fields} | {"id": "z00000000000"})
        with pytest.raises(NotFound):
            store.claim(gone, "me", [])

    def test_a_claim_can_reopen(self, store: Store, clock: SetClock) -> None:
        """Then the run is unfinished again."""
        run = store.create(new_run(), [CREATED])
        store.append(run.id, 1, [], Change(verb=Verb.FAIL, release=True))
        failed = store.run(run.id)
        assert failed.finished_at == clock.at
        reopened = store.claim(failed, "you", [Draft(Kind.RUN_REOPENED)], verb=Verb.REOPEN)
        assert (reopened.status, reopened.finished_at, reopened.epoch) == (Status.RUNNING, None, 2)

    def test_a_claim_makes_only_legal_transitions(self, store: Store) -> None:
        """A running run is not resumed."""
        run = store.create(new_run(), [CREATED])
        with pytest.raises(TryAgain, match="running"):
            store.claim(run, "you", [], verb=Verb.RESUME)
        assert store.run(run.id) == run


class AppendingContract(Fixtures):
    """Appending as the owner."""

    def test_events_are_numbered_without_gaps(self, store: Store) -> None:
        """Whoever writes them."""
        run = store.create(new_run(), [CREATED])
        appended = store.append(run.id, 1, [STARTED, SUCCEEDED], Change())
        assert appended is not None
        assert [event.n for event in appended] == [1, 2]
        store.post(run.id, None, lambda _row, _events: [ANSWERED])
        store.append(run.id, 1, [Draft(Kind.STATE_SET)], Change(durable=False))
        read = store.events(run.id)
        assert [event.n for event in read] == [0, 1, 2, 3, 4]
        assert read[1:3] == appended
        assert store.run(run.id).events == 5
        assert store.events(run.id, after=2) == read[3:]

    def test_an_old_epoch_writes_nothing(self, store: Store, other: Store) -> None:
        """After a takeover the former owner learns that it lost the run."""
        run = store.create(new_run(), [CREATED])
        other.claim(run, "you", [])
        with pytest.raises(LostOwnership):
            store.append(
                run.id, 1, [STARTED], Change(summary=Summary("[]", 1, 0, None, None)), [LogPiece(None, None, 0, "out", "x")]
            )
        assert (store.run(run.id).events, store.run(run.id).steps, store.logs(run.id)) == (1, 0, [])

    def test_a_released_run_has_no_owner_who_could_write(self, store: Store) -> None:
        """Not even the one that released it."""
        run = store.create(new_run(), [CREATED])
        store.append(run.id, 1, [Draft(Kind.RUN_SUSPENDED)], Change(verb=Verb.SUSPEND, release=True))
        row = store.run(run.id)
        assert (row.owner, row.epoch, row.status) == (None, 1, Status.SUSPENDED)
        with pytest.raises(LostOwnership):
            store.append(run.id, 1, [STARTED], Change())

    def test_mail_that_came_in_keeps_a_guarded_append_from_being_written(self, store: Store, other: Store) -> None:
        """So that nobody parks a run with unread mail."""
        run = store.create(new_run(), [CREATED, OPENED])
        other.post(run.id, OPENED.step, lambda _row, _events: [ANSWERED])
        parking = Change(verb=Verb.SUSPEND, release=True, seen_mail=0)
        assert store.append(run.id, 1, [Draft(Kind.RUN_SUSPENDED)], parking) is None
        row = store.run(run.id)
        assert (row.status, row.owner, row.mail, row.events) == (Status.RUNNING, "me", 1, 3)
        parking = Change(verb=Verb.SUSPEND, release=True, seen_mail=1)
        assert store.append(run.id, 1, [Draft(Kind.RUN_SUSPENDED)], parking) is not None

    def test_a_lost_run_is_lost_even_if_mail_came_in(self, store: Store, other: Store) -> None:
        """Losing outweighs mail."""
        run = store.create(new_run(), [CREATED])
        other.post(run.id, None, lambda _row, _events: [ANSWERED])
        other.claim(store.run(run.id), "you", [])
        with pytest.raises(LostOwnership):
            store.append(run.id, 1, [], Change(seen_mail=0))

    @pytest.mark.parametrize("verb", list(Verb))
    @pytest.mark.parametrize("status", list(Status))
    def test_transitions_are_those_of_the_table(self, store: Store, clock: SetClock, verb: Verb, status: Status) -> None:
        """Every verb from every status."""
        run = brought_to(store, store.create(new_run(), [CREATED]), status)
        assert run.status is status
        clock.at += 7
        sources, target = TRANSITIONS[verb]
        if status in sources:
            store.append(run.id, 1, [STARTED], Change(verb=verb))
            row = store.run(run.id)
            assert row.status is target
            assert row.finished_at == (clock.at if target in SETTLED else None)
        else:
            with pytest.raises(TryAgain, match=status.value):
                store.append(run.id, 1, [STARTED], Change(verb=verb))
            assert store.run(run.id) == run

    def test_the_summary_is_written_whole_or_kept(self, store: Store) -> None:
        """A change without one leaves the columns as they are."""
        run = store.create(new_run(), [CREATED])
        waiting = json.dumps([make_wait("sleep")])
        store.append(run.id, 1, [], Change(summary=Summary(waiting, 3, 2, "charge card", '{"message":"no"}')))
        store.append(run.id, 1, [], Change())
        row = store.run(run.id)
        assert (row.waiting, row.steps, row.done, row.current_step) == (waiting, 3, 2, "charge card")
        assert row.error == '{"message":"no"}'
        store.append(run.id, 1, [], Change(summary=Summary("[]", 3, 3, None, None)))
        row = store.run(run.id)
        assert (row.waiting, row.done, row.current_step, row.error) == ("[]", 3, None, None)

    def test_an_attempt_ends_once(self, store: Store) -> None:
        """A second ending of the same kind is refused, with all that came with it."""
        run = store.create(new_run(), [CREATED, STARTED, SUCCEEDED])
        with pytest.raises(TryAgain):
            store.append(run.id, 1, [Draft(Kind.STATE_SET), SUCCEEDED], Change())
        assert [event.kind for event in store.events(run.id)] == ["run.created", "step.started", "step.succeeded"]

    def test_a_run_that_does_not_exist_is_not_found(self, store: Store) -> None:
        """By every verb."""
        with pytest.raises(NotFound):
            store.append("z00000000000", 1, [STARTED], Change())
        with pytest.raises(NotFound):
            store.post("z00000000000", None, lambda _row, _events: [ANSWERED])
        with pytest.raises(NotFound):
            store.run("z00000000000")

    def test_large_and_strange_texts_come_back_as_they_were(self, store: Store) -> None:
        """Bodies are text, whatever is in it."""
        run = store.create(new_run(), [CREATED])
        texts = ['{"x":"' + "é" * 500_000 + '"}', '{"x":"\\u0000\\ud800"}', '{"x":"it\'s; -- \U0001f600"}', '{"x":"a\x00b"}']
        store.append(run.id, 1, [Draft(Kind.STATE_SET, text=text) for text in texts], Change())
        assert [event.text for event in store.events(run.id, after=0)] == texts


class PostingContract(Fixtures):
    """Writing mail."""

    def test_mail_is_decided_on_the_row_and_the_events_of_the_step(self, store: Store, clock: SetClock) -> None:
        """And counted."""
        run = store.create(new_run(), [CREATED, OPENED, STARTED])
        seen: list[tuple[RunRow, list[Event]]] = []

        def decide(row: RunRow, events: list[Event]) -> Sequence[Draft]:
            seen.append((row, events))
            return [ANSWERED]

        clock.at += 9
        row, posted = store.post(run.id, OPENED.step, decide, audit=BY_HAND)
        assert seen == [(run, [Event(1, START, "gate.opened", OPENED.step, 1, '{"round":1}')])]
        assert posted == [Event(3, clock.at, "gate.answered", ANSWERED.step, 1, ANSWERED.text)]
        assert (row.mail, row.events, row.updated_at, row.owner, row.epoch) == (1, 4, clock.at, "me", 1)
        assert row == store.run(run.id)
        assert store.events(run.id)[-1:] == posted

    def test_without_a_step_all_events_are_seen(self, store: Store) -> None:
        """For mail to the run itself."""
        run = store.create(new_run(), [CREATED, OPENED])
        seen: list[Event] = []

        def decide(_row: RunRow, events: list[Event]) -> Sequence[Draft]:
            seen.extend(events)
            return []

        store.post(run.id, None, decide)
        assert seen == store.events(run.id)

    def test_a_refusal_writes_nothing(self, store: Store) -> None:
        """The error passes through, and the store goes on working."""
        run = store.create(new_run(), [CREATED])

        def refuse(_row: RunRow, _events: list[Event]) -> Sequence[Draft]:
            raise AlreadyAnswered("ann has approved it")

        with pytest.raises(AlreadyAnswered, match="ann has approved it"):
            store.post(run.id, OPENED.step, refuse, audit=BY_HAND)
        assert store.run(run.id) == run
        store.append(run.id, 1, [STARTED], Change())

    def test_no_mail_changes_nothing(self, store: Store, clock: SetClock) -> None:
        """The row is that which was seen."""
        run = store.create(new_run(), [CREATED])
        clock.at += 1
        assert store.post(run.id, None, lambda _row, _events: [], audit=BY_HAND) == (run, [])
        assert store.run(run.id) == run

    def test_only_mail_counts_as_mail(self, store: Store) -> None:
        """What accompanies it does not."""
        run = store.create(new_run(), [CREATED])
        row, posted = store.post(run.id, None, lambda _row, _events: [Draft(Kind.RUN_CANCEL_REQUESTED), Draft(Kind.STATE_SET)])
        assert (row.mail, row.events, len(posted)) == (1, 3, 2)

    def test_a_gate_has_one_answer_per_round(self, store: Store, other: Store) -> None:
        """Even if who decides does not look."""
        run = store.create(new_run(), [CREATED, OPENED])
        store.post(run.id, OPENED.step, lambda _row, _events: [ANSWERED])
        with pytest.raises(TryAgain):
            other.post(run.id, OPENED.step, lambda _row, _events: [ANSWERED])
        other.post(run.id, OPENED.step, lambda _row, _events: [ANSWERED._replace(attempt=2)])
        assert store.run(run.id).mail == 2


class StoreContract(CreatingContract, ClaimingContract, AppendingContract, PostingContract, ReadingContract, KeepingContract):
    """All of it. Derive `class TestMyStore(StoreContract)` with a fixture `opened` of type `Opened`."""
