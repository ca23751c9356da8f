"""Undo: in which order, with what, how often, and what happens when it fails or the process dies in the middle."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flowstone import Done, Flow, StepFailed, step, workflow
from flowstone.journal.states import Status
from flowstone.running.ending import CRASHES
from support.effects import BROKEN, EFFECTS, die_at, endless, forget, unwork, unwork_outcome, work
from support.engines import Make, output_of, to_the_end
from support.processes import Folder


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    forget()


@step(repeatable=False)
async def unwork_once(done: Done[Any, Any, Any]) -> None:
    EFFECTS.append(f"un{done.args[0]}")
    if f"un{done.args[0]}" in BROKEN:
        await asyncio.Event().wait()


@pytest.mark.parametrize("option", ["undo", "on_error"])
def test_a_lambda_cannot_undo_or_handle(make: Make, option: str) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("one", work, "one", **{option: lambda done: None})

    engine = make(body)
    row = engine.run("body")
    error = engine.ledger(row.id).error
    assert error is not None
    assert "must be found by its name" in error["message"]
    assert EFFECTS == []


def test_undo_goes_backwards_through_completions_across_all_branches(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        async def branch(name: str, turns: int) -> None:
            await flow.do(f"{name}1", work, f"{name}1", turns, undo=unwork)
            await flow.do(f"{name}2", work, f"{name}2", turns, undo=unwork)

        await asyncio.gather(branch("a", 40), branch("b", 1))
        await flow.do("bad", work, "bad")

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    completions = [kind for kind in engine.kinds(row.id) if kind.startswith("step.succeeded") and ":undo" not in kind]
    completed = [kind.split()[1].partition("~")[0].rpartition("/")[2] for kind in completions]
    assert EFFECTS[5:] == [f"un{name}" for name in reversed(completed)]
    kinds = engine.kinds(row.id)
    assert kinds[-9:-1:2] == [f"step.started {key}:undo~1" for key in _undone(kinds)]


def _undone(kinds: list[str]) -> list[str]:
    """Keys in the order in which their undo ended: one at a time."""
    return [kind.split()[1].removesuffix(":undo~1") for kind in kinds if kind.startswith("step.succeeded") and ":undo" in kind]


def test_an_undo_gets_the_arguments_and_the_result(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("one", work, "one", undo=unwork_outcome)
        await flow.do("bad", work, "bad")

    BROKEN.add("bad")
    make(body).run("body")
    assert EFFECTS == ["one", "bad", "succeeded ('one',) ONE"]


def test_a_step_that_raised_is_not_undone_but_one_that_took_too_long_may_have_been_done(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        try:
            await flow.do("raised", work, "bad", undo=unwork_outcome, retries=0)
        except StepFailed:
            await flow.do("late", endless, "late", undo=unwork_outcome, timeout="10ms", retries=0)

    BROKEN.add("bad")
    make(body).run("body")
    assert EFFECTS == ["bad", "late", "unknown ('late',) None"]


def test_an_attempt_that_was_cut_off_is_undone_even_if_a_later_one_raised(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("one", work, "one", undo=unwork_outcome, retries=0)

    engine = make(body)
    run_id = engine.engine.start("body").row.id
    die_at(engine, run_id, "step.started one~1")
    BROKEN.add("one")
    other = make(body, clock=engine.clock)
    assert other.resume(run_id).status is Status.FAILED
    assert EFFECTS[-1] == "unknown ('one',) None"


def test_a_running_attempt_with_an_undo_is_awaited_and_one_without_is_cut_off(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await asyncio.gather(
            flow.do("slow", work, "slow", 100, undo=unwork),
            flow.do("endless", endless, "endless"),
            flow.do("bad", work, "bad"),
        )

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.FAILED
    assert sorted(EFFECTS) == ["bad", "endless", "slow", "unslow"]
    assert "step.cancelled endless~1" in engine.kinds(row.id)


def test_a_body_that_handles_the_error_undoes_nothing(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        await flow.do("one", work, "one", undo=unwork)
        try:
            await flow.do("bad", work, "bad")
        except StepFailed:
            return "handled"
        return ""

    BROKEN.add("bad")
    engine = make(body)
    assert output_of(engine, engine.run("body")) == "handled"
    assert EFFECTS == ["one", "bad"]


@workflow
async def three(flow: Flow) -> None:
    for name in ("one", "two", "three"):
        await flow.do(name, work, name, undo=unwork)
    await flow.do("bad", work, "bad")


def test_an_undo_that_fails_ends_the_run_and_retry_goes_on_only_with_the_undo(make: Make) -> None:
    BROKEN.update({"bad", "untwo"})
    engine = make(three)
    row = engine.run("three")
    error = engine.ledger(row.id).error
    assert error is not None
    assert (error["code"], error["message"], error["step"]) == ("UNDO_FAILED", "bad does not work", "bad")
    assert (error["undo"]["step"], error["undo"]["message"]) == ("two:undo", "untwo does not work")
    assert EFFECTS == ["one", "two", "three", "bad", "unthree", "untwo"]
    BROKEN.clear()
    engine.engine.retry(row.id)
    row = engine.drive(row.id)
    assert row.status is Status.FAILED
    error = engine.ledger(row.id).error
    assert error is not None
    assert (error["code"], error["message"]) == (None, "bad does not work")
    assert EFFECTS[6:] == ["untwo", "unone"]


@pytest.mark.parametrize(
    ("name", "end"), [("three", "started"), ("three", "succeeded"), ("two", "started"), ("two", "succeeded"), ("one", "started")]
)
def test_an_undo_goes_on_where_a_death_cut_it_off_without_the_body(make: Make, name: str, end: str) -> None:
    BROKEN.add("bad")
    engine = make(three)
    run_id = engine.engine.start("three").row.id
    die_at(engine, run_id, f"step.{end} {name}:undo~1")
    done_before = list(EFFECTS)

    @workflow(name="three")
    async def gone(flow: Flow) -> None:
        raise AssertionError("the body is not needed any more")

    other = make(gone, clock=engine.clock)
    assert other.resume(run_id).status is Status.FAILED
    error = other.ledger(run_id).error
    assert error is not None
    assert error["message"] == "bad does not work"
    assert EFFECTS[: len(done_before)] == done_before
    undone = [effect for effect in EFFECTS if effect.startswith("un")]
    assert list(dict.fromkeys(undone)) == ["unthree", "untwo", "unone"]
    assert len(undone) <= 4


def test_an_undo_whose_outcome_is_unknown_and_that_must_not_be_repeated_waits_for_a_person(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("one", work, "one", undo=unwork_once)
        await flow.do("bad", work, "bad")

    BROKEN.add("bad")
    engine = make(body, unwork_once)
    run_id = engine.engine.start("body").row.id
    die_at(engine, run_id, "step.started one:undo~1")
    other = make(body, unwork_once, clock=engine.clock)
    assert other.resume(run_id).status is Status.FAILED
    error = other.ledger(run_id).error
    assert error is not None
    assert (error["code"], error["undo"]["step"]) == ("UNDO_FAILED", "one:undo")
    before = EFFECTS.count("unone")
    other.engine.retry(run_id)
    assert other.drive(run_id).status is Status.FAILED
    assert EFFECTS.count("unone") == before + 1
    error = other.ledger(run_id).error
    assert error is not None
    assert error["code"] is None


def test_an_undo_waits_between_its_attempts_like_any_step(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("one", work, "one", undo=unwork_later)
        await flow.do("bad", work, "bad")

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    assert (row.status, row.owner) == (Status.RUNNING, None)
    assert to_the_end(engine, row.id).status is Status.FAILED
    assert EFFECTS == ["one", "bad", "later", "later"]
    assert "step.started one:undo~2" in engine.kinds(row.id)


@step(retry_delay="1h")
def unwork_later(_: Done[Any, Any]) -> None:
    EFFECTS.append("later")
    if EFFECTS.count("later") == 1:
        raise OSError("not yet")


def test_an_undo_that_cannot_be_found_suspends_the_run_until_it_is_there(make: Make) -> None:
    @step(name="release it")
    def release(_: Done[Any, Any]) -> None:
        EFFECTS.append("released")

    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("one", work, "one", undo=release)
        await flow.do("bad", work, "bad")

    BROKEN.add("bad")
    engine = make(body)
    row = engine.run("body")
    assert row.status is Status.SUSPENDED
    assert '"kind":"function"' in row.waiting
    other = make(body, release, clock=engine.clock)
    assert other.resume(row.id).status is Status.FAILED
    assert EFFECTS == ["one", "bad", "released"]


# races


@workflow
async def raced(flow: Flow) -> str:
    won = await flow.race({"quick": flow.do("quick", work, "quick"), "slow": flow.do("slow", work, "slow", 60, undo=unwork)})
    return won.name


def test_the_loser_of_a_race_that_succeeds_is_undone_though_the_run_completes(make: Make) -> None:
    engine = make(raced)
    assert output_of(engine, engine.run("raced")) == "quick"
    assert EFFECTS == ["quick", "slow", "unslow"]


@pytest.mark.parametrize("event", ["step.succeeded slow~1", "step.started slow:undo~1"])
def test_a_losers_undo_is_made_up_for_after_a_death(make: Make, event: str) -> None:
    engine = make(raced)
    run_id = engine.engine.start("raced").row.id
    die_at(engine, run_id, event)
    other = make(raced, clock=engine.clock)
    assert output_of(other, other.resume(run_id)) == "quick"
    assert EFFECTS.count("unslow") >= 1
    assert EFFECTS.count("slow") == 1


def test_a_loser_that_a_death_cut_off_is_undone_since_nobody_knows_what_it_did(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        slow = flow.do("slow", endless, "slow", undo=unwork_outcome)
        won = await flow.race({"quick": flow.do("quick", work, "quick"), "slow": slow})
        await flow.suspend("look")
        return won.name

    engine = make(body)
    run_id = engine.engine.start("body").row.id
    die_at(engine, run_id, "step.succeeded quick~1")
    other = make(body, clock=engine.clock)
    assert other.resume(run_id).status is Status.SUSPENDED
    assert EFFECTS[-1] == "unknown ('slow',) None"
    assert "step.started slow~2" not in other.kinds(run_id)


def test_a_loser_whose_undo_fails_fails_the_run_and_retry_goes_on_with_the_undo(make: Make) -> None:
    BROKEN.add("unslow")
    engine = make(raced)
    row = engine.run("raced")
    error = engine.ledger(row.id).error
    assert error is not None
    assert (error["code"], error["undo"]["step"]) == ("UNDO_FAILED", "slow:undo")
    BROKEN.clear()
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == "quick"
    assert EFFECTS == ["quick", "slow", "unslow", "unslow"]


# real processes

DEADLY = """
import os
from flowstone import Flow, workflow

