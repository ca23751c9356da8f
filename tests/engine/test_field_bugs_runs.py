"""What went wrong for users of other tools with retries, time, gates, cancels and children; each test names its report, Bnn."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from flowstone import Flow, RunCancelled, StepFailed, workflow
from flowstone.clock import from_datetime
from flowstone.errors import AlreadyAnswered
from flowstone.journal.events import Draft, Kind, body_text
from flowstone.journal.states import Status
from flowstone.ports import Filter
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, failure, output_of, to_the_end

DONE: list[str] = []
BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    DONE.clear()
    BROKEN.clear()


def hit(tag: str) -> str:
    DONE.append(tag)
    if tag in BROKEN:
        raise OSError(f"{tag} is broken")
    return tag


def move(engine: Throwaway, duration: str) -> None:
    engine.clock.move(duration)  # type: ignore[attr-defined]


# retries


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_b14_there_is_one_attempt_more_than_retries_and_the_failure_says_of_how_many(make: Make, retries: int) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        try:
            await flow.do("x", hit, "x", retries=retries)
        except StepFailed as error:
            return error.attempts
        return 0

    BROKEN.add("x")
    engine = make(body)
    row = to_the_end(engine, engine.run("body").id)
    assert output_of(engine, row) == len(DONE) == retries + 1
    policy = engine.ledger(row.id).operations["x"].opened["policy"]
    assert (policy["retries"], policy["max_attempts"]) == (retries, retries + 1)


def test_b16_a_step_that_is_run_again_has_its_whole_time(make: Make) -> None:
    async def slow_at_first() -> str:
        DONE.append("slow")
        if DONE.count("slow") == 1:
            await asyncio.Event().wait()
        return "done"

    @workflow
    async def body(flow: Flow) -> str:
        return await flow.do("slow", slow_at_first, timeout="50ms", retries=0)

    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    move(engine, "5s")
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == "done"


# time


@pytest.mark.parametrize("how", ["sleep", "do", "approval"])
def test_b19_a_step_that_calls_flow_fails_the_run_at_once_and_is_no_failure_of_the_step(make: Make, how: str) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        calls: dict[str, Callable[[], Any]] = {
            "sleep": lambda: flow.sleep("inner", "1s"),
            "do": lambda: flow.do("inner", hit, "inner"),
            "approval": lambda: flow.approval("inner"),
        }
        await flow.do("outer", calls[how], retries=3)

    engine = make(body)
    error = failure(engine, body)
    assert (error["code"], "called inside the step" in error["message"]) == ("MISUSE", True)
    (run,) = engine.store.runs(Filter())
    kinds = engine.kinds(run.id)
    assert kinds.count("step.started outer~1") == 1
    assert not any(kind.startswith("step.failed") for kind in kinds)


@pytest.mark.parametrize("wait", ["approval", "suspend", "sleep"])
def test_b20_what_puts_a_run_down_is_no_exception_and_starts_no_cleanup(make: Make, wait: str) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            if wait == "approval":
                await flow.approval("ok")
            elif wait == "suspend":
                await flow.suspend("ok")
            else:
                await flow.sleep("ok", "1h")
        except Exception:
            hit("swallowed")
        else:
            await flow.do("passed", hit, "passed")
        finally:
            await flow.do("finally", hit, "finally")
        return "end"

    engine = make(body)
    row = engine.run("body")
    assert (row.status, DONE) == (Status.RUNNING if wait == "sleep" else Status.SUSPENDED, [])
    if wait == "approval":
        engine.engine.answer(row.id, "ok", yes=True)
    move(engine, "1h")
    row = engine.resume(row.id) if wait == "suspend" else engine.drive(row.id)
    assert (output_of(engine, row), DONE) == ("end", ["passed", "finally"])


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("local", "instant"),
    [
        (datetime(2026, 3, 29, 1, 59, tzinfo=BERLIN), datetime(2026, 3, 29, 0, 59, tzinfo=UTC)),
        (datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN), datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),  # does not exist there
        (datetime(2026, 3, 29, 3, 0, tzinfo=BERLIN), datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),  # comes twice
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
    ],
)
def test_b21_a_local_time_on_a_day_of_change_is_one_instant(make: Make, local: datetime, instant: datetime) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        await flow.sleep_until("then", local)
        return flow.now().isoformat()

    engine = make(body)
    row = engine.run("body")
    started = next(event.body() for event in engine.events(row.id) if event.kind == "sleep.started")
    assert started["wake_at"] == from_datetime(instant)


def test_b22_a_datetime_without_a_zone_is_refused_with_the_cure(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.sleep_until("t", datetime(2030, 1, 1))  # noqa: DTZ001  # that is the fault

    error = failure(make(body), body)
    assert 'flow.sleep_until("t"): 2030-01-01 00:00:00 has no time zone' in error["message"]


# gates


def test_b24_waiting_for_a_person_counts_against_no_time(make: Make) -> None:
    @workflow
    async def asks(flow: Flow) -> str:
        return (await flow.approval("ok")).status

    @workflow
    async def body(flow: Flow) -> str:
        return await flow.do("kid", asks, timeout="3s")

    engine = make(body, asks)
    row = engine.run("body")
    move(engine, "2d")
    assert engine.drive(row.id).status is Status.SUSPENDED
    (child,) = [one.id for one in engine.store.runs(Filter(workflow="asks"))]
    engine.engine.answer(child, "ok", yes=True)
    engine.drive(child)
    assert output_of(engine, engine.drive(row.id)) == "approved"


def test_b26_gates_of_two_branches_each_need_their_answer(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        async def branch(name: str) -> str:
            await flow.do(name, hit, name)
            return (await flow.approval(f"{name} ok")).status

        return list(await asyncio.gather(branch("a"), branch("b")))

    engine = make(body)
    row = engine.run("body")
    assert [wait["reason"] for wait in json.loads(row.waiting)] == ["a ok", "b ok"]
    engine.engine.answer(row.id, "b ok", yes=True)
    row = engine.drive(row.id)
    assert (row.status, [wait["reason"] for wait in json.loads(row.waiting)]) == (Status.SUSPENDED, ["a ok"])
    engine.engine.answer(row.id, "a ok", yes=False)
    assert output_of(engine, engine.drive(row.id)) == ["rejected", "approved"]


def test_b27_work_that_is_done_again_after_a_no_is_asked_for_again(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> int:
        drafts = 0
        while True:
            drafts += 1
            await flow.do("draft", hit, f"draft {drafts}")
            if (await flow.approval("review")).approved:
                break
        await flow.do("publish", hit, "publish")
        return drafts

    engine = make(body)
    row = engine.run("body")
    for yes in (False, False, True):
        assert "publish" not in DONE
        open_gates = engine.ledger(row.id).open_gates()
        assert len(open_gates) == 1
        engine.engine.answer(row.id, None, yes=yes)
        row = engine.drive(row.id)
    assert output_of(engine, row) == 3
    assert DONE == ["draft 1", "draft 2", "draft 3", "publish"]
    assert [kind for kind in engine.kinds(row.id) if kind.startswith("gate.opened")] == [
        "gate.opened approve:review~1",
        "gate.opened approve:review#1~1",
        "gate.opened approve:review#2~1",
    ]


@pytest.mark.parametrize("attempt", [0, 2])
def test_b29_an_answer_that_is_not_of_the_open_round_opens_no_gate(make: Make, attempt: int) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        answer = await flow.approval("ok")
        return await flow.do("behind", hit, answer.status)

    engine = make(body)
    row = engine.run("body")
    by = {"user": "ana", "uid": 0, "host": "h", "tty": None, "sudo_user": None}
    said = body_text(name="ok", decision="approved", data=None, comment=None, by=by, scopes=[])
    engine.store.post(row.id, None, lambda run, events: [Draft(Kind.GATE_ANSWERED, "approve:ok", attempt, said)])
    assert engine.drive(row.id).status is Status.SUSPENDED
    assert DONE == []
    engine.engine.answer(row.id, "ok", yes=False)
    assert output_of(engine, engine.drive(row.id)) == "rejected"


def test_b29_what_a_cancel_closed_is_no_yes(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        answer = await flow.approval("ok")
        return await flow.do("behind", hit, answer.status)

    engine = make(body)
    row = engine.run("body")
    engine.engine.cancel(row.id, "no")
    engine.drive(row.id, verb="cancel")
    with pytest.raises(AlreadyAnswered):
        engine.engine.answer(row.id, "ok", yes=True)
    engine.engine.retry(row.id)
    assert engine.drive(row.id).status is Status.SUSPENDED
    assert DONE == []


# cancels, children, branches


@workflow
async def grandchild(flow: Flow) -> None:
    await flow.do("grandchild", hit, "grandchild")


@workflow
async def child(flow: Flow) -> None:
    await flow.do("child", hit, "child")
    await flow.sleep("nap", "60h")
    await flow.do("below", grandchild)


@workflow
async def parent(flow: Flow) -> None:
    await flow.do("kid", child)


def test_b34_a_cancel_reaches_the_child_and_what_it_would_have_started_never_is(make: Make) -> None:
    engine = make(parent, child, grandchild)
    row = engine.run("parent")
    engine.engine.cancel(row.id, "enough")
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    move(engine, "100h")
    assert [run.status for run in engine.store.runs(Filter())] == [Status.CANCELLED] * 2
    assert engine.engine.due(10) == []
    assert DONE == ["child"]


def test_b35_a_cancel_that_the_body_swallows_is_raised_again_at_the_next_step(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        for number in range(3):
            try:
                await flow.suspend(f"hold {number}")
            except BaseException:
                await flow.do("clean", hit, f"clean {number}")
        return await flow.do("other", hit, "other")

    engine = make(body)
    row = engine.run("body")
    engine.engine.cancel(row.id, "enough")
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    assert "other" not in DONE
    assert DONE[0] == "clean 0"


def test_b36_a_sleep_that_was_cancelled_has_an_end(make: Make) -> None:
    engine = make(child, grandchild)
    row = engine.run("child")
    move(engine, "1h")
    engine.engine.cancel(row.id, "enough")
    engine.drive(row.id, verb="cancel")
    attempt = engine.ledger(row.id).operations["sleep:nap"].last
    assert (attempt.status, attempt.end_at) == ("cancelled", engine.clock.now())


def test_b37_the_loser_of_a_race_keeps_no_run_alive(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        return (await flow.race({"yes": flow.approval("ok"), "late": flow.sleep("nap", "1s")})).name

    engine = make(body)
    row = engine.run("body")
    move(engine, "2s")
    row = engine.drive(row.id)
    assert (output_of(engine, row), json.loads(row.waiting)) == ("late", [])
    with pytest.raises(AlreadyAnswered):
        engine.engine.answer(row.id, "ok", yes=True)


def test_b38_a_child_that_nobody_waits_for_does_not_keep_a_failed_run_running(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        beside = asyncio.ensure_future(flow.do("kid", child))
        await flow.do("bad", hit, "bad", retries=0)
        await beside

    BROKEN.add("bad")
    engine = make(body, child, grandchild)
    row = engine.run("body")
    assert row.status is Status.FAILED
    operation = engine.ledger(row.id).operations["kid"]
    assert (engine.store.run(str(operation.child)).status, operation.status) == (Status.CANCELLED, "cancelled")


def test_b40_the_error_of_the_parent_is_the_deepest_cause(make: Make) -> None:
    @workflow
    async def deep(flow: Flow) -> None:
        await flow.do("query", query)

    @workflow
    async def middle(flow: Flow) -> None:
        await flow.do("deep", deep)

    @workflow
    async def top(flow: Flow) -> None:
        await flow.do("middle", middle)

    def query() -> None:
        raise ValueError("no such table")

    engine = make(top, middle, deep)
    error = failure(engine, top)
    (deepest,) = engine.store.runs(Filter(workflow="deep"))
    assert (error["type"], error["message"], error["child"]) == (
        "ValueError",
        "no such table",
        {"run": deepest.id, "step": "query"},
    )


def test_b41_siblings_of_a_step_that_failed_run_once_in_all(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        names = ["a", "b", "c", "d", "e"]
        return list(await asyncio.gather(*(flow.do(name, hit, name, retries=0, undo=None) for name in names)))

    BROKEN.add("c")
    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    BROKEN.clear()
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == ["a", "b", "c", "d", "e"]
    succeeded = [kind for kind in engine.kinds(row.id) if kind.startswith("step.succeeded")]
    assert len(succeeded) == len(set(succeeded)) == 5


# more without a number of their own


def test_a_failed_clean_up_of_a_cancel_does_not_hide_the_cancel(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        try:
            await flow.suspend("hold")
        except RunCancelled:
            await flow.do("clean", hit, "clean", retries=0)
            raise

    BROKEN.add("clean")
    engine = make(body)
    row = engine.run("body")
    engine.engine.cancel(row.id, "enough")
    assert engine.drive(row.id, verb="cancel").status is Status.CANCELLED
    assert DONE == ["clean"]


def test_a_retry_lands_in_a_step_inside_a_loop(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        return [await flow.do("turn", hit, f"turn {number}", retries=0) for number in range(4)]

    BROKEN.add("turn 2")
    engine = make(body)
    row = engine.run("body")
    BROKEN.clear()
    engine.engine.retry(row.id, "turn#1")
    assert output_of(engine, engine.drive(row.id)) == [f"turn {number}" for number in range(4)]
    assert DONE == ["turn 0", "turn 1", "turn 2", "turn 1", "turn 2", "turn 3"]


def test_a_long_sleep_of_a_suspended_step_is_not_taken_for_one_that_timed_out(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        await flow.sleep("long", timedelta(days=300))
        return await flow.do("after", hit, "after", timeout="1s")

    engine = make(body)
    row = engine.run("body")
    move(engine, "301d")
    assert output_of(engine, engine.drive(row.id)) == "after"
    assert DONE == ["after"]
