"""What documents, timeline and states say of runs that undo, have children, are cancelled, retried, cut off or resolved."""

import json
import shlex
from typing import Any

import pytest

from flowstone.journal.documents import run_document
from flowstone.journal.ledger import Ledger
from flowstone.journal.notes import cancel_note, next_command, note_of
from flowstone.journal.phase import Phase, phase_of
from flowstone.journal.state_at import state_at
from flowstone.journal.timeline import Span, busy, spans, timeline_document
from flowstone.journal.waits import waits_of
from support.engines import Make
from support.journal_builder import Journal
from support.journal_runs import Runs

DAY = 86_400_000_000


@pytest.fixture
def runs(make: Make) -> Runs:
    return Runs(make)


def document(runs: Runs, run: str) -> dict[str, Any]:
    engine = runs.engine
    row = engine.store.run(run)
    return run_document(row, engine.ledger(run), life=engine.engine.life(row), now=engine.clock.now())


def steps(runs: Runs, run: str) -> dict[str, dict[str, Any]]:
    return {step["key"]: step for step in document(runs, run)["steps"]}


def note(runs: Runs, run: str) -> str:
    row = runs.engine.store.run(run)
    return note_of(row, phase_of(row, runs.engine.engine.life(row)), runs.engine.clock.now())


def found(runs: Runs, run: str) -> list[Span]:
    return spans(runs.engine.events(run))


def states(runs: Runs, run: str) -> list[dict[str, Any]]:
    row, events = runs.engine.store.run(run), runs.engine.events(run)
    return [state_at(row, events, n) for n in range(len(events))]


# undo and handlers


def test_undo_and_handlers_stand_after_what_the_body_asked_for_in_the_order_begun(runs: Runs) -> None:
    run = runs.run("shop", broken=("pay",))
    assert [(step["key"], step["kind"], step["status"], step["undone"]) for step in document(runs, run)["steps"]] == [
        ("reserve left", "step", "succeeded", "succeeded"),
        ("reserve right", "step", "succeeded", "succeeded"),
        ("pay", "step", "failed", None),
        ("pay:on_error", "on_error", "succeeded", None),
        ("reserve right:undo", "undo", "succeeded", None),
        ("reserve left:undo", "undo", "succeeded", None),
    ]
    assert list(runs.engine.ledger(run).operations) == list(steps(runs, run))
    assert steps(runs, run)["reserve left:undo"]["from"] == "reserve left"


def test_undo_and_handlers_are_named_by_the_id_that_their_function_is_told(runs: Runs) -> None:
    run = runs.run("shop", broken=("pay",))
    assert all(step["invocation_id"] for step in document(runs, run)["steps"])


def test_steps_stand_in_the_order_begun_a_handler_before_what_the_body_asked_for_after_it(runs: Runs) -> None:
    run = runs.run("handled", broken=("risky",))
    assert list(steps(runs, run)) == ["risky", "risky:on_error", "instead", "last"]


def test_the_spans_of_an_undo_have_its_kind_and_are_work(runs: Runs) -> None:
    run = runs.run("shop", broken=("pay",))
    assert [span.kind for span in found(runs, run)] == ["step", "step", "step", "on_error", "undo", "undo"]
    journal = Journal().claimed().ran("a").step("b").step_failed("b").after(1000).undo("a", cause={"verb": "fail"}).after(5000)
    journal.succeeded("a:undo")
    assert busy(spans(journal.events), journal.at)[-1] == (journal.at - 5000, journal.at)


def test_a_run_is_undoing_from_its_first_undo_to_its_end(runs: Runs) -> None:
    run = runs.run("shop", broken=("pay",))
    told = states(runs, run)
    kinds = [event.step if event.step and event.step.endswith(":undo") else event.kind for event in runs.engine.events(run)]
    first = kinds.index("reserve right:undo")
    assert [state["phase"] for state in told][first:] == ["undoing"] * (len(told) - first - 1) + ["failed"]
    assert "undoing" not in [state["phase"] for state in told][:first]


def test_a_row_alone_says_that_the_run_is_undoing() -> None:
    undoing = Journal().claimed().ran("a").step("b").step_failed("b").undo("a", cause={"verb": "fail"})
    assert phase_of(undoing.row(), "alive") is Phase.UNDOING
    assert phase_of(undoing.row(), "dead") is Phase.INTERRUPTED
    assert phase_of(undoing.succeeded("a:undo").failed("b").row(), None) is Phase.FAILED


def test_an_undo_at_once_of_a_races_loser_is_no_undoing_of_the_run(runs: Runs) -> None:
    run = runs.run("raced")
    assert "slow:undo" in steps(runs, run)
    assert steps(runs, run)["slow"]["undone"] == "succeeded"
    assert {state["phase"] for state in states(runs, run)} <= {"waiting", "running", "sleeping"}


