"""The index columns of a run's row: what the journal says they must be, and what the row says. `flow doctor` compares them."""

from collections.abc import Sequence
from typing import NamedTuple

from flowstone.journal.events import Event
from flowstone.journal.facts import RunFacts
from flowstone.journal.ledger import Ledger
from flowstone.journal.states import Status
from flowstone.journal.summary import Index


class Columns(NamedTuple):
    """The columns that can be made again from the journal. `waiting` and `error` are JSON texts."""

    status: Status
    finished_at: int | None
    mail: int
    events: int
    waiting: str
    steps: int
    done: int
    current_step: str | None
    error: str | None


def columns_of(events: Sequence[Event]) -> Columns:
    """The columns as the journal has them."""
    ledger, index = Ledger(events), Index().after(events)
    return Columns(
        status=ledger.status,
        finished_at=ledger.finished_at,
        mail=ledger.mail,
        events=ledger.count,
        waiting=index.waiting(),
        steps=index.steps,
        done=index.done,
        current_step=index.current,
        error=index.error,
    )


def columns_in(row: RunFacts) -> Columns:
    """The columns as the row has them."""
    return Columns(*(getattr(row, name) for name in Columns._fields))
