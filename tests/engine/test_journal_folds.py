"""The folds over a journal say the same at every event of every run: the ledger, the row's index, the spans, the states."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from flowstone.journal.documents import run_document
from flowstone.journal.events import Event
from flowstone.journal.ledger import Ledger
from flowstone.journal.phase import row_waits
from flowstone.journal.state_at import state_at
from flowstone.journal.states import SETTLED
from flowstone.journal.summary import Index
from flowstone.journal.timeline import Span, spans
from flowstone.journal.waits import waits_of
from flowstone.ports import Filter, RunRow
from support.engines import Make
from support.journal_runs import Runs

SHAPES: dict[str, Callable[[Runs], Any]] = {}


def shape(act: Callable[[Runs], Any]) -> Callable[[Runs], Any]:
    SHAPES[act.__name__.replace("_", " ")] = act
    return act


@shape
def completed_after_a_retry_of_a_step(runs: Runs) -> None:
    runs.go_on(runs.run("plain", broken=("second",)))


@shape
def failed_and_retried_twice(runs: Runs) -> None:
    run = runs.go_on(runs.run("plain", broken=("second",)), broken=("second",))
    runs.retry(run, broken=("second",))
    runs.retry(run)


@shape
def retried_from_an_earlier_step(runs: Runs) -> None:
    runs.retry(runs.go_on(runs.run("plain", broken=("second",)), broken=("second",)), step="first")


@shape
def fanned_out_with_failures_and_states(runs: Runs) -> None:
    runs.go_on(runs.run("fanned", broken=("b", "c")), broken=("b",))


@shape
def a_late_result_kept_by_a_retry(runs: Runs) -> None:
    runs.retry(runs.run("beside", broken=("quick",)))


@shape
def a_handled_failure_before_the_cut_of_a_retry(runs: Runs) -> None:
    runs.retry(runs.run("handled", broken=("risky", "last")), broken=("risky",))


@shape
def failed_handled_and_undone(runs: Runs) -> None:
    runs.run("shop", broken=("pay",))


@shape
def an_undo_that_needs_several_attempts(runs: Runs) -> None:
    runs.go_on(runs.run("shop", broken=("pay", "release")), broken=("pay",))


@shape
def an_undo_that_fails_and_is_gone_on_with(runs: Runs) -> None:
    run = runs.go_on(runs.run("shop", broken=("pay", "release")), broken=("pay", "release"))
    runs.retry(run)


@shape
def killed_while_it_undoes(runs: Runs) -> None:
    runs.go_on(runs.killed("shop", at=("step.started", "reserve left:undo"), broken=("pay",)))


@shape
def raced_with_an_undo_of_the_loser(runs: Runs) -> None:
    runs.go_on(runs.run("raced"))


@shape
def asked_and_answered_in_every_way(runs: Runs) -> None:
    run = runs.run("asked")
    runs.answer(run, "large order#1", yes=False, comment="too much", early=True)
    runs.answer(run, "large order")
    runs.engine.drive(run)
    runs.engine.resume(run)


@shape
def expired(runs: Runs) -> None:
    run = runs.run("asked")
    for _ in range(2):
        runs.engine.clock.move("3d")  # type: ignore[attr-defined]
        runs.engine.drive(run)


@shape
def cancelled_at_a_gate(runs: Runs) -> None:
    runs.cancel(runs.run("signed"), "not needed")


@shape
def cancelled_by_itself(runs: Runs) -> None:
    runs.run("changed_mind")


@shape
def cancelled_with_an_undo_that_fails(runs: Runs) -> None:
    run = runs.cancel(runs.run("signed"), "not needed", broken=("release",))
    runs.retry(run)


@shape
def cancelled_and_retried(runs: Runs) -> None:
    run = runs.run("asked")
    runs.answer(run, "large order")
    runs.engine.drive(run)
    runs.cancel(run, "not needed")


@shape
def a_child_that_fails_and_is_retried(runs: Runs) -> None:
    run = runs.go_on(runs.run("parent", {"kind": "plain"}, broken=("second",)), broken=("second",))
    runs.retry(run)


@shape
def a_grandchild_that_fails(runs: Runs) -> None:
    runs.go_on(runs.run("parent", {"kind": "grandchild"}, broken=("second",)), broken=("second",))


@shape
def a_child_that_undoes(runs: Runs) -> None:
    runs.run("parent", {"kind": "shop"}, broken=("pay",))


@shape
def a_child_that_is_tried_twice(runs: Runs) -> None:
    run = runs.run("patient", broken=("last",))
    runs.engine.clock.move("1h")  # type: ignore[attr-defined]
    runs.engine.resume(run)


@shape
def a_child_that_waits_for_a_person(runs: Runs) -> None:
    run = runs.run("parent", {"kind": "signed"})
    runs.answer(child_of(runs, run), "sign")
    runs.engine.drive(child_of(runs, run))
    runs.go_on(run)


@shape
def cancelled_with_a_child(runs: Runs) -> None:
    runs.cancel(runs.run("parent", {"kind": "signed"}), "not needed")


@shape
def a_completed_child_that_is_undone(runs: Runs) -> None:
    runs.run("guarded", broken=("last",))


@shape
def a_child_that_fails_and_is_handled(runs: Runs) -> None:
    runs.go_on(runs.run("guarded", broken=("second",)), broken=("second",))


@shape
def a_timer_and_a_gate_put_down_by_a_failure_and_begun_again(runs: Runs) -> None:
    run = runs.run("waited_for", broken=("last",))
    runs.engine.clock.move("1h")  # type: ignore[attr-defined]
    runs.engine.drive(run)
    runs.engine.engine.retry(run)
    runs.engine.drive(run)
    runs.answer(run, "sign")
    runs.go_on(run)


@shape
def forked(runs: Runs) -> None:
    run = runs.go_on(runs.run("handled", broken=("risky", "last")), broken=("risky", "last"))
    fork = runs.engine.engine.fork(run, "last")
    runs.go_on(fork.id)


@shape
def killed_in_a_child(runs: Runs) -> None:
    runs.go_on(runs.killed("parent", {"kind": "plain"}, at=("step.started", "second")))


@shape
def killed_and_gone_on_with(runs: Runs) -> None:
    runs.go_on(runs.killed("plain", at=("step.started", "first")))


@shape
def resolved_as_succeeded(runs: Runs) -> None:
    resolved(runs, "succeeded")


@shape
def resolved_as_failed(runs: Runs) -> None:
    resolved(runs, "failed")


@shape
def resolved_by_another_attempt(runs: Runs) -> None:
    resolved(runs, "retry")


@shape
def cancelled_while_an_outcome_is_unknown(runs: Runs) -> None:
    run = runs.killed("paid", {"amount": 1}, at=("step.started", "charge card"))
    runs.engine.drive(run)
    runs.cancel(run, "not needed")


@shape
def stopped_and_resumed(runs: Runs) -> None:
    runs.engine.observers.append(
        lambda events: [runs.engine.engine.stop.set("STOPPED") for event in events if event.step == "second"]
    )
    run = runs.run("plain")
    runs.engine.engine.stop.code = None
    runs.engine.observers.pop()
    runs.engine.resume(run)


def resolved(runs: Runs, outcome: str) -> None:
    run = runs.killed("paid", {"amount": 1}, at=("step.started", "charge card"))
    runs.engine.drive(run)
    runs.engine.clock.move("3h")  # type: ignore[attr-defined]
    runs.engine.engine.resolve(run, "charge card", outcome, result=1, reason="seen in the bank")
    runs.go_on(run)


def child_of(runs: Runs, run: str) -> str:
    return next(operation.child for operation in runs.engine.ledger(run).operations.values() if operation.child) or ""


@pytest.fixture(params=SHAPES)
def journals(request: pytest.FixtureRequest, make: Make) -> list[tuple[RunRow, Sequence[Event]]]:
    """The rows and journals of a shape's runs, children included."""
    runs = Runs(make)
    SHAPES[request.param](runs)
    return [(row, runs.engine.events(row.id)) for row in runs.engine.store.runs(Filter())]