def effect(what: str) -> None:
    with open("effects", "a") as file:
        print(what, file=file)

def undo(done) -> None:
    effect("undo " + done.step)
    if done.step == "two" and not os.path.exists("healed"):
        os.kill(os.getpid(), 9)

@workflow
async def body(flow: Flow) -> None:
    for name in ("one", "two", "three"):
        await flow.do(name, effect, name, undo=undo)
    raise ValueError("no")
"""


def test_a_kill_in_an_undo_is_mended_by_resume(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(DEADLY)
    assert folder.flow("run", "body").code == -9
    (tmp_path / "healed").touch()
    done = folder.flow("resume", "@last")
    assert done.code == 1, done.err
    assert folder.effects() == ["one", "two", "three", "undo three", "undo two", "undo two", "undo one"]


def test_an_undo_that_kills_its_process_again_and_again_has_failed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(DEADLY)
    folder.act("run", "body")
    [run] = folder.runs()
    for _ in range(CRASHES - 1):
        assert folder.act("resume", run).code == -9
    assert folder.flow("resume", run).code == 4
    assert folder.effects().count("undo two") == CRASHES
    (tmp_path / "healed").touch()
    assert folder.flow("retry", run).code == 1
    assert folder.effects()[-2:] == ["undo two", "undo one"]
