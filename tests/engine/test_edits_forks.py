"""Forks: from inside a fan-out, around gates and sleeps, after an undo, after a cut, of a child run; and what they never do."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from flowstone import Done, Failed, Flow, RunCancelled, StepFailed, workflow
from flowstone.errors import BadData, Diverged, NotFound, UsageError
from flowstone.journal.states import SETTLED, Status
from flowstone.ports import Filter
from flowstone.testing.throwaway import Throwaway
from support.engines import Make

DONE: list[str] = []
BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    DONE.clear()
    BROKEN.clear()
    yield
    BROKEN.clear()


async def work(name: str) -> str:
    DONE.append(name)
    if name in BROKEN:
        raise ValueError(f"{name} is broken")
    return name


async def slowly(name: str) -> str:
    for _ in range(20):
        await asyncio.sleep(0)
    return await work(name)


def release(done: Done[Any]) -> None:
    DONE.append(f"undo {done.step}")


def tell(failed: Failed[Any]) -> None:
    DONE.append(f"told of {failed.step}")


@workflow
async def fans(flow: Flow) -> list[Any]:
    """The second item ends last."""
    await flow.do("before", work, "before")
    items = await flow.map("item", lambda name: slowly(name) if name == "b" else work(name), ["a", "b", "c"], key=str)
    tasks = await asyncio.gather(flow.do("left", slowly, "left"), flow.do("right", work, "right"))
    return [*items, *tasks, await flow.do("after", work, "after")]


@workflow
async def asks(flow: Flow) -> list[Any]:
    await flow.set_state("asked", 0)
    first = await flow.approval("sign", expiry="2d")
    await flow.do("between", work, "between")
    await flow.set_state("asked", 1)
    second = await flow.approval("sign", expiry="2d")
    await flow.sleep("nap", "1h")
    await flow.suspend("look")
    return [first.approved, first.by, second.approved, second.by]


@workflow
async def undoes(flow: Flow) -> str:
    await flow.do("note", work, "note")
    await flow.do("reserve", work, "reserve", undo=release)
    await flow.do("after", work, "after")
    return await flow.do("pay", work, "pay", retries=0, undo=release)


@workflow
async def kid(flow: Flow, name: str = "kid") -> str:
    await flow.do("grow", work, f"{name} grows", undo=release)
    return await flow.do("play", work, f"{name} plays", retries=0)


@workflow
async def parent(flow: Flow) -> str:
    first = await flow.do("first", kid, "ann")
    return f"{first}, {await flow.do('second', kid, 'bob')}"


@workflow
async def copes(flow: Flow) -> str:
    try:
        await flow.do("risky", work, "risky", retries=0, on_error=tell)
    except StepFailed as failure:
        await flow.do("instead", work, "instead")
        return str(failure)
    return "fine"


@workflow
async def tidies(flow: Flow) -> str:
    await flow.do("reserve", work, "reserve", undo=release)
    try:
        await flow.suspend("wait")
    except RunCancelled:
        await flow.do("tidy", work, "tidy")
        raise
    return "not cancelled"


WORKFLOWS = (fans, asks, undoes, kid, parent, copes, tidies)


def forked(engine: Throwaway, run: str, step: str, *data: Any) -> str:
    """The fork at its end or where it waits; DONE then holds what it has done itself."""
    before = list(engine.events(run))
    DONE.clear()
    made = engine.engine.fork(run, step, *data)
    engine.drive(made.id)
    assert list(engine.events(run)) == before, "the old run is untouched"
    engine.engine.check(made.id)
    assert engine.ledger(made.id).created["seed"] == engine.ledger(run).created["seed"]
    return made.id


@pytest.mark.parametrize(
    ("step", "done"),
    [
        ("item[a]", ["a", "c", "b", "right", "left", "after"]),
        ("item[c]", ["a", "c", "b", "right", "left", "after"]),
        ("left", ["right", "left", "after"]),
        ("right", ["right", "left", "after"]),
        ("after", ["after"]),
        ("before", ["before", "a", "c", "b", "right", "left", "after"]),
    ],
)
def test_from_inside_a_fan_out_only_what_had_ended_before_is_kept(make: Make, step: str, done: list[str]) -> None:
    engine = make(*WORKFLOWS)
    run = engine.run("fans").id
    fork = forked(engine, run, step)
    assert done == DONE
    assert engine.ledger(fork).output == engine.ledger(run).output


def test_around_gates_the_answers_given_before_are_kept(make: Make) -> None:
    engine = make(*WORKFLOWS)
    run = engine.run("asks").id
    engine.engine.answer(run, "sign", yes=True, by="ana")
    engine.drive(run)
    engine.engine.answer(run, "sign#1", yes=False, by="ben")
    engine.drive(run)
    second = forked(engine, run, "approve:sign#1")
    assert [gate.key for gate in engine.ledger(second).open_gates()] == ["approve:sign#1"]
    assert (DONE, engine.ledger(second).state) == ([], {"asked": 1})
    engine.engine.answer(second, "sign#1", yes=True, by="eve")
    engine.drive(second)
    engine.clock.move("2h")  # type: ignore[attr-defined]
    engine.drive(second)
    assert engine.resume(second).status is Status.COMPLETED
    assert engine.ledger(second).output == [True, "ana", True, "eve"]
    between = forked(engine, run, "between")
    assert (DONE, engine.ledger(between).open_gates()[0].key) == (["between"], "approve:sign#1")
    first = forked(engine, run, "approve:sign")
    assert (DONE, engine.ledger(first).open_gates()[0].key, engine.ledger(first).state) == ([], "approve:sign", {"asked": 0})
    nap = forked(engine, run, "sleep:nap")
    assert engine.ledger(nap).operations["sleep:nap"].wake_at == engine.clock.now() + 3_600_000_000


def test_an_open_gate_is_opened_again_by_the_fork(make: Make) -> None:
    engine = make(*WORKFLOWS)
    run = engine.run("asks").id
    fork = forked(engine, run, "approve:sign")
    engine.engine.answer(fork, "sign", yes=True, by="ana")
    assert engine.drive(fork).status is Status.SUSPENDED
    assert len(engine.ledger(run).open_gates()) == 1


def test_after_an_undo_what_was_undone_runs_again_and_all_that_followed(make: Make) -> None:
    engine = make(*WORKFLOWS)
    BROKEN.add("pay")
    run = engine.run("undoes").id
    assert DONE == ["note", "reserve", "after", "pay", "undo reserve"]
    with pytest.raises(UsageError, match="has undone what it did") as refused:
        engine.engine.retry(run)
    assert refused.value.hint == f"flow fork {run} --from STEP"
    BROKEN.clear()
    fork = forked(engine, run, "pay")
    assert DONE == ["reserve", "after", "pay"]
    assert engine.ledger(fork).output == "pay"


def test_what_was_copied_is_never_undone_by_the_fork(make: Make) -> None:
    engine = make(*WORKFLOWS)
    run = engine.run("undoes").id
    BROKEN.add("pay")
    fork = forked(engine, run, "pay")
    assert (engine.store.run(fork).status, DONE) == (Status.FAILED, ["pay"])
    again = forked(engine, fork, "after")
    assert (engine.store.run(again).status, DONE) == (Status.FAILED, ["after", "pay"])
    own = forked(engine, run, "reserve")
    assert (engine.store.run(own).status, DONE) == (Status.FAILED, ["reserve", "after", "pay", "undo reserve"])


def test_a_child_run_is_forked_by_itself(make: Make) -> None:
    engine = make(*WORKFLOWS)
    run = engine.run("parent").id
    child = engine.ledger(run).children["second"]
    fork = forked(engine, child, "play")
    row = engine.store.run(fork)
    assert (row.status, row.parent_run, DONE) == (Status.COMPLETED, None, ["bob plays"])


def test_a_fork_of_a_parent_keeps_children_that_had_ended_and_makes_new_ones_of_the_others(make: Make) -> None:
    engine = make(*WORKFLOWS)
    BROKEN.add("bob plays")
    run = engine.run("parent").id
    BROKEN.clear()
    children = engine.ledger(run).children
    fork = forked(engine, run, "second")
    assert DONE == ["bob grows", "bob plays"]
    assert engine.ledger(fork).output == "ann plays, bob plays"
    assert engine.ledger(fork).children["first"] == children["first"]
    assert engine.ledger(fork).children["second"] != children["second"]


def test_a_handled_failure_is_kept_with_its_handler(make: Make) -> None:
    engine = make(*WORKFLOWS)
    BROKEN.add("risky")
    run = engine.run("copes").id
    assert DONE == ["risky", "told of risky", "instead"]
    fork = forked(engine, run, "instead")
    assert (DONE, engine.ledger(fork).output) == (["instead"], 'step "risky" failed: ValueError: risky is broken')


def test_a_fork_of_a_cancelled_run_is_not_cancelled(make: Make) -> None:
    engine = make(*WORKFLOWS)
    run = engine.run("tidies").id
    engine.engine.cancel(run, "enough")
    assert engine.drive(run).status is Status.CANCELLED
    fork = forked(engine, run, "tidy")
    assert (engine.store.run(fork).status, DONE) == (Status.SUSPENDED, ["reserve"])
    assert engine.resume(fork).status is Status.COMPLETED


def test_a_fork_of_a_retried_run_reads_through_the_cut(make: Make) -> None:
    engine = make(*WORKFLOWS)
    BROKEN.add("right")
    run = engine.run("fans").id
    for row in engine.store.runs(Filter(unfinished=True)):
        engine.drive(row.id)
    while engine.store.run(run).status not in SETTLED:
        engine.clock.move("1h")  # type: ignore[attr-defined]
        engine.drive(run)
    BROKEN.clear()
    engine.engine.retry(run)
    assert engine.drive(run).status is Status.COMPLETED
    fork = forked(engine, run, "after")
    assert (DONE, engine.ledger(fork).output) == (["after"], engine.ledger(run).output)


def test_another_input_is_checked_and_given_to_what_runs(make: Make) -> None:
    engine = make(*WORKFLOWS)
    run = engine.run("kid", {"name": "ann"}).id
    fork = forked(engine, run, "play", {"name": "bob"})
    assert (DONE, engine.ledger(fork).output) == (["bob plays"], "bob plays")
    before = len(engine.store.runs(Filter()))
    with pytest.raises(BadData):
        engine.engine.fork(run, "play", {"nam": "bob"})
    with pytest.raises(NotFound, match="has not reached"):
        engine.engine.fork(run, "nothing")
    assert len(engine.store.runs(Filter())) == before


def test_a_fork_that_todays_code_would_not_come_to_is_refused_and_not_made(make: Make) -> None:
    run = make(*WORKFLOWS).run("undoes").id

    @workflow(name="undoes")
    async def edited(flow: Flow) -> None:
        await flow.do("notes", work, "note")

    engine = make(edited, version="2")
    with pytest.raises(Diverged, match=f'run {run}: step 1: the journal has "note"'):
        engine.engine.fork(run, "pay")
    assert len(engine.store.runs(Filter())) == 1


# retry --from


def test_a_retry_from_a_step_keeps_what_was_asked_for_before_and_succeeded_later(make: Make) -> None:
    engine = make(*WORKFLOWS)
    BROKEN.add("after")
    run = engine.run("fans").id
    while engine.store.run(run).status not in SETTLED:
        engine.clock.move("1h")  # type: ignore[attr-defined]
        engine.drive(run)
    BROKEN.clear()
    DONE.clear()
    engine.engine.retry(run, "right")
    assert engine.drive(run).status is Status.COMPLETED
    assert DONE == ["right", "after"], "left was asked for before right, and had succeeded"
    assert engine.ledger(run).output == ["a", "b", "c", "left", "right", "after"]


def test_a_retry_from_a_step_of_the_cleanup_begins_where_the_cancel_came(make: Make) -> None:
    @workflow
    async def cleans(flow: Flow) -> str:
        try:
            await flow.suspend("wait")
        except RunCancelled:
            await flow.do("tidy", work, "tidy")
            raise
        return "not cancelled"

    engine = make(cleans)
    run = engine.run("cleans").id
    engine.engine.cancel(run, "enough")
    assert engine.drive(run).status is Status.CANCELLED
    engine.engine.retry(run, "tidy")
    assert engine.drive(run).status is Status.SUSPENDED
    assert engine.resume(run).status is Status.COMPLETED
