"""flow.run/1 and flow.runs/1: their fields, what they say, and the command to type next."""

import json
import shlex

import pytest

from flowstone.journal.documents import next_command, note_of, run_document, runs_document
from flowstone.journal.ledger import Ledger
from flowstone.journal.phase import Phase, phase_of
from flowstone.journal.waits import waits_of
from support.journal_builder import MILLISECOND, SECOND, START, Journal, five_minutes

MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND

RUN = (
    "schema id workflow status phase key user version plan deterministic input output error state waiting steps events parent "
    "forked_from created_at updated_at finished_at next"
)
STEP = (
    "key name description kind function status attempts max_attempts invocation_id queue started_at ended_at duration_ms "
    "next_attempt_at child from error undone"
)


def document(journal, *, life="alive", after=0, **row):
    return run_document(journal.row(**row), journal.ledger(), life=life, now=journal.at + after)


def note(journal, *, life="alive", after=0, **row):
    row = journal.row(**row)
    return note_of(row, phase_of(row, life), journal.at + after)


def next_of(journal, **more):
    return document(journal, **more)["next"]


def test_the_document_of_a_run_has_every_field_in_order():
    found = document(five_minutes())
    assert " ".join(found) == RUN
    assert all(" ".join(step) == STEP for step in found["steps"])
    assert json.loads(json.dumps(found)) == found


def test_a_completed_run_says_what_came_of_it():
    found = document(five_minutes(), life=None)
    assert (found["status"], found["phase"], found["next"], found["error"]) == ("completed", "completed", None, None)
    assert (found["input"], found["output"], found["events"]) == ({"version": "1.4"}, "live/app.txt", 22)
    assert found["created_at"] == "2026-11-27T09:00:00.000Z"
    assert found["finished_at"] == "2026-11-27T09:01:02.000Z"
    assert [(step["key"], step["status"], step["attempts"]) for step in found["steps"]] == [
        ("build", "succeeded", 2),
        ("approve:publish", "succeeded", 1),
        ("publish", "succeeded", 1),
    ]


def test_a_failed_run_carries_the_error_of_its_step_and_names_retry():
    journal = Journal().claimed().step("pay", retries=0).after(SECOND).step_failed("pay").failed("pay")
    found = document(journal)
    assert found["error"] == {
        "type": "CardDeclined", "message": "no funds", "code": "STEP_FAILED", "step": "pay", "trace": "Traceback",
    }  # fmt: skip
    step = found["steps"][0]
    assert step["error"] == {"type": "StockTimeout", "message": "busy", "code": "RAISED", "step": "pay", "trace": "Traceback"}
    assert (step["status"], step["max_attempts"], step["duration_ms"]) == ("failed", 1, 1000)
    assert found["next"] == "flow retry k7f2qd9xmc4w"


def test_a_step_between_two_attempts_shows_the_next_and_is_no_entry_of_waiting():
    found = document(Journal().claimed().step("pay").step_failed("pay", next_in=2 * SECOND))
    assert (found["steps"][0]["status"], found["steps"][0]["next_attempt_at"]) == ("retrying", "2026-11-27T09:00:02.000Z")
    assert found["steps"][0]["max_attempts"] == 6
    assert found["waiting"] == []


def test_a_steps_duration_holds_its_attempts_and_the_waits_between_them():
    journal = Journal().claimed().step("a").after(40 * MILLISECOND).step_failed("a", next_in=100 * MILLISECOND)
    journal.after(100 * MILLISECOND).step("a", 2).after(38 * MILLISECOND).succeeded("a", attempt=2)
    assert document(journal)["steps"][0]["duration_ms"] == 178


def test_a_steps_duration_leaves_out_what_a_retry_of_the_run_put_aside():
    assert document(five_minutes())["steps"][2]["duration_ms"] == 3


def test_a_running_steps_duration_grows_while_its_owner_lives_and_is_unknown_when_it_is_dead():
    journal = Journal().claimed().step("a")
    assert document(journal, after=SECOND)["steps"][0]["duration_ms"] == 1000
    assert document(journal, after=SECOND, life="dead")["steps"][0]["duration_ms"] is None


def test_an_operation_that_its_run_ended_without_is_cancelled_with_an_end():
    step = document(Journal().claimed().sleep("nap", DAY).after(SECOND).cancelled())["steps"][0]
    assert (step["status"], step["ended_at"], step["duration_ms"]) == ("cancelled", "2026-11-27T09:00:01.000Z", 1000)


def test_a_document_is_made_even_if_the_journal_says_nothing_yet():
    found = run_document(Journal().row(), Ledger(), life=None, now=START)
    assert " ".join(found) == RUN
    assert (found["input"], found["steps"], found["waiting"]) == (None, [], [])