def test_what_was_told_to_handlers_and_undos_is_no_result_of_the_body(runs: Runs) -> None:
    run = runs.run("shop", broken=("pay",))
    last = states(runs, run)[-1]
    assert list(last["results"]) == ["reserve left", "reserve right"]
    assert last["steps"]["reserve left:undo"] == "succeeded"
    assert last["path"][-1] == "reserve left:undo"


def test_an_undo_that_is_going_on_is_told_on_its_step(runs: Runs) -> None:
    run = runs.killed("shop", at=("step.started", "reserve right:undo"), broken=("pay",))
    assert document(runs, run)["phase"] == "interrupted"
    assert steps(runs, run)["reserve right"]["undone"] == "running"
    assert steps(runs, run)["reserve left"]["undone"] is None
    assert note(runs, run).startswith("at undo reserve right, ")


def test_an_undo_between_two_attempts_tells_when_the_next_is_due(runs: Runs) -> None:
    run = runs.run("shop", broken=("pay", "release"))
    assert (document(runs, run)["phase"], steps(runs, run)["reserve right"]["undone"]) == ("retrying", "retrying")
    assert note(runs, run) == "undo reserve right, attempt 2 due in 100ms"
    assert document(runs, run)["next"] == f"flow resume {run} --wait"


def test_an_undo_that_failed_is_told_beside_the_error_and_retry_goes_on_with_it(runs: Runs) -> None:
    run = runs.go_on(runs.run("shop", broken=("pay", "release")), broken=("pay", "release"))
    error = document(runs, run)["error"]
    assert (error["code"], error["type"], error["step"]) == ("UNDO_FAILED", "Declined", "pay")
    assert error["undo"] == {"step": "reserve right:undo", "type": "Declined", "message": "release does not work"}
    assert steps(runs, run)["reserve right"]["undone"] == "failed"
    assert note(runs, run) == "pay: Declined, and undo reserve right failed"
    assert document(runs, run)["next"] == f"flow retry {run}"
    runs.retry(run)
    error = document(runs, run)["error"]
    assert (error["code"], "undo" in error) == (None, False)
    assert [step["undone"] for step in document(runs, run)["steps"]][:2] == ["succeeded", "succeeded"]
    assert {span.cut for span in found(runs, run) if span.step == "reserve right:undo"} == {True, False}


def test_a_run_that_has_been_undone_is_forked_not_retried(runs: Runs) -> None:
    run = runs.run("shop", broken=("pay",))
    assert document(runs, run)["next"] == f"flow fork {run} --from pay"
    undone = Journal().claimed().ran("a").step("-x y").step_failed("-x y").undo("a", cause={"verb": "fail"})
    undone.succeeded("a:undo").failed("-x y")
    assert shlex.split(next_command(Phase.FAILED, [], "k7", now=0, ledger=undone.ledger()) or "")[-1] == "--from=-x y"


# children


def test_a_child_that_waits_for_a_person_is_what_its_parent_waits_for(runs: Runs) -> None:
    run = runs.run("parent", {"kind": "signed"})
    told = document(runs, run)
    [wait] = told["waiting"]
    child = steps(runs, run)["kid"]["child"]
    assert (wait["kind"], wait["step"], wait["child"]) == ("child", "kid", child)
    assert (told["phase"], told["next"]) == ("waiting", f"flow status {child}")
    assert steps(runs, run)["kid"]["kind"] == "child"
    assert document(runs, child)["parent"] == run
    assert (found(runs, run)[-1].kind, found(runs, run)[-1].child) == ("child", child)
    assert note(runs, run) == "child: kid"


def test_once_the_child_has_ended_the_parent_is_to_be_resumed(runs: Runs) -> None:
    run = runs.run("parent", {"kind": "signed"})
    child = steps(runs, run)["kid"]["child"]
    runs.answer(child, "sign")
    runs.engine.drive(child)
    assert document(runs, run)["next"] == f"flow resume {run}"


def test_the_error_of_a_child_names_the_deepest_run_and_step(runs: Runs) -> None:
    run = runs.go_on(runs.run("parent", {"kind": "grandchild"}, broken=("second",)), broken=("second",))
    child = steps(runs, run)["kid"]["child"]
    grandchild = steps(runs, child)["grandkid"]["child"]
    told = document(runs, run)
    assert (told["error"]["type"], told["error"]["step"]) == ("Declined", "kid")
    assert told["error"]["child"] == {"run": grandchild, "step": "second"}
    assert steps(runs, run)["kid"]["error"]["child"] == {"run": grandchild, "step": "second"}
    assert steps(runs, run)["kid"]["error"]["step"] == "kid"
    assert "child" not in document(runs, grandchild)["error"]


