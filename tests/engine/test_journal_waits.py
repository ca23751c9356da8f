"""What a run waits for, and the column of its row that says so."""

import json

from flowstone.journal.summary import Index
from flowstone.journal.waits import waits_of
from support.journal_builder import SECOND, START, Journal

FIELDS = ["kind", "step", "reason", "round", "deadline", "wake_at", "child", "schema", "message"]


def test_waits_stand_in_the_order_of_opening_with_all_their_fields():
    journal = Journal().claimed().sleep("nap", SECOND).gate("pay", expiry=SECOND, schema={"type": "object"}, message="129 EUR")
    journal.gate("look", kind="suspend").step("a").step_failed("a", next_in=3 * SECOND)
    waits = waits_of(journal.ledger())
    assert [wait["kind"] for wait in waits] == ["sleep", "approval", "suspend", "retry"]
    assert all(list(wait) == FIELDS for wait in waits)
    assert waits[0]["wake_at"] == START + SECOND
    assert waits[1] == {
        "kind": "approval", "step": "approve:pay", "reason": "pay", "round": 1, "deadline": START + SECOND,
        "wake_at": None, "child": None, "schema": {"type": "object"}, "message": "129 EUR",
    }  # fmt: skip
    assert (waits[3]["step"], waits[3]["round"], waits[3]["wake_at"]) == ("a", 2, START + 3 * SECOND)


def test_what_has_ended_is_waited_for_no_longer():
    journal = Journal().claimed().sleep("nap", SECOND).gate("pay").step("a").step_failed("a", next_in=SECOND)
    journal.step("a", 2).succeeded("sleep:nap").closed("approve:pay")
    assert waits_of(journal.ledger()) == []
    assert journal.row().waiting == "[]"


def test_the_second_gate_of_a_reason_is_typed_with_its_number():
    journal = Journal().claimed().gate("large/order", key="approve:large%2Forder#1")
    assert waits_of(journal.ledger())[0]["reason"] == "large/order#1"


def test_a_refused_round_is_followed_by_the_next():
    journal = Journal().claimed().gate("pay").answered("approve:pay").refused("approve:pay").gate("pay", round=2)
    assert [wait["round"] for wait in waits_of(journal.ledger())] == [2]


def test_a_stopped_run_and_a_missing_function_are_waits_until_the_run_resumes():
    stopped = Journal().claimed().suspended("STOPPED")
    assert [(wait["kind"], wait["reason"]) for wait in waits_of(stopped.ledger())] == [("suspend", "stopped")]
    missing = Journal().claimed().suspended("FUNCTION_NOT_FOUND", reasons=("shop:charge",))
    assert [(wait["kind"], wait["reason"]) for wait in waits_of(missing.ledger())] == [("function", "shop:charge")]
    assert waits_of(missing.resumed().ledger()) == []


def test_the_row_holds_the_same_waits_as_text():
    journal = Journal().claimed().gate("Größe", expiry=SECOND).sleep("nap", SECOND)
    assert json.loads(Index().after(journal.events).waiting()) == waits_of(journal.ledger())
