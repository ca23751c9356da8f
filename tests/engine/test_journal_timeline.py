"""Spans of attempts and waits, and flow.timeline/1."""

from hypothesis import given
from hypothesis import strategies as st

from flowstone.journal.timeline import busy, spans, timeline_document, working
from support.journal_builder import MILLISECOND, SECOND, START, Journal, five_minutes


def outline(journal, **more):
    return [(span.step, span.attempt, span.status, span.start_n, span.end_n) for span in spans(journal.events, **more)]


def test_the_five_minutes_session_as_spans():
    assert outline(five_minutes()) == [
        ("build", 1, "interrupted", 2, 5),
        ("build", 2, "succeeded", 6, 7),
        ("approve:publish", 1, "approved", 8, 13),
        ("publish", 1, "failed", 14, 15),
        ("publish", 2, "succeeded", 19, 20),
    ]
    gate, failure, last = spans(five_minutes().events)[2:]
    assert (gate.by, gate.comment, gate.lasted()) == ("ana", "looks fine", 41 * SECOND)
    assert (failure.error, failure.cut) == ("FileNotFoundError: no live/app.txt", True)
    assert (last.cut, last.name) == (False, "publish")


def test_only_attempts_are_busy():
    found = busy(spans(five_minutes().events), START)
    assert working(found) == 7 * SECOND + 6 * MILLISECOND
    assert found[0] == (START, START + 2 * SECOND)


def test_attempts_that_overlap_or_touch_are_one_busy_interval():
    journal = Journal().claimed().step("a").after(2).step("b").after(2).succeeded("a").after(2).succeeded("b").ran("c", us=3)
    assert busy(spans(journal.events), journal.at) == [(START, START + 9)]
    running = Journal().claimed().step("a")
    assert busy(spans(running.events), START + 5) == [(START, START + 5)]


def test_an_attempt_whose_process_vanished_ends_with_the_last_sign_of_life():
    journal = Journal().claimed().step("a").after(SECOND).ran("b").after(SECOND).answered("approve:x").after(SECOND)
    journal.interrupted().claimed("owner-2", 2).step_interrupted("a")
    first = spans(journal.events)[0]
    assert first.end_at == START + SECOND + MILLISECOND  # mail of others is no sign of life
    assert (first.status, first.end_n) == ("interrupted", 8)


def test_an_attempt_whose_process_left_no_later_sign_ends_when_that_was_found_out():
    journal = Journal().claimed().step("a").after(SECOND).interrupted().claimed("owner-2", 2).step_interrupted("a")
    assert spans(journal.events)[0].end_at == START + SECOND


def test_an_attempt_that_a_signal_stopped_ends_when_it_was_stopped():
    journal = Journal().claimed().step("a").after(SECOND).ran("b").after(SECOND).interrupted("SIGTERM")
    journal.step_interrupted("a", code="SIGTERM")
    assert spans(journal.events)[0].end_at == START + 2 * SECOND + MILLISECOND


def test_a_failed_attempt_tells_when_the_next_is_due():
    journal = Journal().claimed().step("a").after(5).step_failed("a", next_in=100).after(100).step("a", 2)
    first, second = spans(journal.events)
    assert (first.error, first.next_attempt_at, first.cut) == ("StockTimeout: busy", START + 105, False)
    assert (second.status, second.end_n, second.lasted(journal.at + 7)) == ("running", None, 7)


def test_rounds_of_a_gate_are_spans_of_their_own():
    journal = Journal().claimed().gate("pay").answered("approve:pay").refused("approve:pay").gate("pay", round=2)
    journal.answered("approve:pay", "rejected", round=2).closed("approve:pay", "rejected", round=2)
    assert outline(journal) == [("approve:pay", 1, "refused", 2, 4), ("approve:pay", 2, "rejected", 5, 7)]


def test_a_run_that_ends_ends_what_is_still_open():
    journal = Journal().claimed().sleep("nap", 9 * SECOND).after(SECOND).cancelled()
    (nap,) = spans(journal.events)
    assert (nap.status, nap.end_n, nap.lasted()) == ("cancelled", 3, SECOND)


def test_a_retry_sets_aside_all_that_was_asked_for_from_the_cut_on():
    journal = Journal().claimed().ran("a").ran("b").ran("c").step("d").step_failed("d").failed("d").claimed().reopened(cut="b")
    journal.ran("b")
    assert [(span.step, span.cut) for span in spans(journal.events)] == [
        ("a", False), ("b", True), ("c", True), ("d", True), ("b", False),
    ]  # fmt: skip


def test_a_clock_set_back_gives_no_negative_time():
    journal = Journal().claimed().step("a").after(-SECOND).succeeded("a")
    assert spans(journal.events)[0].lasted() == 0
    assert busy(spans(journal.events), journal.at) == [(START, START)]


def test_the_document_of_a_timeline_has_every_field_in_order():
    journal = five_minutes()
    found = timeline_document(journal.row(), journal.ledger(), journal.events, life=None, now=journal.at)
    assert list(found) == ["schema", "run", "events", "attempts"]
    assert "steps" not in found["run"]
    assert found["events"][2]["body"]["name"] == "build"
    assert [list(event) for event in found["events"]] == [["n", "at", "kind", "step", "attempt", "body"]] * 22
    assert found["attempts"][3] == {
        "step": "publish", "attempt": 1, "kind": "step", "status": "failed", "start_n": 14, "end_n": 15,
        "start_at": "2026-11-27T09:00:56.000Z", "end_at": "2026-11-27T09:00:56.003Z", "duration_ms": 3, "child": None,
        "error": "FileNotFoundError: no live/app.txt", "cut": True,
    }  # fmt: skip


@given(st.integers(0, 21))
def test_the_spans_at_a_point_are_those_of_the_journal_cut_off_there(n):
    events = five_minutes().events
    assert spans(events, upto=n) == spans(events[: n + 1])


@given(st.integers(0, 21))
def test_spans_agree_with_the_ledger(n):
    journal = five_minutes()
    journal.events = journal.events[: n + 1]
    from_ledger = sorted(
        (attempt.start_n, operation.key, attempt.number, attempt.status, attempt.end_n)
        for operation in journal.ledger().operations.values()
        for attempt in operation.attempts
    )
    kept = [span for span in spans(journal.events) if not span.cut]
    assert from_ledger == [(span.start_n, span.step, span.attempt, span.status, span.end_n) for span in kept]