def test_a_childs_span_lasts_until_it_ended_also_if_the_process_that_watched_it_vanished(runs: Runs) -> None:
    run = runs.killed("parent", {"kind": "plain"}, at=("step.started", "second"))
    runs.engine.clock.move("1h")  # type: ignore[attr-defined]
    runs.go_on(run)
    [kid] = [span for span in found(runs, run) if span.kind == "child"]
    assert (kid.status, kid.lasted()) == ("succeeded", 3_600_000_000)
    assert steps(runs, run)["kid"]["duration_ms"] == 3_600_000


# unknown outcomes


def unknown(runs: Runs) -> str:
    run = runs.killed("paid", {"amount": 1}, at=("step.started", "charge card"))
    runs.engine.drive(run)
    return run


def test_an_unknown_outcome_waits_for_a_word_on_it(runs: Runs) -> None:
    run = unknown(runs)
    told = document(runs, run)
    [wait] = told["waiting"]
    assert (told["phase"], wait["kind"], wait["step"]) == ("waiting", "resolve", "charge card")
    assert steps(runs, run)["charge card"]["status"] == "waiting"
    assert shlex.split(told["next"]) == ["flow", "resolve", run, "charge card", "--result", "FILE", "--reason", "TEXT"]
    assert note(runs, run) == "resolve: charge card"


def test_the_command_that_resolves_can_be_typed_whatever_the_steps_name() -> None:
    journal = Journal().claimed().step("-x", policy={"repeatable": False}).step_interrupted("-x", unknown=True)
    told = next_command(Phase.WAITING, waits_of(journal.ledger()), "k7", now=0)
    assert shlex.split(told or "") == ["flow", "resolve", "k7", "--result", "FILE", "--reason", "TEXT", "--", "-x"]


def test_a_word_that_is_not_read_yet_is_to_be_read_by_resume(runs: Runs) -> None:
    run = unknown(runs)
    runs.engine.engine.resolve(run, "charge card", "retry", reason="not in the bank")
    assert document(runs, run)["next"] == f"flow resume {run}"


@pytest.mark.parametrize(("outcome", "status"), [("succeeded", "succeeded"), ("failed", "failed"), ("retry", "succeeded")])
def test_time_until_a_word_on_an_outcome_is_no_work(runs: Runs, outcome: str, status: str) -> None:
    run = unknown(runs)
    runs.engine.clock.move("3h")  # type: ignore[attr-defined]
    runs.engine.engine.resolve(run, "charge card", outcome, result=1, reason="seen in the bank")
    runs.go_on(run)
    step = steps(runs, run)["charge card"]
    assert (step["status"], step["duration_ms"]) == (status, 0)
    assert next(span for span in found(runs, run) if span.step == "charge card").lasted() == 0
    assert sum(end - start for start, end in busy(found(runs, run), runs.engine.clock.now())) == 0


# interruptions


def test_an_interrupted_attempt_takes_as_long_in_the_documents_as_in_the_timeline() -> None:
    journal = Journal().claimed().step("a").after(2_000_000).ran("b").after(DAY).interrupted().claimed("owner-2", 2)
    journal.step_interrupted("a").step("a", 2).after(1_000_000).succeeded("a", attempt=2).completed()
    told = run_document(journal.row(), journal.ledger(), life=None, now=journal.at)
    lasted = [span.lasted() or 0 for span in spans(journal.events) if span.step == "a"]
    assert told["steps"][0]["duration_ms"] == sum(lasted) // 1000 == 3001


# cancelling


def test_a_cancelled_run_has_no_error_and_no_next_and_its_note_has_the_reason(runs: Runs) -> None:
    run = runs.run("signed")
    runs.cancel(run, "not needed")
    told = document(runs, run)
    assert (told["status"], told["error"], told["next"]) == ("cancelled", None, None)
    assert note(runs, run) == f"cancelled by {runs.engine.ledger(run).cancelled['by']['user']}: not needed"  # type: ignore[index]


def test_a_run_that_cancelled_itself_has_the_reason_in_its_note(runs: Runs) -> None:
    assert note(runs, runs.run("changed_mind")).endswith(": not signed off")


def test_how_far_a_cancel_has_come_can_be_told_from_the_ledger(runs: Runs) -> None:
    run = runs.run("signed")
    assert cancel_note(runs.engine.ledger(run)) == ""
    runs.engine.engine.cancel(run, "not needed")
    assert document(runs, run)["next"] == f"flow resume {run}"
    runs.go_on(run)
    events = runs.engine.events(run)
    words = [cancel_note(Ledger(events[: n + 1])) for n in range(len(events))]
    told = list(dict.fromkeys(word.split(" by ")[0] for word in words))
    assert told == ["", "cancel requested", "cancelling", "cancelled"]
    assert all(word.endswith(": not needed") for word in words if word)


