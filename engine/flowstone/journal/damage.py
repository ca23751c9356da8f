"""Damaged journals: which event is to blame when a fold or a drawing goes wrong. Asked only then, never on the way."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from flowstone.errors import Damaged, FlowError, NotFound
from flowstone.journal.events import Event, Kind
from flowstone.journal.ledger import Ledger
from flowstone.journal.shapes import wrong_in
from flowstone.journal.summary import Index
from flowstone.journal.timeline import spans

_DEEPEST = 10
"""Child runs of child runs that are looked at."""


class Journals(Protocol):
    """Where the journals of runs are."""

    def run(self, run_id: str) -> Any:
        """Raises NotFound if there is no such run."""
        ...

    def events(self, run_id: str) -> Sequence[Event]:
        """A run's events."""
        ...


def damage_in(events: Sequence[Event]) -> tuple[int, str] | None:
    """The number of the first event that makes no sense where it stands, and why; None if the journal is one."""
    ledger, index = Ledger(), Index()
    if not events:
        return 0, "there is none"
    for n, event in enumerate(events):
        if event.n != n:
            return n, "it is missing"
        if (n == 0) != (event.kind == Kind.RUN_CREATED):
            return n, "run.created is the first event and no other"
        wrong = wrong_in(event)
        if wrong is not None:
            return n, wrong
        try:
            ledger.apply(event)
            index = index.after([event])
        except Exception as error:  # whatever it is that the fold cannot do with it
            return n, f"it does not follow from those before it ({type(error).__name__}: {error})"
    try:
        spans(events)
    except Exception as error:
        return len(events) - 1, f"the journal up to here cannot be drawn ({type(error).__name__}: {error})"
    return None


@contextmanager
def blaming(journals: Journals, run: str) -> Iterator[None]:
    """Tell what goes wrong inside as Damaged, if the journal of the run, or of a child run of it, makes no sense.

    What goes wrong although they do stays what it is: a bug of ours.
    """
    try:
        yield
    except FlowError:
        raise
    except Exception as error:
        refuse_damaged(journals, [run], error)
        raise


def refuse_damaged(journals: Journals, runs: Sequence[str], cause: Exception | None = None) -> None:
    """Raise Damaged for the first of these runs, and of their child runs, whose journal makes no sense."""
    looked_at: set[str] = set()
    for _ in range(_DEEPEST):
        runs = [run for run in dict.fromkeys(runs) if run not in looked_at]
        looked_at.update(runs)
        children: list[str] = []
        for run in runs:
            with suppress(NotFound):  # it was deleted, or named and never made
                journals.run(run)
                events = journals.events(run)
                refuse(run, events, cause)
                children += [event.body()["child"] for event in events if event.kind == Kind.CHILD_STARTED]
        runs = children


def refuse(run: str, events: Sequence[Event], cause: Exception | None = None) -> None:
    """Raise Damaged, naming the first event that makes no sense, if the journal is not one."""
    found = damage_in(events)
    if found is not None:
        n, why = found
        kind = f" ({events[n].kind})" if n < len(events) else ""
        raise Damaged(run, f"event {n}{kind} of run {run} is damaged: {why}", hint="flow doctor") from cause
