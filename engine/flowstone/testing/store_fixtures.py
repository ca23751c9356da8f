"""What the contract of stores is told with: a clock, drafts, runs, and the stores under test."""

from collections.abc import Callable, Iterator

import pytest

from flowstone.journal.events import Draft, Kind
from flowstone.journal.states import TRANSITIONS, Status
from flowstone.ports import AuditNote, Change, Filter, NewRun, RunRow, Store

START = 1_700_000_000_000_000
BY_HAND = AuditNote(action="approve", by='{"user":"ann"}')
CREATED = Draft(Kind.RUN_CREATED, text='{"input":{"größe":1}}')
STARTED = Draft(Kind.STEP_STARTED, "charge card", 1, '{"kind":"do"}')
SUCCEEDED = Draft(Kind.STEP_SUCCEEDED, "charge card", 1, '{"result":1}')
OPENED = Draft(Kind.GATE_OPENED, "approve:large order", 1, '{"round":1}')
ANSWERED = Draft(Kind.GATE_ANSWERED, "approve:large order", 1, '{"decision":"approved"}')


class SetClock:
    """A clock that stands still until `at` is set."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> int:
        """The instant that was set, in microseconds UTC."""
        return self.at

    async def wait(self, until: int) -> None:
        """Return at once."""


Opened = Callable[[SetClock], Store]
"""Opens the test's store; each call gives another connection to the same runs."""


def new_run(run_id: str = "a00000000000", *, owner: str | None = "me", key: str | None = None, workflow: str = "shop") -> NewRun:
    """A run to create."""
    return NewRun(id=run_id, workflow=workflow, version="v1", key=key, user="ann", owner=owner)


def listed(store: Store, wanted: Filter, *, limit: int | None = None, offset: int = 0) -> list[str]:
    """Ids of the runs that fit."""
    return [row.id for row in store.runs(wanted, limit=limit, offset=offset)]


def brought_to(store: Store, run: RunRow, status: Status) -> RunRow:
    """The run after legal transitions to `status`."""
    for verb, (sources, target) in TRANSITIONS.items():
        if target is status and run.status in sources and run.status is not status:
            store.append(run.id, run.epoch, [], Change(verb=verb))
            break
    return store.run(run.id)


class Fixtures:
    """What the tests below are given."""

    @pytest.fixture
    def clock(self) -> SetClock:
        """The store's clock."""
        return SetClock()

    @pytest.fixture
    def store(self, opened: Opened, clock: SetClock) -> Iterator[Store]:
        """An empty store."""
        store = opened(clock)
        yield store
        store.close()

    @pytest.fixture
    def other(self, opened: Opened, clock: SetClock) -> Iterator[Store]:
        """Another connection to the same runs."""
        other = opened(clock)
        yield other
        other.close()