def test_gates_that_a_cancel_closed_are_cancelled_and_no_results(runs: Runs) -> None:
    run = runs.run("signed")
    runs.cancel(run, "not needed")
    gate = next(span for span in found(runs, run) if span.kind == "approval")
    assert (gate.status, gate.by, gate.end_n is not None) == ("cancelled", None, True)
    assert steps(runs, run)["approve:sign"]["status"] == "cancelled"
    last = states(runs, run)[-1]
    assert (list(last["results"]), last["waiting"]) == (["reserve", "tidy up"], [])


def test_a_cancelled_run_whose_undo_failed_has_failed_with_that(runs: Runs) -> None:
    run = runs.run("signed")
    runs.cancel(run, "not needed", broken=("release",))
    told = document(runs, run)
    assert (told["status"], told["error"]["code"], told["error"]["type"]) == ("failed", "UNDO_FAILED", "RunCancelled")
    assert told["error"]["message"] == "not needed"
    assert note(runs, run) == "RunCancelled, and undo reserve failed"


# answers


def test_an_answer_before_its_gate_opens_is_no_result_until_the_gate_is_closed(runs: Runs) -> None:
    run = runs.run("asked")
    runs.answer(run, "large order#1", yes=False, early=True)
    assert document(runs, run)["next"] == f"flow approve {run} 'large order'"
    runs.answer(run, "large order")
    assert document(runs, run)["next"] == f"flow resume {run}"
    runs.engine.drive(run)
    events = runs.engine.events(run)
    early = next(event.n for event in events if event.kind == "gate.answered")
    closed = [event.n for event in events if event.kind == "gate.closed"]
    told = states(runs, run)
    assert told[early]["results"] == {}
    assert [told[n]["results"].get("approve:large order#1") for n in closed] == [
        None,
        {"outcome": "rejected", "data": None, "by": "ana"},
    ]
    assert [(span.step, span.status) for span in found(runs, run)][:2] == [
        ("approve:large order", "approved"),
        ("approve:large order#1", "rejected"),
    ]


# cuts


def test_a_retry_keeps_what_stands_before_its_cut_and_shows_the_rest_dimmed(runs: Runs) -> None:
    run = runs.go_on(runs.run("plain", broken=("second",)), broken=("second",))
    before = document(runs, run)["steps"]
    runs.retry(run)
    told = [(span.step, span.attempt, span.status, span.cut) for span in found(runs, run)]
    assert told == [
        ("first", 1, "succeeded", False),
        ("second", 1, "failed", True),
        ("second", 2, "failed", True),
        ("second", 3, "succeeded", False),
    ]
    assert [(step["key"], step["status"], step["attempts"]) for step in before] == [
        ("first", "succeeded", 1),
        ("second", "failed", 2),
    ]
    after = document(runs, run)["steps"]
    assert [(step["key"], step["status"], step["attempts"]) for step in after] == [
        ("first", "succeeded", 1),
        ("second", "succeeded", 1),
    ]


def test_a_state_before_a_retry_is_that_of_then(runs: Runs) -> None:
    run = runs.go_on(runs.run("plain", broken=("second",)), broken=("second",))
    failed = states(runs, run)
    runs.retry(run, step="first")
    told = states(runs, run)
    assert told[: len(failed)] == failed
    reopened = next(n for n, event in enumerate(runs.engine.events(run)) if event.kind == "run.reopened")
    assert (told[reopened]["steps"], told[reopened]["results"], told[reopened]["status"]) == ({}, {}, "running")
    assert told[-1]["results"] == {"first": "FIRST", "second": "SECOND"}


def test_a_result_that_came_late_is_kept_by_a_retry_and_not_dimmed(runs: Runs) -> None:
    run = runs.run("beside", broken=("quick",))
    runs.retry(run, step="quick")
    assert {span.step for span in found(runs, run) if span.cut} == {
        span.step for span in found(runs, run) if span.status != "succeeded"
    }


def test_the_document_of_a_timeline_of_a_retried_run_can_be_read_as_json(runs: Runs) -> None:
    run = runs.go_on(runs.run("parent", {"kind": "plain"}, broken=("second",)), broken=("second",))
    runs.retry(run)
    row, events = runs.engine.store.run(run), runs.engine.events(run)
    told = timeline_document(row, runs.engine.ledger(run), events, life=None, now=runs.engine.clock.now())
    assert json.loads(json.dumps(told)) == told
    kids = [one for one in told["attempts"] if one["step"] == "kid"]
    assert [(one["kind"], one["cut"], one["status"]) for one in kids] == [
        ("child", True, "failed"),
        ("child", False, "succeeded"),
    ]
    assert kids[0]["child"] == kids[1]["child"] is not None
