"""What every store must give back to who reads it."""

from flowstone.journal.states import Status, Verb
from flowstone.ports import AuditEntry, AuditNote, Change, Filter, LogPiece, Store
from flowstone.testing.store_fixtures import ANSWERED, CREATED, STARTED, SUCCEEDED, Fixtures, SetClock, listed, new_run


class ReadingContract(Fixtures):
    """Reading."""

    def test_runs_are_listed_newest_first(self, store: Store, clock: SetClock) -> None:
        """Also those made at one instant."""
        for run_id in ("c00000000000", "a00000000000", "b00000000000"):
            store.create(new_run(run_id), [CREATED])
        clock.at += 1
        store.create(new_run("a11111111111"), [CREATED])
        assert listed(store, Filter()) == ["a11111111111", "b00000000000", "a00000000000", "c00000000000"]
        assert listed(store, Filter(), limit=2, offset=1) == ["b00000000000", "a00000000000"]
        assert listed(store, Filter(), offset=3) == ["c00000000000"]

    def test_filters_narrow_the_list_and_the_count(self, store: Store) -> None:
        """Alone and together."""
        store.create(new_run("a00000000000", workflow="shop", key="k'1"), [CREATED])
        store.create(new_run("b00000000000", workflow="ship"), [CREATED])
        store.create(new_run("c00000000000", workflow="shop"), [CREATED])
        store.create(new_run("d00000000000", workflow="shop"), [CREATED])
        store.append("c00000000000", 1, [], Change(verb=Verb.COMPLETE))
        store.append("d00000000000", 1, [], Change(verb=Verb.SUSPEND))
        expected = {
            Filter(workflow="shop"): "dca",
            Filter(workflow="shop", status=Status.RUNNING): "a",
            Filter(status=Status.COMPLETED): "c",
            Filter(key="k'1"): "a",
            Filter(key="k"): "",
            Filter(unfinished=True): "dba",
            Filter(unfinished=False): "c",
            Filter(ownable=True): "ba",
            Filter(ownable=True, workflow="shop", unfinished=True): "a",
            Filter(ownable=True, status=Status.COMPLETED): "",
        }
        for wanted, letters in expected.items():
            assert [run_id[0] for run_id in listed(store, wanted)] == list(letters), wanted
            assert store.count(wanted) == len(letters), wanted

    def test_runs_are_found_by_the_start_of_their_id(self, store: Store, clock: SetClock) -> None:
        """Exactly, newest first, with no wildcards."""
        for run_id in ("abc000000000", "abd000000000", "abz000000000", "b00000000000"):
            clock.at += 1
            store.create(new_run(run_id), [CREATED])
        assert [row.id for row in store.with_prefix("ab", limit=2)] == ["abz000000000", "abd000000000"]
        assert [row.id for row in store.with_prefix("abc000000000", limit=9)] == ["abc000000000"]
        assert store.with_prefix("a%", limit=9) == store.with_prefix("a_", limit=9) == []
        assert len(store.with_prefix("", limit=9)) == 4

    def test_the_prefix_length_tells_all_runs_apart(self, store: Store) -> None:
        """And is at least 6."""
        assert store.prefix_length() == 6
        store.create(new_run("abc000000000"), [CREATED])
        assert store.prefix_length() == 6
        store.create(new_run("b00000000000"), [CREATED])
        store.create(new_run("abc000001000"), [CREATED])
        assert store.prefix_length() == 9
        store.create(new_run("abc000000001"), [CREATED])
        assert store.prefix_length() == 12

    def test_output_is_kept_in_order_by_step(self, store: Store) -> None:
        """With row ids to go on from."""
        run = store.create(new_run(), [CREATED])
        pieces = [
            LogPiece("charge card", 1, 5, "out", "one\n"),
            LogPiece(None, None, 6, "err", "body\n"),
            LogPiece("charge card", 2, 7, "err", "two \x1b[1m\n"),
        ]
        store.append(run.id, 1, [STARTED], Change(), pieces[:1])
        store.append(run.id, 1, [], Change(durable=False), pieces[1:])
        read = store.logs(run.id)
        assert [piece for _, piece in read] == pieces
        assert store.logs(run.id, after=read[0][0]) == read[1:]
        assert store.logs(run.id, step="charge card") == [read[0], read[2]]
        assert store.logs(run.id, step="charge card", after=read[0][0]) == [read[2]]

    def test_output_that_is_no_text_does_not_cost_the_step_its_result(self, store: Store) -> None:
        """Programs print what they like."""
        run = store.create(new_run(), [CREATED])
        store.append(run.id, 1, [STARTED], Change(), [LogPiece(None, None, 0, "out", "caf\udce9")])
        assert store.logs(run.id)[0][1].text == "caf\\udce9"

    def test_the_audit_says_who_did_what_newest_first(self, store: Store, clock: SetClock) -> None:
        """Of one run or of all, beside which event; an act that wrote nothing is not in it."""
        store.create(new_run("a00000000000"), [CREATED], audit=AuditNote("run", '{"user":"ana"}'))
        store.create(new_run("b00000000000"), [CREATED], audit=AuditNote("run", '{"user":"bob"}'))
        clock.at += 5
        store.post("a00000000000", None, lambda _run, _events: [ANSWERED], audit=AuditNote("cancel", '{"user":"bob"}'))
        store.post("a00000000000", None, lambda _run, _events: [], audit=AuditNote("cancel", '{"user":"eve"}'))
        made = clock.at - 5
        cancel = AuditEntry("a00000000000", 1, clock.at, "cancel", '{"user":"bob"}')
        started = AuditEntry("a00000000000", 0, made, "run", '{"user":"ana"}')
        assert store.audit("a00000000000") == [cancel, started]
        assert store.audit(None) == [cancel, AuditEntry("b00000000000", 0, made, "run", '{"user":"bob"}'), started]
        assert store.audit(None, limit=1) == [cancel]
        assert store.audit("c00000000000") == []

    def test_an_unknown_version_has_no_source(self, store: Store) -> None:
        """None, no error."""
        assert store.source("v9") is None

    def test_changes_by_others_are_noticed_once(self, store: Store, other: Store) -> None:
        """However many there were."""
        store.create(new_run(), [CREATED])
        store.changed()
        assert not store.changed()
        other.append("a00000000000", 1, [STARTED], Change())
        other.append("a00000000000", 1, [SUCCEEDED], Change())
        assert store.changed()
        assert not store.changed()

    def test_what_one_connection_wrote_another_reads(self, store: Store, other: Store) -> None:
        """At once."""
        store.create(new_run(), [CREATED])
        assert other.events("a00000000000") == store.events("a00000000000")

    def test_closing_twice_is_closing(self, store: Store) -> None:
        """Idempotent."""
        store.close()
        store.close()
