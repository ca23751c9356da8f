"""Approvals: who may answer, with what, until when, and what the body gets."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from flowstone import Answer, Flow, NotApproved, workflow
from flowstone.clock import MICROSECONDS, to_datetime
from flowstone.errors import AlreadyAnswered, BadData, NotAllowed, NotFound
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, failure, output_of


class SignOff(BaseModel):
    limit: int = 0


class Strict(BaseModel):
    limit: int
    approved: bool = False


async def same(value: Any) -> Any:
    return value


def shown(answer: Answer[Any]) -> list[Any]:
    data = answer.data if answer.approved else None
    return [answer.status, answer.approved, data, answer.by, answer.comment]


@workflow
async def plain(flow: Flow) -> list[Any]:
    return shown(await flow.approval("sign"))


@workflow
async def checked(flow: Flow) -> list[Any]:
    answer = await flow.approval("large order", schema=SignOff, expiry="2d", message="please look")
    return [answer.status, answer.data.limit if answer.approved else None]


@workflow
async def strict(flow: Flow) -> list[Any]:
    answer = await flow.approval("sign", schema=Strict)
    return [answer.status, answer.data.limit, answer.data.approved]


def say(engine: Throwaway, run_id: str, reason: str | None, *, yes: bool = True, **said: Any) -> Any:
    return engine.engine.answer(run_id, reason, yes=yes, **said)


def gates(engine: Throwaway, run_id: str) -> list[str]:
    return [kind for kind in engine.kinds(run_id) if kind.startswith("gate.")]


# what is asked


def test_an_approval_suspends_the_run_and_records_what_is_asked(make: Make) -> None:
    engine = make(checked)
    row = engine.run("checked")
    assert row.status is Status.SUSPENDED
    opened = next(event for event in engine.events(row.id) if event.kind == "gate.opened")
    body = opened.body()
    assert (body["kind"], body["name"], body["round"], body["message"]) == ("approval", "large order", 1, "please look")
    assert body["deadline"] == opened.at + 2 * 86_400 * MICROSECONDS
    assert body["schema"]["properties"]["limit"]["type"] == "integer"
    assert (opened.step, opened.attempt) == ("approve:large order", 1)


# yes and no


def test_a_yes_needs_no_data(make: Make) -> None:
    engine = make(plain)
    row = engine.run("plain")
    say(engine, row.id, "sign", by="bob", comment="fine")
    engine.drive(row.id, verb="approve")
    assert output_of(engine, row) == ["approved", True, {}, "bob", "fine"]
    assert engine.kinds(row.id)[4:] == [
        "gate.answered approve:sign~1",
        "run.claimed",
        "run.resumed",
        "gate.closed approve:sign~1",
        "run.completed",
    ]


def test_a_no_is_an_answer_and_has_no_data(make: Make) -> None:
    engine = make(plain)
    row = engine.run("plain")
    say(engine, row.id, "sign", yes=False, by="bob", comment="too much")
    engine.drive(row.id, verb="reject")
    assert output_of(engine, row) == ["rejected", False, None, "bob", "too much"]


def test_reading_the_data_of_a_no_is_refused(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> Any:
        return (await flow.approval("sign")).data

    engine = make(body)
    row = engine.run("body")
    say(engine, row.id, "sign", yes=False)
    assert engine.drive(row.id).status is Status.FAILED
    assert engine.ledger(row.id).error["type"] == NotApproved.__name__  # type: ignore[index]


def test_the_data_of_a_yes_arrives_as_the_schemas_type_live_and_on_replay(make: Make) -> None:
    seen: list[Any] = []

    @workflow
    async def body(flow: Flow) -> None:
        answer = await flow.approval("sign", schema=SignOff)
        seen.append((answer.data, answer.at, answer.by))
        await flow.suspend("look")

    engine = make(body)
    row = engine.run("body")
    engine.clock.move("1h")  # type: ignore[attr-defined]
    asked = engine.clock.now()
    say(engine, row.id, "sign", data={"limit": 5}, by="bob")
    engine.clock.move("1h")  # type: ignore[attr-defined]
    engine.drive(row.id)
    make(body, clock=engine.clock).resume(row.id)
    assert seen == [(SignOff(limit=5), to_datetime(asked), "bob")] * 2


def test_a_boolean_approved_in_the_schema_is_filled_in(make: Make) -> None:
    engine = make(strict)
    row = engine.run("strict")
    say(engine, row.id, "sign", data={"limit": 3})
    engine.drive(row.id)
    assert output_of(engine, row) == ["approved", 3, True]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"limit": "many"}, "$.limit"),
        ({"limt": 1}, "did you mean limit?"),
        ({"limit": 1, "more": 2}, "$.more  not expected"),
        ([1], "$"),
    ],
)
def test_data_that_does_not_fit_is_refused_at_once_by_path_and_nothing_is_written(make: Make, data: Any, line: str) -> None:
    engine = make(strict)
    row = engine.run("strict")
    before = engine.kinds(row.id)
    with pytest.raises(BadData) as refused:
        say(engine, row.id, "sign", data=data)
    assert any(line in detail for detail in refused.value.details), refused.value.details
    assert engine.kinds(row.id) == before


def test_a_no_is_not_checked_against_the_schema(make: Make) -> None:
    engine = make(checked)
    row = engine.run("checked")
    say(engine, row.id, "large order", yes=False, data={"why": "no"})
    engine.drive(row.id)
    assert output_of(engine, row) == ["rejected", None]


def test_an_answer_records_who_and_from_where_and_is_audited(make: Make) -> None:
    engine = make(plain)
    row = engine.run("plain")
    say(engine, row.id, "sign")
    answered = next(event.body() for event in engine.events(row.id) if event.kind == "gate.answered")
    assert set(answered["by"]) == {"user", "uid", "sudo_user", "host", "tty"}


# which gate


def test_without_a_reason_the_only_open_gate_is_meant(make: Make) -> None:
    engine = make(plain)
    row = engine.run("plain")
    assert say(engine, row.id, None).name == "sign"


def test_without_a_reason_several_open_gates_are_listed_with_what_to_type(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await asyncio.gather(flow.approval("left"), flow.approval("right hand"))

    engine = make(body)
    row = engine.run("body")
    with pytest.raises(NotFound) as refused:
        say(engine, row.id, None)
    assert refused.value.details == (f"flow approve {row.id} left", f'flow approve {row.id} "right hand"')


def test_a_reason_that_is_no_gate_is_not_found_and_moves_to_the_comment_if_just_one_is_open(make: Make) -> None:
    engine = make(plain)
    row = engine.run("plain")
    with pytest.raises(NotFound, match="open: sign") as refused:
        say(engine, row.id, "looks good to me")
    assert refused.value.hint == f'flow approve {row.id} sign --comment "looks good to me"'


def test_repeats_of_a_reason_are_gates_of_their_own(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        return [(await flow.approval("sign")).by, (await flow.approval("sign")).by]

    engine = make(body)
    row = engine.run("body")
    say(engine, row.id, "sign", by="ann")
    assert engine.drive(row.id).status is Status.SUSPENDED
    assert say(engine, row.id, "sign#1", by="bob").step == "approve:sign#1"
    engine.drive(row.id)
    assert output_of(engine, row) == ["ann", "bob"]


def test_a_repeat_beside_its_first_is_answered_by_its_number(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        answers = await asyncio.gather(flow.approval("sign"), flow.approval("sign"))
        return [answer.by for answer in answers]

    engine = make(body)
    row = engine.run("body")
    say(engine, row.id, "sign#1", by="bob")
    engine.drive(row.id)
    say(engine, row.id, "sign", by="ann")
    engine.drive(row.id)
    assert output_of(engine, row) == ["ann", "bob"]


# one outcome per round


def test_the_same_answer_again_writes_nothing(make: Make) -> None:
    engine = make(checked)
    row = engine.run("checked")
    first = say(engine, row.id, "large order", data={"limit": 5})
    before = engine.kinds(row.id)
    again = say(engine, row.id, "large order", data={"limit": 5})
    bare = say(engine, row.id, "large order")
    assert (first.repeated, again.repeated, bare.repeated) == (False, True, True)
    assert engine.kinds(row.id) == before
    engine.drive(row.id)
    assert say(engine, row.id, "large order", data={"limit": 5}).repeated


def test_another_answer_learns_who_was_first_and_when(make: Make) -> None:
    engine = make(checked)
    row = engine.run("checked")
    say(engine, row.id, "large order", data={"limit": 5}, by="bob")
    with pytest.raises(AlreadyAnswered, match=r"approved at 2027-.* by bob"):
        say(engine, row.id, "large order", yes=False)
    with pytest.raises(AlreadyAnswered, match="with other data"):
        say(engine, row.id, "large order", data={"limit": 6})
    engine.drive(row.id)
    with pytest.raises(AlreadyAnswered, match="by bob"):
        say(engine, row.id, "large order", yes=False)


def test_a_gate_has_one_completion_however_often_it_is_answered(make: Make) -> None:
    engine = make(plain)
    row = engine.run("plain")
    say(engine, row.id, "sign")
    say(engine, row.id, "sign")
    engine.drive(row.id)
    engine.drive(row.id)
    assert gates(engine, row.id) == [
        "gate.opened approve:sign~1",
        "gate.answered approve:sign~1",
        "gate.closed approve:sign~1",
    ]


# the deadline


def test_after_its_deadline_an_approval_expires(make: Make) -> None:
    engine = make(checked)
    row = engine.run("checked")
    engine.clock.move("3d")  # type: ignore[attr-defined]
    engine.drive(row.id)
    assert output_of(engine, row) == ["expired", None]
    closed = next(event.body() for event in engine.events(row.id) if event.kind == "gate.closed")
    opened = next(event.body() for event in engine.events(row.id) if event.kind == "gate.opened")
    assert (closed["outcome"], closed["at"]) == ("expired", opened["deadline"])


def test_after_the_deadline_no_answer_is_taken_even_if_nobody_has_noticed(make: Make) -> None:
    engine = make(checked)
    row = engine.run("checked")
    engine.clock.move("2d")  # type: ignore[attr-defined]
    before = engine.kinds(row.id)
    with pytest.raises(AlreadyAnswered, match="expired at"):
        say(engine, row.id, "large order")
    assert engine.kinds(row.id) == before


def test_an_answer_given_before_the_deadline_counts_when_it_is_read_after_it(make: Make) -> None:
    engine = make(checked)
    row = engine.run("checked")
    say(engine, row.id, "large order", data={"limit": 1})
    engine.clock.move("3d")  # type: ignore[attr-defined]
    engine.drive(row.id)
    assert output_of(engine, row) == ["approved", 1]


def test_an_expiry_of_a_gate_is_noticed_by_a_process_that_is_there(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        answer, _ = await asyncio.gather(flow.approval("sign", expiry="10s"), flow.sleep("nap", "50s"))
        return answer.status

    engine = make(body)
    row = engine.engine.start("body").row

    async def drive() -> None:
        driving = asyncio.ensure_future(engine.engine.drive(row.id, park_after=60 * MICROSECONDS))
        while not driving.done():
            engine.clock.move("5s")  # type: ignore[attr-defined]
            for _ in range(100):
                await asyncio.sleep(0)
        await driving

    asyncio.run(drive())
    assert output_of(engine, row) == "expired"
    assert sum(kind == "run.claimed" for kind in engine.kinds(row.id)) == 1


# rounds


def test_data_that_no_longer_fits_when_it_is_read_opens_a_new_round_with_the_same_deadline(make: Make) -> None:
    class Wider(BaseModel):
        limit: int
        reason: str

    @workflow(name="checked")
    async def changed(flow: Flow) -> list[Any]:
        answer = await flow.approval("large order", schema=Wider, expiry="2d")
        return [answer.status, answer.data.reason]

    engine = make(checked)
    row = engine.run("checked")
    say(engine, row.id, "large order", data={"limit": 5})
    engine.clock.move("1d")  # type: ignore[attr-defined]
    again = make(changed, clock=engine.clock, version="2")
    assert again.drive(row.id).status is Status.SUSPENDED
    assert gates(again, row.id) == [
        "gate.opened approve:large order~1",
        "gate.answered approve:large order~1",
        "gate.refused approve:large order~1",
        "gate.opened approve:large order~2",
    ]
    refused = next(event.body() for event in again.events(row.id) if event.kind == "gate.refused")
    assert any("reason" in line for line in refused["error"]["details"])
    first, second = (event.body() for event in again.events(row.id) if event.kind == "gate.opened")
    assert (second["round"], second["deadline"]) == (2, first["deadline"])
    assert "reason" in second["schema"]["properties"]
    say(again, row.id, "large order", data={"limit": 5, "reason": "new"})
    again.drive(row.id)
    assert output_of(again, row) == ["approved", "new"]


def test_the_new_round_is_checked_against_its_own_schema(make: Make) -> None:
    class Wider(BaseModel):
        limit: int
        reason: str

    @workflow(name="checked")
    async def changed(flow: Flow) -> str:
        return (await flow.approval("large order", schema=Wider, expiry="2d")).data.reason

    engine = make(checked)
    row = engine.run("checked")
    say(engine, row.id, "large order", data={"limit": 5})
    again = make(changed, clock=engine.clock, version="2")
    again.drive(row.id)
    with pytest.raises(BadData) as refused:
        say(again, row.id, "large order", data={"limit": 5})
    assert refused.value.details == ("$.reason  missing",)


# who may answer


def policy(approvers: Any, scope: str | None = None) -> Any:
    @workflow
    async def body(flow: Flow) -> str:
        return (await flow.approval("sign", approvers=approvers, scope=scope)).status

    return body


@pytest.mark.parametrize(
    ("approvers", "allowed"),
    [("any", {"starter", "other"}), ("owner", {"starter"}), ("not-initiator", {"other"})],
)
def test_a_policy_says_whose_answer_counts(make: Make, approvers: str, allowed: set[str]) -> None:
    body = policy(approvers)
    engine = make(body)
    for who in ("starter", "other"):
        row = engine.run("body")
        name = row.user if who == "starter" else "somebody else"
        before = engine.kinds(row.id)
        if who in allowed:
            say(engine, row.id, "sign", by=name)
            assert engine.drive(row.id).status is Status.COMPLETED
        else:
            with pytest.raises(NotAllowed):
                say(engine, row.id, "sign", by=name)
            assert engine.kinds(row.id) == before


def test_a_scope_takes_only_those_whom_the_settings_list(make: Make) -> None:
    body = policy("any", scope="finance")
    engine = make(body)
    row = engine.run("body")
    with pytest.raises(NotAllowed, match="finance"):
        say(engine, row.id, "sign", by="bob")


def test_a_policy_that_does_not_exist_is_refused_naming_those_that_do(make: Make) -> None:
    assert "not-initiator" in failure(make(policy("boss")), policy("boss"))["message"]


# when


def test_an_answer_to_a_settled_run_is_refused(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        waiting = asyncio.create_task(flow.approval("sign"))
        await flow.do("a", same, 1)
        waiting.cancel()

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.COMPLETED
    with pytest.raises((NotFound, AlreadyAnswered)):
        say(engine, row.id, "sign")


def test_an_early_answer_is_kept_for_the_gate_and_counts_once_it_opens(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        await flow.suspend("look")
        return [(await flow.approval("sign")).by, (await flow.approval("sign")).by]

    engine = make(body)
    row = engine.run("body")
    with pytest.raises(NotFound):
        say(engine, row.id, "sign", by="bob")
    say(engine, row.id, "sign", by="bob", early=True)
    assert say(engine, row.id, "sign", by="bob", early=True).repeated
    say(engine, row.id, "sign#1", by="ann", early=True)
    engine.resume(row.id)
    assert output_of(engine, row) == ["bob", "ann"]


def test_an_early_answer_is_not_changed_by_another(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        await flow.suspend("look")
        return (await flow.approval("sign")).status

    engine = make(body)
    row = engine.run("body")
    say(engine, row.id, "sign", early=True)
    with pytest.raises(AlreadyAnswered):
        say(engine, row.id, "sign", yes=False, early=True)
