"""Random graphs with random failures, cut off at random events: they visit what a small interpreter visits, and give the same."""

import copy
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flowstone.graph.document import model_in
from flowstone.graph.fates import fates
from flowstone.journal.events import Event
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.cutting import cut_copy
from support.engines import output_of, to_the_end
from support.graphs import ITEMS, Block, Reference, World, blocks_of, graph_of, program

GRAPHS = 120


def world_of(block: Block, seed: int) -> World:
    random = Random(seed)
    blocks = {one.id: one for one in blocks_of(block)}
    world = World(blocks, random)
    simple = [id for id, one in blocks.items() if one.kind in ("leaf", "all", "any", "choice", "loop")]
    world.turns = {id: random.randrange(12) for id in blocks}
    world.transient = {id: random.choice((0, 0, 0, 1, 2)) for id in simple}
    world.breaks = {id for id in simple if random.random() < 0.08}
    return world


def ended(engine: Throwaway, run_id: str) -> Any:
    """Bring a run to its end, repairing what fails."""
    while (row := to_the_end(engine, run_id)).status is Status.FAILED:
        engine.engine.retry(run_id)
    return row


def plain(output: dict[str, Any]) -> dict[str, Any]:
    return {id: "failed" if isinstance(value, dict) else value for id, value in output.items() if value is not None}


def require_as_the_reference(engine: Throwaway, row: Any, reference: Reference) -> list[Event]:
    source = engine.store.source(row.version)
    assert source is not None
    model = model_in(source.text)
    assert model is not None
    events = list(engine.events(row.id))
    assert plain(output_of(engine, row)) == reference.values
    assert Counter([*engine.ledger(row.id).operations]) == reference.steps
    skipped = {fate.node: fate.status for fate in fates(model, engine.ledger(row.id))}
    assert skipped == {id: "skipped" for id in model.nodes if id not in reference.values}
    succeeded = Counter(event.step for event in events if event.kind == "step.succeeded")
    assert {step: count for step, count in succeeded.items() if count > 1} == {}
    return events


def check(folder: Path, seed: int) -> None:
    random = Random(seed)
    block = program(random)
    reference = Reference()
    reference.walk(block)

    world = world_of(block, seed)
    (folder / "whole").mkdir(parents=True)
    engine = Throwaway(folder / "whole", graph_of(block, world))
    cuts: set[int] = set()

    def note(events: Sequence[Event]) -> None:
        cuts.update((events[0].n, events[-1].n + 1))

    engine.observers.append(note)
    try:
        run_id = engine.engine.start("random", {"items": ITEMS}).row.id
        events = require_as_the_reference(engine, ended(engine, run_id), reference)
    finally:
        engine.vanish()
    settled = {event.n for event in events if event.kind in ("run.failed", "run.completed", "run.reopened")}
    places = sorted(cut for cut in cuts if 1 < cut < len(events) and not {cut - 1, cut} & settled)
    for cut in random.sample(places, min(2, len(places))):
        cut_copy(folder / "whole", folder / f"cut{cut}", run_id, events, cut)
        again = world_of(block, seed + 1)
        again.breaks = copy.copy(world.breaks)
        other = Throwaway(folder / f"cut{cut}", graph_of(block, again))
        try:
            other.clock.move_to(events[cut - 1].at)  # type: ignore[attr-defined]
            resumed = require_as_the_reference(other, ended(other, run_id), reference)
            assert resumed[:cut] == events[:cut]
        finally:
            other.vanish()


@pytest.mark.parametrize("tenth", range(10))
def test_a_random_graph_visits_and_gives_what_the_reference_does(tmp_path: Path, tenth: int) -> None:
    for seed in range(tenth, GRAPHS, 10):
        try:
            check(tmp_path / str(seed), seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: {program(Random(seed))}"[:3000])
            raise
        shutil.rmtree(tmp_path / str(seed))
