"""Random parallel programs, cut off at a random event and gone on with: as if nothing had happened."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flowstone import Flow, workflow
from flowstone.journal.events import Event
from flowstone.testing.throwaway import Throwaway
from support.cutting import cut_copy
from support.engines import output_of, to_the_end
from support.programs import Node, Running, program

PROGRAMS = 240
COMPLETIONS = {"step.succeeded", "step.cancelled", "gate.closed"}
ASKED = {"step.started", "sleep.started", "gate.opened"}


def body_of(node: Node) -> Callable[..., Any]:
    @workflow(name="program")
    async def body(flow: Flow) -> dict[str, Any]:
        running = Running(flow, [])
        return {"value": await running.value(node), "trace": running.trace}

    return body


def is_completion(event: Event) -> bool:
    return event.kind in COMPLETIONS or (event.kind == "step.failed" and bool(event.body()["final"]))


def whole_run(folder: Path, node: Node) -> tuple[str, list[Event], list[int], Any]:
    """Run a program to its end. Gives its id, its journal, the places where a crash can have cut it, and its output."""
    folder.mkdir(parents=True)
    engine = Throwaway(folder, body_of(node))
    cuts: set[int] = set()

    def note(events: Sequence[Event]) -> None:
        cuts.update((events[0].n, events[-1].n + 1))

    engine.observers.append(note)
    try:
        run_id = engine.engine.start("program").row.id
        row = to_the_end(engine, run_id)
        events = list(engine.events(run_id))
        return run_id, events, sorted(cut for cut in cuts if 1 < cut < len(events)), output_of(engine, row)
    finally:
        engine.vanish()


def gone_on(copy: Path, node: Node, run_id: str, now: int) -> tuple[list[Event], Any]:
    """Another process takes the run up and brings it to its end."""
    engine = Throwaway(copy, body_of(node))
    try:
        engine.clock.move_to(now)  # type: ignore[attr-defined]
        row = to_the_end(engine, run_id)
        return list(engine.events(run_id)), output_of(engine, row)
    finally:
        engine.vanish()


def check(folder: Path, seed: int) -> None:
    random = Random(seed)
    node = program(random)
    run_id, events, cuts, expected = whole_run(folder / "whole", node)
    require_one_completion_each(events)
    if not cuts:
        return
    cut = random.choice(cuts)
    cut_copy(folder / "whole", folder / "cut", run_id, events, cut)
    resumed, output = gone_on(folder / "cut", node, run_id, events[cut - 1].at)
    assert resumed[:cut] == events[:cut]
    assert output["value"] == expected["value"]
    require_one_completion_each(resumed)
    # The journal alone makes the same output again, also what depends on the order of things, and starts nothing.
    ended = next(event.n for event in resumed if event.kind == "run.completed")
    while resumed[ended - 1].kind in ("step.cancelled", "gate.closed"):
        ended -= 1
    cut_copy(folder / "cut", folder / "again", run_id, resumed, ended)
    again, repeated = gone_on(folder / "again", node, run_id, resumed[-1].at)
    assert repeated == output, (repeated["trace"], output["trace"])
    assert Counter(event.kind for event in again if event.kind in ASKED) == Counter(
        event.kind for event in resumed if event.kind in ASKED
    )


def require_one_completion_each(events: list[Event]) -> None:
    completed = Counter(event.step for event in events if is_completion(event))
    asked = {event.step for event in events if event.kind in ASKED}
    assert {step: count for step, count in completed.items() if count > 1} == {}
    assert set(completed) == asked
    ended = Counter(
        (event.step, event.attempt) for event in events if event.kind in ("step.succeeded", "step.failed", "step.interrupted")
    )
    assert {attempt: count for attempt, count in ended.items() if count > 1} == {}


@pytest.mark.parametrize("tenth", range(10))
def test_a_program_that_was_cut_off_ends_as_if_it_had_not_been(tmp_path: Path, tenth: int) -> None:
    for seed in range(tenth, PROGRAMS, 10):
        try:
            check(tmp_path / str(seed), seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: {json.dumps(str(program(Random(seed))))[:2000]}")
            raise
        shutil.rmtree(tmp_path / str(seed))
