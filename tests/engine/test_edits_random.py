"""Random parallel programs: a fork equals a run that never did what came after its step, and no retry ends in a refusal."""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flowstone import Flow, workflow
from flowstone.journal.fork import fork_point, kept_keys
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.cutting import cut_copy
from support.engines import output_of, to_the_end
from support.programs import Node, Running, program

PROGRAMS = 60
FORKS = 3
BROKEN: set[int] = set()
"""Numbers of steps that fail for good, until they are repaired."""


async def fragile(number: int, turns: int) -> int:
    """Takes some turns, then works unless it is broken."""
    for _ in range(turns):
        await asyncio.sleep(0)
    if number in BROKEN:
        raise ValueError(f"{number} is broken")
    return number


class Fragile(Running):
    """A program whose failures leave the body."""

    async def _step(self, node: Node) -> Any:
        return await self.flow.do(f"s{node.number % 3}", fragile, node.number, node.turns, retries=0)


def body_of(node: Node, kind: type[Running] = Running) -> Callable[..., Any]:
    @workflow(name="program")
    async def body(flow: Flow) -> Any:
        return await kind(flow, []).value(node)

    return body


def of_body(ledger: Ledger) -> list[Operation]:
    return [operation for operation in ledger.operations.values() if operation.of_body]


def fork_at_random(folder: Path, random: Random) -> None:
    node = program(random)
    engine = Throwaway(folder, body_of(node))
    try:
        row = engine.run("program")
        expected = output_of(engine, to_the_end(engine, row.id))
        events, ledger = list(engine.events(row.id)), engine.ledger(row.id)
        for step in random.sample(of_body(ledger), min(FORKS, len(of_body(ledger)))):
            check_fork(engine, row.id, step, ledger, expected)
        assert list(engine.events(row.id)) == events, "the old run is untouched"
    finally:
        engine.close()


def check_fork(engine: Throwaway, run: str, step: Operation, ledger: Ledger, expected: Any) -> None:
    forked = engine.engine.fork(run, step.key)
    begun = engine.ledger(forked.id)
    kept = kept_keys(ledger, fork_point(ledger, step.key))
    outcomes = [(event.step, event.kind, event.body()) for event in ledger.completions if event.n < step.asked_n]
    assert [(event.step, event.kind, event.body()) for event in begun.completions] == outcomes
    assert set(begun.operations) == set(kept), "only what had its completion"
    copied = engine.store.run(forked.id).events
    row = to_the_end(engine, forked.id)
    assert output_of(engine, row) == expected
    done_again = {event.step for event in engine.events(forked.id)[copied:] if event.kind == "step.started"}
    assert done_again.isdisjoint(kept), "nothing that was copied runs again"
    assert engine.engine.checked(forked.id).refusal is None
    completed = Counter(event.step for event in engine.ledger(forked.id).completions)
    assert max(completed.values(), default=1) == 1


@pytest.mark.parametrize("part", range(6))
def test_a_fork_equals_a_run_that_never_did_what_came_after(tmp_path: Path, part: int) -> None:
    for_each_program(tmp_path, part, fork_at_random)


def retry_until_it_works(folder: Path, random: Random) -> None:
    node = seedless(program(random))
    expected = output_with_nothing_broken(folder, node)
    numbers = list(steps_of(node))
    BROKEN.update(random.sample(numbers, min(len(numbers), random.randint(1, 3))))
    engine = Throwaway(folder, body_of(node, Fragile))
    try:
        run = engine.engine.start("program").row.id
        for _ in range(40):
            row = to_the_end(engine, run)
            if row.status is Status.COMPLETED:
                break
            repair(random)
            retry_somewhere(engine, run, random)
        assert output_of(engine, row) == expected
        assert engine.engine.checked(run).refusal is None
    finally:
        engine.close()


def retry_somewhere(engine: Throwaway, run: str, random: Random) -> None:
    """Where it failed, or at any step that it had reached."""
    reached = of_body(engine.ledger(run))
    step = random.choice(reached).key if reached and random.random() < 0.5 else None
    engine.engine.retry(run, step)  # raises Diverged if code and journal no longer fit


def repair(random: Random) -> None:
    if BROKEN and random.random() < 0.7:
        BROKEN.discard(random.choice(sorted(BROKEN)))


def steps_of(node: Node) -> set[int]:
    below = set().union(*(steps_of(child) for child in node.children))
    return below | {node.number} if node.kind in ("step", "own group") else below


def output_with_nothing_broken(folder: Path, node: Node) -> Any:
    BROKEN.clear()
    (folder / "whole").mkdir(parents=True)
    engine = Throwaway(folder / "whole", body_of(node, Fragile))
    try:
        return output_of(engine, to_the_end(engine, engine.run("program").id))
    finally:
        engine.close()


def seedless(node: Node) -> Node:
    """The program with steps for what differs from run to run."""
    kind = "step" if node.kind in ("random", "uuid") else node.kind
    return replace(node, kind=kind, children=tuple(seedless(child) for child in node.children))


@pytest.mark.parametrize("part", range(6))
def test_a_retry_after_any_failure_fits_and_ends_as_if_nothing_had_failed(tmp_path: Path, part: int) -> None:
    for_each_program(tmp_path, part, retry_until_it_works)


def cancel_and_retry(folder: Path, random: Random) -> None:
    """The process dies anywhere, the run is cancelled, and then retried."""
    node = program(random)
    (folder / "whole").mkdir(parents=True)
    engine = Throwaway(folder / "whole", body_of(node))
    cuts: set[int] = set()
    engine.observers.append(lambda events: cuts.update((events[0].n, events[-1].n + 1)))
    run = engine.engine.start("program").row.id
    expected = output_of(engine, to_the_end(engine, run))
    events = list(engine.events(run))
    engine.vanish()
    places = sorted(cut for cut in cuts if 2 < cut < len(events))
    if not places:
        return
    cut = random.choice(places)
    cut_copy(folder / "whole", folder / "cut", run, events, cut)
    again = Throwaway(folder / "cut", body_of(node))
    try:
        again.clock.move_to(events[cut - 1].at)  # type: ignore[attr-defined]
        again.engine.cancel(run, "enough")
        row = to_the_end(again, run)
        if row.status is Status.CANCELLED:
            retry_somewhere(again, run, random)
            row = to_the_end(again, run)
        assert output_of(again, row) == expected
        assert again.engine.checked(run).refusal is None
    finally:
        again.close()


@pytest.mark.parametrize("part", range(6))
def test_a_retry_after_a_cancel_anywhere_fits(tmp_path: Path, part: int) -> None:
    for_each_program(tmp_path, part, cancel_and_retry)


def for_each_program(folder: Path, part: int, check: Callable[[Path, Random], None]) -> None:
    for seed in range(part, PROGRAMS, 6):
        place = folder / str(seed)
        place.mkdir()
        try:
            check(place, Random(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}: {json.dumps(str(program(Random(seed))))[:2000]}")
            raise
        shutil.rmtree(place)