def test_the_index_of_a_row_says_what_the_ledger_says_at_every_event(journals: Any) -> None:
    for row, events in journals:
        index, ledger = Index(), Ledger()
        for event in events:
            index = index.after([event])
            ledger.apply(event)
            where = f"{row.workflow} after {event.n} {event.kind} {event.step}"
            then = row._replace(
                status=ledger.status, owner=ledger.owner, events=ledger.count, mail=ledger.mail, waiting=index.waiting()
            )
            assert row_waits(then) == waits_of(ledger), where
            assert index.steps == sum(operation.is_step for operation in ledger.operations.values()), where
            assert (index.done, index.current) == (ledger.done, ledger.current), where
            assert (None if index.error is None else json.loads(index.error)) == why(ledger), where
        assert (row.waiting, row.steps, row.done) == (index.waiting(), index.steps, index.done)
        assert (row.current_step, row.error) == (index.current, index.error)


def why(ledger: Ledger) -> Any:
    """Why the run did not complete, as the row says it."""
    if ledger.cancelled is not None:
        cancelled = ledger.cancelled
        return {"type": "RunCancelled", "message": cancelled["reason"], "by": (cancelled["by"] or {}).get("user")}
    return ledger.error


def test_the_spans_are_the_attempts_of_the_ledger_at_every_event(journals: Any) -> None:
    for _, events in journals:
        for n in range(len(events)):
            ledger, found = Ledger(events[: n + 1]), spans(events, upto=n)
            assert found == spans(events[: n + 1])
            attempts = {
                (operation.key, attempt.number): (operation.kind, *ended(ledger, attempt))
                for operation in ledger.operations.values()
                for attempt in operation.attempts
            }
            told = {(span.step, span.attempt): span_facts(span) for span in found if not span.cut}
            assert {at: facts for at, facts in attempts.items() if at in told} == told
            cut = {(span.step, span.attempt) for span in found if span.cut}
            assert set(attempts) - set(told) <= cut  # an undo that is begun again keeps its number of attempts
            children = {operation.key: operation.child for operation in ledger.operations.values() if operation.child}
            assert children.items() <= {span.step: span.child for span in found if not span.cut}.items()


