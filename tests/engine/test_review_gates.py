"""Gates in odd cases: early answers and the policy, types without a schema, texts that are no text, the same answer again."""

from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from flowstone import Flow, current_step, workflow
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, failure, output_of


class SignOff(BaseModel):
    approved: bool
    limit: int = 0


def said(engine: Throwaway, run_id: str, reason: str = "ok", **options: Any) -> Any:
    return engine.engine.answer(run_id, reason, **{"yes": True, **options})


@pytest.mark.parametrize("approvers", ["not-initiator", "owner"])
def test_an_early_answer_of_somebody_whom_the_gate_does_not_take_opens_a_new_round(make: Make, approvers: Any) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        await flow.suspend("wait")
        return (await flow.approval("ok", approvers=approvers)).status

    engine = make(body)
    row = engine.run("body")
    right, wrong = (row.user, "somebody") if approvers == "owner" else ("somebody", row.user)
    said(engine, row.id, early=True, by=wrong)
    assert engine.resume(row.id).status is Status.SUSPENDED
    assert engine.kinds(row.id)[-4:-1] == ["gate.opened approve:ok~1", "gate.refused approve:ok~1", "gate.opened approve:ok~2"]
    said(engine, row.id, by=right)
    assert output_of(engine, engine.drive(row.id)) == "approved"


def test_an_early_answer_needs_the_scope_of_the_gate(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        await flow.suspend("wait")
        return (await flow.approval("ok", scope="leads")).status

    engine = make(body)
    engine.engine.settings.approvers["leads"] = ["ann"]
    for user, status in (("bob", Status.SUSPENDED), ("ann", Status.COMPLETED)):
        row = engine.run("body")
        said(engine, row.id, early=True, by=user)
        assert engine.resume(row.id).status is status


def test_an_early_yes_has_the_approved_field_filled_in(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        await flow.suspend("wait")
        return (await flow.approval("ok", schema=SignOff)).data.limit

    engine = make(body)
    row = engine.run("body")
    said(engine, row.id, early=True, data={"limit": 3})
    assert output_of(engine, engine.resume(row.id)) == 3


def test_the_same_answer_again_is_the_same_without_the_field_that_was_filled_in(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        return (await flow.approval("ok", schema=SignOff)).data.limit

    engine = make(body)
    row = engine.run("body")
    assert not said(engine, row.id, data={"limit": 3}).repeated
    assert said(engine, row.id, data={"limit": 3}).repeated
    engine.drive(row.id)
    assert said(engine, row.id, data={"limit": 3}).repeated


def test_a_type_that_has_no_schema_is_a_failure_of_the_body(make: Make) -> None:
    class Client:
        pass

    @workflow
    async def body(flow: Flow) -> None:
        await flow.approval("ok", schema=Client)

    assert failure(make(body), body)["type"] == "ValueRefused"


def test_a_message_may_hold_what_is_no_text(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        return (await flow.approval("ok", message="delete caf\udce9.txt?")).status

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.SUSPENDED
    said(engine, row.id)
    assert output_of(engine, engine.drive(row.id)) == "approved"


def test_a_note_that_is_no_json_is_the_failure_of_its_step(make: Make) -> None:
    def costly() -> None:
        current_step().note(cost=Decimal("1.20"))

    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("costly", costly)

    error = failure(make(body), body)
    assert error["step"] == "costly"
    assert 'note "cost"' in error["message"]
