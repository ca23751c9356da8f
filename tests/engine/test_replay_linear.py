"""Replay is linear in a run's events: counted in events read and applied, not by the clock."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowstone import Flow, workflow
from flowstone.journal.events import Draft, Kind, body_text
from flowstone.ports import Change
from flowstone.testing.throwaway import Throwaway
from support.counting import calls_of
from support.engines import Make


async def count(number: int) -> int:
    return number + 1


@workflow
async def sequential(flow: Flow, steps: int) -> int:
    number = 0
    for _ in range(steps):
        number = await flow.do("count", count, number)
    await flow.suspend("look")
    return number


def recorded(engine: Throwaway, steps: int) -> str:
    """A run with that many finished steps in its journal, put down as a signal would; written as a pass writes it."""
    row = engine.engine.start("sequential", {"steps": steps}).row
    one = engine.run("sequential", {"steps": 1})
    started, succeeded = (event.body() for event in engine.events(one.id)[2:4])
    drafts = []
    for position in range(steps):
        key = f"count#{position}" if position else "count"
        before = None if position == 0 else "count" if position == 1 else f"count#{position - 1}"
        fields = started | {"position": position, "input": position, "predecessor": before}
        fields["digest"] = _digest(position)
        drafts.append(Draft(Kind.STEP_STARTED, key, 1, body_text(**fields)))
        drafts.append(Draft(Kind.STEP_SUCCEEDED, key, 1, body_text(**(succeeded | {"result": position + 1}))))
    engine.store.append(row.id, row.epoch, drafts, Change(release=True))
    return row.id


def _digest(value: Any) -> str:
    from flowstone.values.codec import digest

    return digest(str(value))


@pytest.fixture
def resuming(make: Make, tmp_path: Path) -> Callable[[int], Callable[[], object]]:
    """The work of taking up a run of so many steps: from opening the file to the frontier."""

    def resuming(steps: int) -> Callable[[], object]:
        run_id = recorded(make(sequential), steps)
        return lambda: make(sequential).engine.resume(run_id)

    return resuming


def test_a_run_of_many_steps_is_replayed_to_its_frontier(make: Make) -> None:
    engine = make(sequential)
    run_id = recorded(engine, 300)
    again = make(sequential)
    again.engine.resume(run_id)
    again.drive(run_id)
    assert again.kinds(run_id)[-2:] == ["gate.opened suspend:look~1", "run.suspended"]
    assert sum(kind.startswith("step.started") for kind in again.kinds(run_id)) == 300


def test_ten_times_the_steps_cost_ten_times_the_calls(resuming: Callable[[int], Callable[[], object]]) -> None:
    resuming(10)()
    few, many = calls_of(resuming(1000)), calls_of(resuming(10_000))
    assert many / few < 11, (few, many)


def test_a_replayed_step_costs_a_bounded_number_of_calls(resuming: Callable[[int], Callable[[], object]]) -> None:
    resuming(10)()
    few, many = calls_of(resuming(1000)), calls_of(resuming(2000))
    assert (many - few) / 1000 < 160, (few, many)