def span_facts(span: Span) -> tuple[Any, ...]:
    return (span.kind, span.status, span.start_n, span.end_n, span.start_at, span.end_at, span.next_attempt_at)


def ended(ledger: Ledger, attempt: Any) -> tuple[Any, ...]:
    """The facts of an attempt; one that its run ended over has ended with it."""
    status, end_n, end_at = attempt.status, attempt.end_n, attempt.end_at
    if ledger.status in SETTLED and end_n is None:
        status, end_n, end_at = "cancelled", ledger.count - 1, ledger.updated_at
    return (status, attempt.start_n, end_n, attempt.start_at, end_at, attempt.next_attempt_at)


def test_the_state_at_an_event_is_the_fold_of_the_events_up_to_it(journals: Any) -> None:
    for row, events in journals:
        for n in range(len(events)):
            found, ledger = state_at(row, events, n), Ledger(events[: n + 1])
            assert found == state_at(row, events[: n + 1], n)
            assert found["status"] == ledger.status
            assert found["steps"] == {key: operation.status for key, operation in ledger.operations.items()}
            assert found["path"] == list(ledger.operations)
            assert found["state"] == ledger.state
            assert set(found["results"]) <= {event.step for event in ledger.completions}
        assert found["status"] == row.status
        assert (found["phase"] == row.status) == (row.status in SETTLED)


def test_a_document_can_be_made_at_every_event(journals: Any) -> None:
    for row, events in journals:
        for n in range(len(events)):
            ledger = Ledger(events[: n + 1])
            found = run_document(row, ledger, life="alive", now=ledger.updated_at)
            keys = [step["key"] for step in found["steps"]]
            assert keys == list(ledger.operations)
            assert json.loads(json.dumps(found)) == found