def test_waiting_shows_instants_as_text():
    found = document(Journal().claimed().gate("pay", expiry=2 * DAY).suspended())
    assert found["waiting"][0]["deadline"] == "2026-11-29T09:00:00.000Z"
    assert found["next"] == "flow approve k7f2qd9xmc4w pay"


@pytest.mark.parametrize("reason", ["it's fine", "-ok", "large order#1", "$(reboot)", "Größe"])
def test_the_next_command_can_be_typed_whatever_the_reason(reason):
    words = shlex.split(next_of(Journal().claimed().gate(reason, key="approve:x").suspended()))
    assert words[-1] == reason
    assert words[:3] == ["flow", "approve", "k7f2qd9xmc4w"]
    assert not reason.startswith("-") or words[3] == "--"


def test_two_open_gates_of_one_reason_are_told_apart_by_their_keys():
    journal = Journal().claimed().gate("pay", key="[1]/approve:pay").gate("pay", key="[2]/approve:pay").suspended()
    assert shlex.split(next_of(journal))[-1] == "[1]/approve:pay"


def test_an_expired_gate_is_told_without_a_live_process_and_is_not_to_be_approved():
    journal = Journal().claimed().gate("pay", expiry=MINUTE).suspended()
    assert note(journal, after=30 * SECOND) == "approve: pay, 30s left"
    assert note(journal, after=4 * MINUTE) == "approve: pay, expired 3 min ago"
    assert next_of(journal, after=4 * MINUTE) == "flow resume k7f2qd9xmc4w"


def test_next_speaks_of_the_gate_that_can_still_be_answered():
    journal = Journal().claimed().gate("old", expiry=MINUTE).gate("new").suspended()
    assert next_of(journal, after=HOUR) == "flow approve k7f2qd9xmc4w new"
    assert note(journal, after=HOUR) == "approve: new, 1 more"


def test_next_of_timers_and_interruptions():
    asleep = Journal().claimed().sleep("nap", DAY)
    assert next_of(asleep, owner=None) == "flow resume k7f2qd9xmc4w --wait"
    assert next_of(asleep, owner=None, after=2 * DAY) == "flow resume k7f2qd9xmc4w"
    assert next_of(Journal().claimed().step("a"), life="dead") == "flow resume k7f2qd9xmc4w"
    assert next_of(Journal().claimed().step("a")) is None
    assert next_of(Journal().claimed().suspended("STOPPED")) == "flow resume k7f2qd9xmc4w"
    assert next_of(Journal().claimed().cancelled()) is None


def test_next_takes_the_id_as_it_is_to_be_shown():
    assert next_command(Phase.FAILED, [], "k7f2qd", now=START) == "flow retry k7f2qd"
    gate = Journal().claimed().gate("pay").suspended()
    assert next_command(Phase.WAITING, waits_of(gate.ledger()), "k7f2qd", now=START) == "flow approve k7f2qd pay"


def test_notes_say_what_is_worth_saying():
    assert note(Journal().claimed().ran("a").step("b")) == "1 of 2 steps"
    assert note(Journal().claimed().ran("a").step("b"), life="dead") == "at b, 1 of 2 steps"
    assert note(Journal().claimed().step("pay").step_failed("pay").failed("pay")) == "pay: CardDeclined"
    assert note(Journal().claimed().failed()) == "CardDeclined"
    assert note(Journal().claimed().sleep("nap", 3 * DAY + 22 * HOUR), owner=None) == "timer, due in 3d22h"
    assert note(Journal().claimed().step("a").step_failed("a", next_in=12 * SECOND), owner=None) == "a, attempt 2 due in 12.0s"
    assert note(Journal().claimed().gate("a/b", key="approve:a%2Fb", expiry=3 * DAY).suspended()) == "approve: a/b, 3d left"
    assert note(Journal().claimed().suspended("STOPPED")) == "stopped"
    assert note(Journal().claimed().completed()) == ""


def test_the_list_of_runs_has_every_field_in_order():
    journal = Journal().claimed().after(490 * MILLISECOND).gate("pay").suspended()
    found = runs_document([(journal.row(), None)], now=journal.at + DAY, next=None)
    assert found == {
        "schema": "flow.runs/1",
        "runs": [
            {
                "id": "k7f2qd9xmc4w", "workflow": "deploy", "status": "suspended", "phase": "waiting", "key": None,
                "created_at": "2026-11-27T09:00:00.000Z", "finished_at": None, "duration_ms": 490, "note": "approve: pay",
            }
        ],
        "next": None,
    }  # fmt: skip
