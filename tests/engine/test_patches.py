"""`flow.patched`: which way a run goes that was recorded before, in the middle of, or after the patch; also after a retry."""

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flowstone import Flow, NonRetryable, workflow
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.cutting import cut_copy
from support.engines import Make, output_of, to_the_end

RAN: list[str] = []
BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    RAN.clear()
    BROKEN.clear()
    yield
    BROKEN.clear()


async def work(name: str, turns: int = 0) -> str:
    for _ in range(turns):
        await asyncio.sleep(0)
    RAN.append(name)
    if name in BROKEN:
        raise NonRetryable(name)
    return name


@workflow(name="branches")
async def patched_branches(flow: Flow) -> list[Any]:
    async def branch(name: str) -> list[Any]:
        found: list[Any] = []
        for turn in range(3):
            if flow.patched(f"turn {turn}"):
                found.append(await flow.do(f"{name} {turn}", work, f"{name}{turn}"))
            else:
                found.append("old")
        return found

    return list(await asyncio.gather(branch("a"), branch("b"), branch("c")))


ALL_NEW = [[f"{name}{turn}" for turn in range(3)] for name in "abc"]


@pytest.mark.parametrize("broken", ["a0", "b0", "b1", "c1", "a2", "c2"])
def test_a_run_that_went_the_new_way_goes_on_so_after_a_retry(make: Make, broken: str) -> None:
    engine = make(patched_branches)
    BROKEN.add(broken)
    row = engine.run("branches")
    assert row.status is Status.FAILED
    BROKEN.clear()
    engine.engine.retry(row.id)
    assert output_of(engine, engine.drive(row.id)) == ALL_NEW
    assert RAN.count(broken) == 2
    assert len(RAN) == 10
    engine.engine.check(row.id)


