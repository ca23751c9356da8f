"""What the tests of the engine are given: throw-away engines on one database, and how a run is brought to its end."""

from collections.abc import Callable
from typing import Any

from flowstone.journal.states import SETTLED, Status
from flowstone.ports import RunRow
from flowstone.testing.clock import ManualClock
from flowstone.testing.throwaway import Throwaway

Make = Callable[..., Throwaway]
"""Makes an engine on the test's database; a second one on it is what another process would be."""


def output(engine: Throwaway, body: Callable[..., Any], data: Any = None) -> Any:
    """What a workflow returns for an input; fails the test if it does not complete."""
    row = engine.run(body.__name__, data)
    return output_of(engine, row)


def output_of(engine: Throwaway, row: RunRow) -> Any:
    """The output of a completed run."""
    ledger = engine.ledger(row.id)
    assert ledger.status is Status.COMPLETED, ledger.error or ledger.suspension
    return ledger.output


def failure(engine: Throwaway, body: Callable[..., Any], data: Any = None) -> dict[str, Any]:
    """The error of a run that fails."""
    row = engine.run(body.__name__, data)
    assert row.status is Status.FAILED, engine.kinds(row.id)
    error = engine.ledger(row.id).error
    assert error is not None
    return error


def to_the_end(engine: Throwaway, run_id: str) -> RunRow:
    """Drive a run to its end, moving the clock over its sleeps and retries."""
    assert isinstance(engine.clock, ManualClock)
    for _ in range(200):
        row = engine.drive(run_id)
        if row.status in SETTLED:
            return row
        engine.clock.move("1h")
    raise AssertionError(f"run {run_id} does not end: {engine.kinds(run_id)}")
