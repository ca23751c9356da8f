"""The phase of a run, by its row, its owner's life and what it waits for."""

import json

import pytest

from flowstone.journal.phase import Phase, phase_of
from support.journal_builder import SECOND, Journal, Row


def phases(journal, **row):
    return phase_of(journal.row(**row), None)


@pytest.mark.parametrize(("life", "phase"), [("alive", Phase.RUNNING), ("unknown", Phase.RUNNING), ("dead", Phase.INTERRUPTED)])
def test_a_run_is_interrupted_only_on_proof_that_its_owner_is_dead(life, phase):
    assert phase_of(Journal().claimed().step("build").row(), life) is phase


@pytest.mark.parametrize("life", ["alive", "unknown", "dead", None])
def test_a_run_that_has_ended_is_what_its_status_says(life):
    assert phase_of(Journal().claimed().completed().row(), life) is Phase.COMPLETED
    assert phase_of(Journal().claimed().failed().row(), life) is Phase.FAILED
    assert phase_of(Journal().claimed().cancelled().row(), life) is Phase.CANCELLED


def test_a_suspended_run_waits():
    assert phases(Journal().claimed().gate("publish").suspended()) is Phase.WAITING
    assert phases(Journal().claimed().suspended("STOPPED")) is Phase.WAITING


def test_a_run_without_owner_is_named_after_the_timer_that_is_due_first():
    parked = Journal().claimed().step("a").step_failed("a", next_in=5 * SECOND).sleep("nap", 9 * SECOND)
    assert phases(parked, owner=None) is Phase.RETRYING
    parked = Journal().claimed().step("a").step_failed("a", next_in=5 * SECOND).sleep("nap", 2 * SECOND)
    assert phases(parked, owner=None) is Phase.SLEEPING


def test_a_run_without_owner_that_needs_a_person_waits_whatever_timers_run():
    assert phases(Journal().claimed().sleep("nap", SECOND).gate("publish"), owner=None) is Phase.WAITING


def test_a_run_without_owner_and_without_waits_is_interrupted():
    assert phases(Journal().claimed().step("build").interrupted("SIGTERM")) is Phase.INTERRUPTED


def test_a_run_whose_owner_compensates_is_undoing():
    undoing = Journal().claimed().ran("charge card").step("charge card:undo")
    assert phase_of(undoing.row(), "alive") is Phase.UNDOING
    assert phase_of(undoing.row(), "dead") is Phase.INTERRUPTED


def test_the_waits_of_another_release_are_read_too():
    row = Row(waiting=json.dumps([{"kind": "queue", "wake_at": None}]))
    assert phase_of(row, None) is Phase.WAITING