def test_a_run_that_went_the_new_way_goes_on_so_after_a_death_anywhere(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    engine = Throwaway(tmp_path / "whole", patched_branches)
    cuts: list[int] = []
    engine.observers.append(lambda events: cuts.append(events[-1].n + 1))
    run = engine.run("branches").id
    events = list(engine.events(run))
    engine.vanish()
    for cut in cuts[:-1]:
        cut_copy(tmp_path / "whole", tmp_path / str(cut), run, events, cut)
        other = Throwaway(tmp_path / str(cut), patched_branches)
        assert output_of(other, to_the_end(other, run)) == ALL_NEW, cut
        other.close()


@workflow(name="joined")
async def joined(flow: Flow) -> list[Any]:
    async def branch(name: str) -> list[str]:
        return [await flow.do(name, work, name, 5 if name == "b" else 0)]

    found = list(await asyncio.gather(branch("a"), branch("b")))
    await flow.suspend("look")
    return found


@workflow(name="joined")
async def joined_and_patched(flow: Flow) -> list[Any]:
    async def branch(name: str) -> list[str]:
        found = [await flow.do(name, work, name)]
        if flow.patched("more"):
            found.append(await flow.do(f"{name} more", work, f"{name} more"))
        return found

    found = list(await asyncio.gather(branch("a"), branch("b")))
    await flow.suspend("look")
    return found


def test_a_run_that_is_past_the_end_of_its_branches_goes_the_old_way_in_all_of_them(make: Make) -> None:
    """Its last completion is that of one branch, and what it asked for behind it is all that tells that the branch had ended."""
    row = make(joined).run("joined")
    engine = make(joined_and_patched, version="2")
    assert output_of(engine, engine.resume(row.id)) == [["a"], ["b"]]


def test_a_fresh_run_goes_the_new_way_in_all_of_them(make: Make) -> None:
    engine = make(joined_and_patched, version="2")
    row = engine.run("joined")
    assert output_of(engine, engine.resume(row.id)) == [["a", "a more"], ["b", "b more"]]


def test_a_run_that_has_not_come_to_the_end_of_a_branch_goes_the_new_way_there(make: Make) -> None:
    @workflow(name="waits")
    async def waits(flow: Flow) -> list[str]:
        found = [await flow.do("a", work, "a")]
        return [*found, (await flow.approval("ok")).status]

    @workflow(name="waits")
    async def waits_and_patched(flow: Flow) -> list[str]:
        found = [await flow.do("a", work, "a")]
        if flow.patched("before"):
            found.append("never")
        found.append((await flow.approval("ok")).status)
        if flow.patched("behind"):
            found.append(await flow.do("behind", work, "behind"))
        return found

    row = make(waits).run("waits")
    engine = make(waits_and_patched, version="2")
    engine.engine.answer(row.id, "ok", yes=True)
    assert output_of(engine, engine.drive(row.id)) == ["a", "approved", "behind"]


# random programs


PROGRAMS = 60


def tree(random: Random, numbers: Iterator[int], depth: int = 0) -> tuple[Any, ...]:
    """A program: ("step", number, turns), or ("seq" or "gather", its parts). Between the parts stand places for patches."""
    if depth == 3 or (depth and random.random() < 0.4):
        return ("step", next(numbers), random.randrange(12))
    parts = tuple(tree(random, numbers, depth + 1) for _ in range(random.randint(1, 3)))
    return (random.choice(("seq", "gather")), parts, next(numbers))


def body_of(node: tuple[Any, ...], patches: set[int], went: dict[int, set[bool]]) -> Any:
    """The workflow; in it `patches` tells at the end of which parts something new is done."""

    @workflow(name="program")
    async def body(flow: Flow) -> None:
        async def run(node: tuple[Any, ...]) -> None:
            if node[0] == "step":
                await flow.do(f"s{node[1]}", work, f"s{node[1]}", node[2])
            elif node[0] == "seq":
                for part in node[1]:
                    await run(part)
            else:
                await asyncio.gather(*(run(part) for part in node[1]))
            number = node[2] if node[0] != "step" else node[1]
            if number in patches:
                new = flow.patched(f"p{number}")
                went.setdefault(number, set()).add(new)
                if new:
                    await flow.do(f"new {number}", work, f"new {number}")

        await run(node)
        await flow.suspend("end")

    return body


def cut_off(folder: Path, body: Any, random: Random) -> tuple[Path, str, Throwaway]:
    """A run of a body whose process has died after some write, or that waits at its end."""
    (folder / "whole").mkdir(parents=True)
    engine = Throwaway(folder / "whole", body)
    cuts: list[int] = []
    engine.observers.append(lambda events: cuts.append(events[-1].n + 1))
    run = engine.run("program").id
    events = list(engine.events(run))
    engine.vanish()
    cut_copy(folder / "whole", folder / "cut", run, events, random.choice(cuts))
    return folder / "cut", run, engine


def finish(folder: Path, body: Any, run: str, version: str) -> Throwaway:
    engine = Throwaway(folder, body, version=version)
    row = engine.store.run(run)
    if row.status is Status.RUNNING:
        engine.drive(run)
    engine.engine.resume(run)
    assert engine.drive(run).status is Status.COMPLETED
    engine.engine.check(run)
    return engine


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_runs_of_before_a_patch_go_on_with_it_and_fresh_ones_go_the_new_way_everywhere(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    numbers = count()
    node = tree(random, numbers)
    all_of = range(next(numbers))
    patches = set(random.sample(all_of, random.randint(1, len(all_of))))
    went: dict[int, set[bool]] = {}
    old, run, _ = cut_off(tmp_path / "old", body_of(node, set(), {}), random)
    finish(old, body_of(node, patches, went), run, "2").close()  # never Diverged
    went.clear()
    fresh, run, _ = cut_off(tmp_path / "fresh", body_of(node, patches, {}), random)
    finish(fresh, body_of(node, patches, went), run, "1").close()
    assert set().union(*went.values()) == {True}
