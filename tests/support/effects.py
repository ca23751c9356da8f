"""Steps whose effects are listed, some of them broken, their undos and handlers; and a process that is gone at an event."""

import asyncio
from typing import Any

import pytest

from flowstone import Done, Failed
from flowstone.testing.throwaway import Throwaway

EFFECTS: list[str] = []
"""What was done in this test, in order."""
BROKEN: set[str] = set()
"""What raises when it is done."""


def forget() -> None:
    """Nothing has been done, nothing is broken."""
    EFFECTS.clear()
    BROKEN.clear()


async def work(name: str, turns: int = 0) -> str:
    """Takes some turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    EFFECTS.append(name)
    if name in BROKEN:
        raise ValueError(f"{name} does not work")
    return name.upper()


async def endless(name: str) -> None:
    """Never ends by itself."""
    EFFECTS.append(name)
    await asyncio.Event().wait()


def unwork(done: Done[Any, Any, Any]) -> None:
    """Undoes `work`."""
    EFFECTS.append(f"un{done.args[0]}")
    if f"un{done.args[0]}" in BROKEN:
        raise ValueError(f"un{done.args[0]} does not work")


def unwork_outcome(done: Done[Any, Any]) -> None:
    """Notes all that an undo is given."""
    EFFECTS.append(f"{done.outcome} {done.args} {done.result}")


def tell(failed: Failed[str]) -> None:
    """Handles a failure."""
    EFFECTS.append(f"told {failed.args[0]} {failed.step} {type(failed.error).__name__}")
    if "tell" in BROKEN:
        raise ValueError("nobody listens")


def die_at(engine: Throwaway, run_id: str, event: str) -> None:
    """Drive until that event is in the journal; there the process is gone."""

    def die(_: Any) -> None:
        if event in engine.kinds(run_id):
            raise MemoryError

    engine.observers.append(die)
    with pytest.raises(MemoryError):
        engine.drive(run_id)
    engine.vanish()
