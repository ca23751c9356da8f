"""What other engines of this kind assert of themselves, asked of ours: state, ids, policies, ended runs, many at once."""

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid5

import pytest

from flowstone import Flow, NonRetryable, NotApproved, current_step, step, workflow
from flowstone.clock import MICROSECONDS, SystemClock
from flowstone.errors import NotAllowed, NotFound, UsageError
from flowstone.identity import INVOCATIONS, invocation_id
from flowstone.journal.documents import run_document
from flowstone.journal.states import Status
from flowstone.ports import Filter
from support.engines import Make, failure, output, output_of, to_the_end

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    DONE.clear()


def hit(tag: str) -> str:
    DONE.append(tag)
    return tag


# the state of a run


STATES: dict[str, Any] = {
    "empty list": [],
    "zero": 0,
    "no": False,
    "null": None,
    "nested": {"a": [{"b": [1, "1", None]}]},
    "with.dot": 1,
    "with \"quotes\" and 'more'": 2,
    "with / # [ ] : @ ~ %": 3,
    "ключ 日本": 4,
}


def test_every_key_of_the_state_keeps_its_value_and_its_type(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        seen = [dict(flow.state)]
        for key, value in STATES.items():
            await flow.set_state(key, value)
        await flow.suspend("look")
        return [*seen, dict(flow.state)]

    engine = make(body)
    row = engine.run("body")
    assert engine.ledger(row.id).state == STATES
    assert json.dumps(output_of(engine, engine.resume(row.id))) == json.dumps([{}, STATES])


def test_a_key_that_is_set_again_is_replaced_and_not_merged_into(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> Any:
        await flow.set_state("a", {"x": 1, "y": 2})
        await flow.set_state("a", {"y": 3})
        return dict(flow.state)

    assert output(make(body), body) == {"a": {"y": 3}}


def test_what_twenty_branches_set_at_once_all_stays(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> Any:
        async def branch(number: int) -> None:
            await flow.do("work", hit, str(number))
            await flow.set_state(f"key {number}", number)

        await asyncio.gather(*(branch(number) for number in range(20)))
        return dict(flow.state)

    engine = make(body)
    row = engine.run("body")
    assert output_of(engine, row) == engine.ledger(row.id).state == {f"key {number}": number for number in range(20)}


# ids


def test_an_invocation_id_is_a_uuid_of_version_5_by_run_and_key_and_never_changes() -> None:
    made = UUID(invocation_id("k7f2qd9xmc4w", "charge card"))
    assert (made.version, made.variant) == (5, "specified in RFC 4122")
    assert made == uuid5(INVOCATIONS, "k7f2qd9xmc4w:charge card")
    assert str(made) == "78132a78-3cd9-5027-a684-e0bbf3e38252"
    others = {invocation_id("k7f2qd9xmc4w", "charge card#1"), invocation_id("k7f2qd9xmc4x", "charge card")}
    assert len(others | {str(made)}) == 3


def test_two_steps_of_one_name_have_results_and_ids_of_their_own(make: Make) -> None:
    def told() -> str:
        return current_step().invocation_id

    @workflow
    async def body(flow: Flow) -> list[str]:
        found = [await flow.do("n", told), await flow.do("n", told)]
        await flow.suspend("look")
        return found

    engine = make(body)
    row = engine.run("body")
    found = output_of(engine, engine.resume(row.id))
    assert found == [invocation_id(row.id, "n"), invocation_id(row.id, "n#1")]
    assert [key for key in engine.ledger(row.id).operations if key.startswith("n")] == ["n", "n#1"]
    assert engine.kinds(row.id).count("step.started n~1") == 1


# policies


@pytest.mark.parametrize(
    ("options", "attempts", "delay"),
    [
        ({}, 6, "exponential"),
        ({"retries": 0}, 1, "exponential"),
        ({"retries": 3}, 4, "exponential"),
        ({"retry_delay": "250ms"}, 6, 250_000),
        ({"retry_delay": "15s"}, 6, 15 * MICROSECONDS),
        ({"retry_delay": timedelta(minutes=2)}, 6, 120 * MICROSECONDS),
        ({"retries": 2, "retry_delay": "exponential"}, 3, "exponential"),
    ],
)
def test_a_policy_is_recorded_with_its_attempts_and_its_delay(
    make: Make, options: dict[str, Any], attempts: int, delay: Any
) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("x", hit, "x", **options)

    engine = make(body)
    row = engine.run("body")
    policy = engine.ledger(row.id).operations["x"].opened["policy"]
    assert (policy["max_attempts"], policy["retry_delay"]) == (attempts, delay)


@pytest.mark.parametrize("bare", [250, 1.5])
def test_a_delay_without_a_unit_is_refused_with_both_readings(make: Make, bare: float) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("x", hit, "x", retry_delay=bare)  # type: ignore[call-overload]

    error = failure(make(body), body)
    assert f'"{bare:g}s"' in error["message"]
    assert f'"{bare:g}ms"' in error["message"]
    assert DONE == []


# statuses of steps


def test_the_document_shows_one_entry_a_step_with_its_newest_attempt(make: Make) -> None:
    async def flaky() -> str:
        if current_step().attempt < 3:
            raise OSError("not yet")
        return "done"

    def refuses() -> None:
        raise NonRetryable("never")

    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("flaky", flaky)
        await flow.do("refuses", refuses)

    engine = make(body)
    run = engine.engine.start("body").row.id
    row = to_the_end(engine, run)
    document = run_document(row, engine.ledger(run), life=None, now=engine.clock.now())
    steps = {one["key"]: one for one in document["steps"]}
    told = {key: (one["status"], one["attempts"], one["max_attempts"]) for key, one in steps.items()}
    assert told == {"flaky": ("succeeded", 3, 6), "refuses": ("failed", 1, 6)}
    assert all(one["duration_ms"] >= 0 for one in steps.values())
    assert steps["refuses"]["error"]["message"] == "never"


# runs that have ended, runs that are not there


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_no_verb_enters_the_body_of_a_run_that_has_ended(make: Make, end: str) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        hit("entered")
        if end == "failed":
            raise LookupError("no")
        if end == "cancelled":
            flow.cancel("no")

    engine = make(body)
    row = engine.run("body")
    assert row.status == end
    events, entered = engine.kinds(row.id), len(DONE)
    for verb in ("resume", "recover", "approve", "cancel"):
        assert engine.drive(row.id, verb=verb).status == end
    engine.engine.cancel(row.id, "late")
    if end == "completed":
        assert engine.engine.resume(row.id).status == end
        with pytest.raises(UsageError):
            engine.engine.retry(row.id)
    else:
        with pytest.raises(UsageError):
            engine.engine.resume(row.id)
    assert engine.engine.due(10) == []
    assert (engine.kinds(row.id), len(DONE)) == (events, entered)


@pytest.mark.parametrize("verb", ["resume", "retry", "cancel", "drive", "answer", "resolve", "fork", "check"])
def test_of_a_run_that_is_not_there_every_verb_says_so_and_makes_nothing(make: Make, verb: str) -> None:
    engine = make()
    calls: dict[str, Any] = {
        "cancel": lambda: engine.engine.cancel("nothere00000", "x"),
        "drive": lambda: engine.drive("nothere00000"),
        "answer": lambda: engine.engine.answer("nothere00000", "ok", yes=True),
        "resolve": lambda: engine.engine.resolve("nothere00000", "x", "failed", reason="x"),
        "fork": lambda: engine.engine.fork("nothere00000", "x"),
    }
    with pytest.raises(NotFound, match="nothere00000"):
        calls.get(verb, lambda: getattr(engine.engine, verb)("nothere00000"))()
    assert engine.store.runs(Filter()) == []


# owners and children


@workflow
async def kid(flow: Flow) -> str:
    return flow.user


def test_a_child_carries_who_started_its_parent_and_where_it_belongs(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        return await flow.do("kid", kid)

    engine = make(body, kid)
    row = engine.run("body")
    (child,) = engine.store.runs(Filter(workflow="kid"))
    assert (output_of(engine, row), child.user, child.parent_run, child.parent_step) == (row.user, row.user, row.id, "kid")
    wire = engine.ledger(child.id).created["wire"]
    assert (wire["type"], wire["parent_run"], wire["parent_step"]) == ("child", row.id, "kid")


def test_a_step_recorded_under_one_function_runs_no_other(make: Make) -> None:
    @step(name="charge")
    async def charge() -> str:
        raise OSError("busy")

    @workflow(name="pays")
    async def pays(flow: Flow) -> str:
        return await flow.do("pay", "charge", retry_delay="1h")

    engine = make(pays, charge)
    row = engine.run("pays")
    without = make(pays, clock=engine.clock)
    engine.clock.move("2h")  # type: ignore[attr-defined]
    row = without.drive(row.id)
    assert (row.status, (without.ledger(row.id).suspension or {})["functions"]) == (Status.SUSPENDED, ["charge"])
    assert DONE == []


# answers


def test_an_expired_answer_has_nothing_but_its_status(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[Any]:
        answer = await flow.approval("ok", expiry="1h")
        try:
            data = answer.data
        except NotApproved:
            data = "refused"
        return [answer.status, answer.approved, answer.by, answer.comment, data]

    engine = make(body)
    row = engine.run("body")
    engine.clock.move("2h")  # type: ignore[attr-defined]
    assert output_of(engine, engine.drive(row.id)) == ["expired", False, None, None, "refused"]


def test_an_answer_that_was_refused_is_in_no_journal_and_no_audit(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        return (await flow.approval("ok", approvers="not-initiator")).status

    engine = make(body)
    row = engine.run("body")
    before = engine.kinds(row.id)
    with pytest.raises(NotAllowed):
        engine.engine.answer(row.id, "ok", yes=True, by=row.user)
    assert engine.kinds(row.id) == before
    assert [entry.action for entry in engine.store.audit(row.id)] == ["run"]
    engine.engine.answer(row.id, "ok", yes=True, by="somebody else")
    assert [entry.action for entry in engine.store.audit(row.id)] == ["approve", "run"]


# many at once


RUNS = 120
STEPS = 16


@workflow
async def busy(flow: Flow, number: int) -> int:
    """Two thirds of its steps fail once or twice."""

    def work(place: int) -> int:
        if current_step().attempt <= (number + place) % 3:
            raise OSError("not yet")
        return place

    async def later(place: int) -> int:
        await asyncio.sleep(0)
        return work(place)

    total = 0
    for first in range(0, STEPS, 4):
        calls = [flow.do(f"s{place}", later, place, retry_delay="1ms") for place in range(first, first + 4)]
        total += sum(await asyncio.gather(*calls))
    return total


def test_many_runs_at_once_whose_steps_fail_and_are_retried_all_complete(make: Make) -> None:
    engine = make(busy, clock=SystemClock())

    async def all_of_them() -> list[Any]:
        ids = [engine.engine.start("busy", {"number": number}).row.id for number in range(RUNS)]
        return list(await asyncio.gather(*(engine.engine.drive(run_id, park_after=None) for run_id in ids)))

    rows = asyncio.run(all_of_them())
    assert {row.status for row in rows} == {Status.COMPLETED}
    for row in rows:
        number = engine.ledger(row.id).created["input"]["number"]
        attempts = {place: 1 + (number + place) % 3 for place in range(STEPS)}
        started = [kind for kind in engine.kinds(row.id) if kind.startswith("step.started")]
        assert len(started) == sum(attempts.values())
        assert engine.ledger(row.id).output == sum(range(STEPS))
