"""What went wrong for users of other tools when bodies are replayed, tried here; each test names its report, Bnn."""

import asyncio
import random
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flowstone import Flow, StepFailed, workflow
from flowstone.errors import Diverged
from flowstone.journal.events import Event
from flowstone.journal.states import SETTLED, Status
from flowstone.testing.throwaway import Throwaway
from support.cutting import cut_copy
from support.engines import Make, output_of, to_the_end
from support.processes import Folder


async def give(value: Any) -> Any:
    return value


async def take_turns(value: Any, most: int = 30) -> Any:
    """Ends at some time."""
    for _ in range(random.randrange(most)):
        await asyncio.sleep(0)
    return value


async def boom() -> None:
    raise ValueError("boom")


def test_b01_a_decision_taken_outside_of_the_journal_is_refused_with_both_steps_and_the_line(make: Make) -> None:
    passes = []

    @workflow
    async def decides(flow: Flow) -> None:
        passes.append("one")
        if len(passes) == 1:
            await flow.do("a", give, 1)
        else:
            await flow.do("b", give, 2)
        await flow.suspend("w")

    engine = make(decides)
    row = engine.run("decides")
    before = list(engine.events(row.id))
    for _ in range(3):
        with pytest.raises(Diverged) as refused:
            engine.engine.resume(row.id)
        assert 'step 1: the journal has "a" (' in refused.value.message
        assert 'the code asks for "b" (' in refused.value.message
        assert "at engine/test_edits_field_bugs.py:" in refused.value.message
        assert any("the body is the same" in detail for detail in refused.value.details)
        assert list(engine.events(row.id)) == before
    passes.clear()
    assert engine.resume(row.id).status is Status.COMPLETED


GATHERS = """
import asyncio, random
from flowstone import Flow, workflow

async def hit(tag):
    await asyncio.sleep(random.random() / 50)
    with open("effects", "a") as file:
        file.write(tag + "\\n")
    return tag

@workflow
async def gathers(flow: Flow):
    return await asyncio.gather(*[flow.do(name, hit, name) for name in ("one", "two", "three")])
"""


