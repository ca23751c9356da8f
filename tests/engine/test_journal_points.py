"""Points of a run as people name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowstone.clock import to_rfc3339
from flowstone.errors import NotFound, UsageError
from flowstone.journal.points import event_number
from support.journal_builder import SECOND, Journal, five_minutes


def point(text, journal=None):
    return event_number(text, (journal or five_minutes()).events, "k7f2qd")


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("0", 0), ("9", 9), ("-1", 21), ("-22", 0),
        ("+0s", 2), ("+15s", 9), ("+15.0s", 9), ("+1m02s", 21), ("+3d", 21), ("+1500ms", 2),
        ("2026-11-27T09:00:15Z", 9), ("2026-11-27T10:00:15.000+01:00", 9), ("2030-01-01T00:00Z", 21),
        ("build", 7), ("build~1", 5), ("build~2", 7), ("before:build", 1), ("before:build~2", 5),
        ("publish", 20), ("publish~1", 15), ("before:publish", 13),
        ("approve:publish", 13), ("approve: publish", 13),
    ],
)  # fmt: skip
def test_a_point_names_one_event(text, n):
    assert point(text) == n


@pytest.mark.parametrize("text", ["22", "-23", "2026-11-27T08:59:59Z", "bild", "build~3", "before:nothing"])
def test_a_point_that_the_run_does_not_have_is_not_found_and_says_where_to_look(text):
    with pytest.raises(NotFound) as caught:
        point(text)
    assert caught.value.hint.startswith("flow timeline k7f2qd")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("+5", "+5s or +5ms"),
        ("+soon", "+1.5s"),
        ("2026-11-27T09:00", "Z for UTC"),
        ("2026-11-27Tx", "08:56:40Z"),
        ("", "--events"),
    ],
)
def test_what_names_no_point_is_refused_with_the_cure(text, hint):
    with pytest.raises(UsageError) as caught:
        point(text)
    assert hint in caught.value.hint


def test_a_step_that_has_not_ended_has_no_point_yet():
    with pytest.raises(NotFound, match=r"build has not ended: it is running since event 2, \+0\.00s"):
        point("build", Journal().claimed().step("build"))


def test_a_near_miss_is_suggested():
    with pytest.raises(NotFound, match="did you mean build"):
        point("bild")


def test_a_name_that_several_steps_have_asks_for_the_key():
    journal = Journal().claimed().ran("[1]/fetch").ran("[2]/fetch")
    journal.events = [event._replace(text=event.text.replace('"name": "[1]/', '"name": "').replace('"name": "[2]/', '"name": "'))
                      for event in journal.events]  # fmt: skip
    assert point("[1]/fetch", journal) == 3
    with pytest.raises(NotFound, match="names 2 steps") as caught:
        point("fetch", journal)
    assert caught.value.details == ("[1]/fetch", "[2]/fetch")


def test_a_step_named_like_a_number_is_reached_by_its_attempt():
    assert point("12~1", Journal().claimed().ran("12")) == 3


@given(st.integers(0, 21), st.integers(0, 999_999))
def test_an_instant_as_we_print_it_finds_its_event(n, shift):
    events = [event._replace(at=event.at + shift) for event in five_minutes().events]
    found = event_number(to_rfc3339(events[n].at), events, "k7f2qd")
    assert found >= n
    assert events[found].at - events[n].at < SECOND // 1000
