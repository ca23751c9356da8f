"""The state at every event is the fold of the first events, and neighbours differ exactly if the event changes something."""

from itertools import pairwise

import pytest

from flowstone.journal.ledger import Ledger
from flowstone.journal.state_at import KNOWN, diff_document, state_at
from support.journal_builder import Journal, five_minutes
from support.order_runs import catalog, fraud_check, order

JOURNALS = {"order": order, "child": fraud_check, "five minutes": five_minutes, "catalog": lambda: catalog(12, failing=3)}
SILENT = {"run.claimed", "run.interrupted", "step.interrupted", "run.resumed", "gate.answered", "child.started", "run.created"}
"""What may leave everything that a state shows as it was: it says who works, or is mail that nobody has read."""


@pytest.mark.parametrize("make", JOURNALS.values(), ids=JOURNALS)
def test_the_state_at_an_event_needs_no_later_one(make):
    journal: Journal = make()
    row = journal.row()
    for n in range(len(journal.events)):
        cut = journal.events[: n + 1]
        known = state_at(row, journal.events, n)
        assert known == state_at(row, cut, n)
        assert known["status"] == Ledger(cut).status.value
        assert known["path"] == list(Ledger(cut).operations)


@pytest.mark.parametrize("make", JOURNALS.values(), ids=JOURNALS)
def test_neighbours_differ_exactly_if_the_event_changes_something(make):
    journal: Journal = make()
    row = journal.row()
    states = [state_at(row, journal.events, n) for n in range(len(journal.events))]
    for n, (one, other) in enumerate(pairwise(states), 1):
        changes = diff_document(one, other)["changes"]
        assert bool(changes) == any(one[name] != other[name] for name in KNOWN), journal.events[n]
        assert changes or journal.events[n].kind in SILENT, journal.events[n]