def test_b02_gathered_steps_keep_their_results_whatever_ends_first(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(GATHERS)
    for _ in range(4):
        folder.act("run", "gathers", kill_after=6)
        run = folder.runs()[-1]
        for _ in range(5):
            if folder.status(run) == "completed":
                break
            folder.act("resume", run)
        ledger = folder.ledger(run)
        assert ledger.output == ["one", "two", "three"]
        assert Counter(event.step for event in ledger.completions) == Counter(["one", "two", "three"])


def test_b03_what_ended_first_stays_first(make: Make) -> None:
    winners = []

    @workflow
    async def races(flow: Flow) -> str:
        first = await flow.race({"slow": flow.do("slow", take_turns, "s", 60), "fast": flow.do("fast", take_turns, "f", 60)})
        winners.append(first.name)
        await flow.do("use", give, first.name)
        await flow.suspend("w")
        return first.name

    engine = make(races)
    for _ in range(10):
        row = engine.run("races")
        assert engine.resume(row.id).status is Status.COMPLETED
        assert engine.ledger(row.id).output == winners[-1] == winners[-2]


def test_b04_the_trace_of_a_failure_may_be_the_input_of_a_step(make: Make) -> None:
    @workflow
    async def reports(flow: Flow) -> str:
        try:
            await flow.do("bad", boom, retries=0)
        except StepFailed as error:
            trace = "".join(traceback.format_exception(error))
            await flow.do("report", give, [repr(error), str(error), trace])
        await flow.suspend("w")
        return "told"

    row = make(reports).run("reports")
    assert make(reports).resume(row.id).status is Status.COMPLETED


def test_b05_a_sleep_whose_length_changes_ends_at_its_recorded_instant(make: Make) -> None:
    lengths = iter(["3s", "7200s", "1s", "9000s"])

    @workflow
    async def sleeps(flow: Flow) -> str:
        await flow.sleep("wait", next(lengths))
        return "woke"

    engine = make(sleeps)
    row = engine.run("sleeps")
    (started,) = [event for event in engine.events(row.id) if event.kind == "sleep.started"]
    assert engine.drive(row.id).status is Status.RUNNING
    engine.clock.move("4s")  # type: ignore[attr-defined]
    assert engine.drive(row.id).status is Status.COMPLETED
    assert [event for event in engine.events(row.id) if event.kind == "sleep.started"] == [started]


def test_b06_chance_and_time_of_the_body_are_those_of_the_first_pass(make: Make) -> None:
    seen = []

    @workflow
    async def rolls(flow: Flow) -> list[Any]:
        found = []
        for number in range(3):
            found.append([flow.random.random(), str(flow.uuid("id")), flow.now().isoformat()])
            random.randrange(9)  # outside of a step it may be what it likes, as long as nothing depends on it
            await flow.do(f"step {number}", give, found[-1])
            await flow.suspend("w")
        seen.append(found)
        return found

    engine = make(rolls)
    row = engine.run("rolls")
    while row.status is not Status.COMPLETED:
        engine.clock.move("1h")  # type: ignore[attr-defined]
        row = engine.resume(row.id)
    assert seen[-1] == engine.ledger(row.id).output
    attempts = Counter(event.step for event in engine.events(row.id) if event.kind == "step.started")
    assert attempts == {"step 0": 1, "step 1": 1, "step 2": 1}


SETS = """
from flowstone import Flow, workflow

def hit(tag):
    return tag

@workflow
async def sets(flow: Flow):
    for x in {"a", "b", "c", "d"}:
        await flow.do(f"do-{x}", hit, x)
    await flow.suspend("w")
    return "all"
"""


def test_b07_the_order_of_a_set_is_refused_in_another_process_with_that_hint(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(SETS)
    assert folder.flow("run", "sets").code == 8
    (run,) = folder.runs()
    before = folder.events(run)
    ends = set()
    for _ in range(30):  # one process in 24 has the same order
        resumed = folder.flow("check", run)
        ends.add(resumed.code)
        if resumed.code == 76:
            assert "a set's order" in resumed.out
            break
    assert 76 in ends
    assert folder.events(run) == before


def test_b42_branches_name_their_steps_by_themselves(tmp_path: Path) -> None:
    @workflow
    async def branches(flow: Flow) -> list[Any]:
        async def branch(name: str) -> list[Any]:
            return [await flow.do("fetch", take_turns, f"{name}{number}") for number in range(3)]

        return list(await asyncio.gather(branch("l"), branch("r")))

    for attempt in range(100):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        first = Throwaway(folder, branches)
        cuts: list[int] = []
        first.observers.append(lambda events, cuts=cuts: cuts.append(events[-1].n + 1))
        run = first.run("branches").id
        events: list[Event] = list(first.events(run))
        first.vanish()
        cut = random.choice([cut for cut in cuts if 2 < cut < len(events)])
        cut_copy(folder, tmp_path / f"{attempt} cut", run, events, cut)
        second = Throwaway(tmp_path / f"{attempt} cut", branches)
        row = to_the_end(second, run)
        assert output_of(second, row) == [["l0", "l1", "l2"], ["r0", "r1", "r2"]]
        assert set(second.ledger(run).operations) == {f"[{side}]/fetch{n}" for side in (0, 1) for n in ("", "#1", "#2")}
        second.close()


def test_b43_one_name_many_times_keeps_every_result(make: Make) -> None:
    @workflow
    async def fetches(flow: Flow) -> list[Any]:
        once = [await flow.do("fetch", give, number) for number in range(3)]
        nested = [[await flow.do("fetch", give, [row, column]) for column in range(2)] for row in range(2)]
        beside = await asyncio.gather(*[flow.do("fetch", give, f"beside {number}") for number in range(2)])
        await flow.suspend("w")
        return [once, nested, list(beside)]

    engine = make(fetches)
    row = engine.run("fetches")
    assert engine.resume(row.id).status in SETTLED
    assert output_of(engine, row) == [[0, 1, 2], [[[0, 0], [0, 1]], [[1, 0], [1, 1]]], ["beside 0", "beside 1"]]
    keys = [operation.key for operation in engine.ledger(row.id).operations.values() if operation.kind == "step"]
    assert keys == ["fetch", *[f"fetch#{number}" for number in range(1, 9)]]
