"""Which runs a sweep takes up: decided from rows, ledgers and the instant. Bounded, and patient with runs that crash."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from flowstone.clock import MICROSECONDS
from flowstone.errors import Damaged
from flowstone.journal.damage import blaming
from flowstone.journal.ledger import Ledger
from flowstone.journal.phase import row_waits
from flowstone.journal.states import Status
from flowstone.ports import Filter, Life, Owners, RunRow, Store
from flowstone.running.children import has_ended, has_news
from flowstone.running.ownership import life_of
from flowstone.running.work import has_work

FIRST_BACKOFF = 30 * MICROSECONDS
LONGEST_BACKOFF = 600 * MICROSECONDS
PAGE = 200


def due_runs(store: Store, owners: Owners, workflows: frozenset[str], now: int, limit: int) -> list[RunRow]:
    """At most `limit` runs of these workflows that nobody executes and that would get further now, oldest change first."""
    found: list[RunRow] = []
    damaged: list[RunRow] = []
    for row in _unfinished(store):
        try:
            if row.workflow in workflows and _is_due(store, owners, row, now):
                found.append(row)
        except Damaged:  # last: whoever takes it up is told, and the others go on
            damaged.append(row)
    return [*sorted(found, key=lambda row: row.updated_at), *damaged][:limit]


class Passed(NamedTuple):
    """A run that a sweep passes over although it is interrupted or due."""

    row: RunRow
    until: int | None
    """The instant from which on a sweep takes it up; None: never, its workflow is not in this folder."""


def passed_over(store: Store, owners: Owners, workflows: frozenset[str], now: int) -> list[Passed]:
    """The runs that a sweep leaves alone and that people may expect it to take up."""
    found = []
    for row in _unfinished(store):
        if not may_be_due(owners, row, now):
            continue
        try:
            with blaming(store, row.id):
                ledger = Ledger(store.events(row.id))
                if row.workflow not in workflows:
                    if row.owner is not None or has_work(ledger, now, partial(has_news, store, now)):
                        found.append(Passed(row, None))
                elif (until := taken_up_at(ledger, row, now)) is not None:
                    found.append(Passed(row, until))
        except Damaged:  # `due_runs` has it
            continue
    return found


def _is_due(store: Store, owners: Owners, row: RunRow, now: int) -> bool:
    """Whether nobody executes it and it would get further. Raises Damaged if its journal makes no sense."""
    if not (may_be_due(owners, row, now) or _waits_for_the_dead(store, owners, row)):
        return False
    with blaming(store, row.id):
        ledger = Ledger(store.events(row.id))
        has_more = row.owner is not None or has_work(ledger, now, partial(has_news, store, now))
        return has_more and taken_up_at(ledger, row, now) is None


def _unfinished(store: Store) -> Iterator[RunRow]:
    offset = 0
    while page := store.runs(Filter(unfinished=True), limit=PAGE, offset=offset):
        yield from page
        offset += PAGE


def _waits_for_the_dead(store: Store, owners: Owners, row: RunRow) -> bool:
    """Whether it waits for a child that has ended: the child's process may have died before it told."""
    if life_of(owners, row) not in (None, Life.DEAD):
        return False
    return any(wait["kind"] == "child" and wait["child"] and has_ended(store, wait["child"]) for wait in row_waits(row))


def may_be_due(owners: Owners, row: RunRow, now: int) -> bool:
    """What the row alone tells, so that a sweep does not read the journal of every run that waits for a person."""
    if life_of(owners, row) not in (None, Life.DEAD):
        return False
    waits: list[dict[str, Any]] = row_waits(row)
    if any(wait["kind"] == "suspend" and wait["step"] is None for wait in waits) and not row.mail:
        return False  # stopped by hand: only a cancel, which is mail, goes on with it
    instants = [wait["wake_at"] or wait["deadline"] for wait in waits]
    if any(instant is not None and instant <= now for instant in instants) or row.mail:
        return True
    return row.status is Status.RUNNING and (row.owner is not None or not waits or waits[0]["kind"] == "queue")


def taken_up_at(ledger: Ledger, row: RunRow, now: int) -> int | None:
    """When a run whose process has died before and died again is taken up; None if at once. Later each time: 30 s to 10 min."""
    if not ledger.deaths or row.owner is None or now < row.updated_at:  # a clock set back: nobody knows how long it has been
        return None
    until = row.updated_at + min(FIRST_BACKOFF << min(ledger.deaths - 1, 10), LONGEST_BACKOFF)
    return until if now < until else None
