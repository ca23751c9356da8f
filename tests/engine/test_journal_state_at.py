"""State at a point, and what changed between two."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowstone.errors import NotFound, UsageError
from flowstone.journal.paths import parse_path, path_text, value_at
from flowstone.journal.state_at import changes, diff_document, state_at
from support.journal_builder import SECOND, Journal, five_minutes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False, width=16) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def at(journal, n):
    return state_at(journal.row(), journal.events, n)


def test_the_state_at_the_gate_of_the_five_minutes_session():
    found = at(five_minutes(), 9)
    assert list(found) == [
        "schema",
        "run",
        "event",
        "at",
        "status",
        "phase",
        "input",
        "steps",
        "results",
        "state",
        "path",
        "waiting",
    ]
    assert (found["status"], found["phase"], found["input"]) == ("suspended", "waiting", {"version": "1.4"})
    assert found["results"] == {"build": "app.txt"}
    assert found["steps"] == {"build": "succeeded", "approve:publish": "waiting"}
    assert found["path"] == ["build", "approve:publish"]
    assert [wait["reason"] for wait in found["waiting"]] == ["publish"]
    assert found["at"] == "2026-11-27T09:00:15.000Z"


def test_an_answered_gate_is_a_result_with_who_gave_it():
    assert at(five_minutes(), 12)["results"] == {"build": "app.txt"}  # mail is not told to the body
    outcome = {"outcome": "approved", "data": None, "by": "ana"}
    assert at(five_minutes(), 13)["results"] == {"build": "app.txt", "approve:publish": outcome}


@given(st.integers(0, 21))
def test_the_state_at_a_point_needs_no_later_event(n):
    journal = five_minutes()
    assert at(journal, n) == state_at(journal.row(), journal.events[: n + 1], n)


def test_a_run_is_interrupted_from_the_event_on_that_says_so():
    assert [at(five_minutes(), n)["phase"] for n in (2, 3, 4)] == ["running", "interrupted", "running"]


def test_values_that_the_body_set_are_there_from_their_event_on():
    journal = Journal().claimed().state("region", "eu").state("region", "us", "state:region#1").sleep("nap", SECOND)
    assert [at(journal, n)["state"] for n in (1, 2, 3)] == [{}, {"region": "eu"}, {"region": "us"}]
    assert at(journal, 4)["results"] == {}


def test_a_point_that_the_run_does_not_have_is_not_found():
    with pytest.raises(NotFound, match="it has 0 to 21"):
        at(five_minutes(), 22)


def test_a_diff_names_the_two_points_and_what_changed_between_them():
    journal = five_minutes()
    found = diff_document(at(journal, 6), at(journal, 7))
    assert found == {
        "schema": "flow.diff/1",
        "a": {"run": "k7f2qd9xmc4w", "event": 6},
        "b": {"run": "k7f2qd9xmc4w", "event": 7},
        "changes": [
            {"op": "replace", "path": "steps.build", "before": "running", "after": "succeeded"},
            {"op": "add", "path": "results.build", "before": None, "after": "app.txt"},
        ],
    }


def test_a_state_does_not_differ_from_itself():
    assert diff_document(at(five_minutes(), 9), at(five_minutes(), 9))["changes"] == []


def test_values_of_different_types_are_different():
    assert [change["op"] for change in changes([1, 0, None], [True, 0.0, {}])] == ["replace"] * 3


@given(VALUES, VALUES)
def test_changes_turn_one_value_into_the_other(a, b):
    value = {"root": copy.deepcopy(a)}
    found = changes({"root": a}, {"root": b})
    removals = [change for change in found if change["op"] == "remove"]
    for change in [change for change in found if change["op"] != "remove"] + removals[::-1]:  # lists shrink from the back
        *parents, last = parse_path(change["path"])
        holder = value
        for part in parents:
            holder = holder[part]
        if change["op"] == "remove":
            del holder[last]
        elif change["op"] == "add" and isinstance(holder, list):
            holder.append(change["after"])
        else:
            holder[last] = change["after"]
    assert json.dumps(value["root"], sort_keys=True) == json.dumps(b, sort_keys=True)


@given(st.lists(st.text(min_size=0, max_size=5) | st.integers(0, 99), max_size=5))
def test_a_path_as_text_reads_back(parts):
    if (parts and parts[0] in ("", "$")) or (parts and isinstance(parts[0], str) and parts[0].startswith("$")):
        return  # a leading $ stands for the whole value
    assert parse_path(path_text(parts)) == parts


def test_a_value_is_found_by_its_path():
    value = {"results": {"charge card": {"items": [1, {"a.b": 2}]}}}
    assert value_at(value, 'results["charge card"].items[1]["a.b"]') == 2
    assert value_at(value, "$.results") == value["results"]
    assert value_at(value, "") is value
    with pytest.raises(NotFound, match=r"nothing at results\.x") as caught:
        value_at(value, "results.x.y")
    assert caught.value.details == ('results["charge card"]',)
    with pytest.raises(UsageError, match="cannot be read"):
        value_at(value, "results[")
