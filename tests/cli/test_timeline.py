"""`flow timeline`: one honest time axis with children, undo, fan-outs; what is shown of many; points and zoom."""

import io
import json
import os
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowstone.journal.scale import scale_of
from flowstone.journal.state_at import diff_document, state_at
from flowstone.journal.timeline import busy, spans
from flowstone_cli.clean import cells
from flowstone_cli.render import state, timeline
from flowstone_cli.render.rows import MOST, most_at_once
from flowstone_cli.render.timeline import Look
from flowstone_cli.terminal import LEVELS, Stream
from support.journal_builder import MILLISECOND, SECOND, START, Journal, five_minutes
from support.order_runs import CHILD, catalog, fraud_check, lane, order, order_seen, seen

M3 = """\
✗ order_fulfilment k7f2qd  2d03h, working 1.01s  1 cut hides 2d03h  44 ms/cell
                                    0          +2d03h         +500ms       2d03h
                                    ──────────── // ──────────┬─────────────────
✓ validate                     12ms ▏            //
✓ reserve_stock               178ms █✗·██        //
✓ fraud_check                 182ms     █████    //
✓ ├─ score                    108ms     ███      //
✓ └─ decide                    68ms       ███    //
✓ quotes  3×                  120ms         ████ //
✓ ├─ quotes[0]                 90ms         ███  //
✓ ├─ quotes[1]                120ms         ████ //
✓ └─ quotes[2]                 70ms         ███  //
✓ approve: manager            2d03h             ┄//┄ ✓ ana: "within budget"
✗ charge_card                 1.23s              // ███✗·····█████✗········████✗
↶ undo reserve_stock           31ms              //                            ▒
"""
M3_ASCII = """\
x order_fulfilment k7f2qd  2d03h, working 1.01s  1 cut hides 2d03h  44 ms/cell
                                    0          +2d03h         +500ms       2d03h
                                    ------------ // ----------+-----------------
+ validate                     12ms |            //
+ reserve_stock               178ms #x.##        //
+ fraud_check                 182ms     #####    //
+ |- score                    108ms     ###      //
+ `- decide                    68ms       ###    //
+ quotes  3x                  120ms         #### //
+ |- quotes[0]                 90ms         ###  //
+ |- quotes[1]                120ms         #### //
+ `- quotes[2]                 70ms         ###  //
+ approve: manager            2d03h             ~//~ + ana: "within budget"
x charge_card                 1.23s              // ###x.....#####x........####x
< undo reserve_stock           31ms              //                            =
"""
M3_NARROW = """\
✗ order_fulfilment k7f2qd
2d03h, working 1.01s
✓ validate              12ms
✓ reserve_stock        178ms  2 tries
✓ fraud_check          182ms  → m3w8ta
✓ ├─ score             108ms
✓ └─ decide             68ms
✓ quotes  3×           120ms  parallel
✓ ├─ quotes[0]          90ms
✓ ├─ quotes[1]         120ms
✓ └─ quotes[2]          70ms
✓ approve: manager     2d03h  by ana
✗ charge_card          1.23s  3 tries
↶ undo reserve_stock    31ms
"""
M6 = """\
✗ import_catalog k7f2qd  5.10s, working 5.10s  116 ms/cell
                                    0                2.00s                 5.10s
                                    ─────────────────┬──────────────────────────
✗ fetch  200×                 5.10s ████████████████████████████████████████████
    199 succeeded  1 failed  p50 100ms  p95 100ms  max 200ms  most at once 4
✓ ├─ fetch[0000]              100ms █
✓ ├─ fetch[0008]              200ms  ███
✓ ├─ fetch[0009]              200ms  ███
✓ ├─ fetch[0010]              200ms  ███
✗ ├─ fetch[0077]              100ms                  █✗ SSLError
✓ ├─ fetch[0199]              100ms                                            █
  └─ … 194 more                     --expand 'fetch[*]'   or   --only slow
"""
M4 = """\
order_fulfilment k7f2qd   event 15 of 0..31   +0.46s   running
0 ────────────────────────●────────────────────────── 31   quotes[0] succeeded
validate · reserve_stock ✗✓ · fraud_check · quotes ▲ · approve: manager · …
2026-11-27 09:00:00Z, 5 of 6 settled, then quotes[1] succeeded
"""


def window(width=80, *, ascii_only=False, color=False):
    return Stream(io.StringIO(), "stdout", terminal=True, color=color, width=width, ascii=ascii_only)


def drawn(view, children=None, stream=None, **look):
    return timeline.people(view, spans(view.events), children or {}, stream or window(), Look(**look))


def rows(text):
    """The names of the rows that are drawn."""
    return [line[2:26].strip(" ├└─│") for line in text.splitlines() if line[:1] in "✓✗▸◆◇↻↶!⊘"][1:]


@pytest.fixture(scope="module")
def ordered():
    return order_seen()


def test_a_run_with_a_child_a_fan_out_a_gate_retries_and_an_undo(ordered):
    assert drawn(ordered.view, ordered.children) == M3
    assert drawn(ordered.view, ordered.children, window(ascii_only=True)) == M3_ASCII
    assert drawn(ordered.view, ordered.children, window(40)) == M3_NARROW


def test_a_wide_window_has_notes_reasons_and_a_legend(ordered):
    text = drawn(ordered.view, ordered.children, window(140))
    assert "█ work ✗ failed try · backoff ┄ person ▒ undo // cut" in text
    for name, note in (
        ("reserve_stock", "2 tries"),
        ("fraud_check", "→ m3w8ta"),
        ("quotes  3×", "parallel"),
        ("approve: manager", "by ana"),
        ("undo reserve_stock", "compensation"),
    ):
        assert next(line for line in text.splitlines() if name in line)[46:59].strip() == note
    assert "██✗···███ StockTimeout //" in text


@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_wider_than_any_window(ordered, ascii_only):
    folded = seen(catalog(100, failing=3).failed("fetch[0003]"))
    for width in range(20, 241):
        stream = window(width, ascii_only=ascii_only)
        for text in (
            drawn(ordered.view, ordered.children, stream),
            drawn(folded, stream=stream),
            state.people(state_at(order().row(), order().events, 15), "order", "k7f2qd", order().events, stream, pointer=True),
        ):
            for line in text.splitlines():
                assert cells(line) <= width, (width, line)
                assert line == line.rstrip()
            assert not ascii_only or text.isascii(), text
            assert "k7f2qd" in text


def test_every_cut_lies_where_nothing_runs_and_is_drawn_in_every_row(ordered):
    at = M3.splitlines()[2].index("//")
    assert {line[at : at + 2] for line in M3.splitlines()[2:]} == {"//"}


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), max_size=12),
    st.integers(20, 200),
)
@settings(max_examples=150, deadline=None)
def test_shown_and_hidden_time_are_the_total_and_columns_never_go_back(work, columns):
    intervals = []
    for start, took in sorted(work):
        if intervals and start <= intervals[-1][1]:
            intervals[-1] = (intervals[-1][0], max(intervals[-1][1], start + took))
        else:
            intervals.append((start, start + took))
    end = max([1, *(stop for _, stop in intervals)])
    scale = scale_of(intervals, 0, end, columns)
    assert scale.shown + scale.hidden == end
    assert all(stop <= cut.start or start >= cut.end for cut in scale.cuts for start, stop in intervals)
    marks = sorted({0, end, *(edge for interval in intervals for edge in interval)})
    found = [scale.column(mark) for mark in marks]
    assert found == sorted(found)
    stretches = scale.stretches()
    assert len(stretches) == columns
    assert sum(stretch is None for stretch in stretches) == 4 * len(scale.cuts)
    known = [stretch for stretch in stretches if stretch is not None]
    assert all(one[1] <= other[0] + 1 for one, other in pairwise(known))


def test_many_items_are_folded_with_what_went_wrong_the_slowest_the_first_and_the_last():
    assert drawn(seen(catalog(200, failing=77).failed("fetch[0077]"))) == M6


def test_a_folded_fan_out_shows_how_many_ran_at_once():
    journal = Journal(workflow="w").claimed()
    for number in range(80):
        journal.step(f"a[{number}]").after(SECOND)
    for number in range(80):
        journal.after(SECOND).succeeded(f"a[{number}]")
    text = drawn(seen(journal.completed()))
    signs = [char for char in text.splitlines()[3][36:] if char in LEVELS]
    heights = [LEVELS.index(char) for char in signs]
    top = heights.index(max(heights))
    assert heights[: top + 1] == sorted(heights[: top + 1])
    assert heights[top:] == sorted(heights[top:], reverse=True)
    assert (heights[0], max(heights), heights[-1]) == (0, len(LEVELS) - 1, 0)
    assert most_at_once(spans(journal.events), journal.at) == 80
    assert "most at once 80" in text


def test_what_is_folded_is_shown_when_asked_for():
    view = seen(catalog(200, failing=77).failed("fetch[0077]"))
    assert len(rows(drawn(view, everything=True))) == 201
    assert len(rows(drawn(view, expand="fetch[*]"))) == 201
    assert len(rows(drawn(view, expand="nothing"))) == 7
    assert rows(drawn(view, only="failed")) == ["fetch  1×", "fetch[0077]"]
    slow = rows(drawn(view, only="slow"))
    assert len(slow) == 21
    assert {"fetch[0008]", "fetch[0009]", "fetch[0010]", "fetch[0011]"} < set(slow)
    assert rows(drawn(view, step="fetch[00?7]")) == ["fetch  10×", *(f"fetch[00{number}7]" for number in range(10))]


def test_only_shows_attempts_that_failed_and_what_waited(ordered):
    assert rows(drawn(ordered.view, ordered.children, only="failed")) == ["reserve_stock", "charge_card"]
    assert rows(drawn(ordered.view, ordered.children, only="waiting")) == ["reserve_stock", "approve: manager", "charge_card"]
    assert rows(drawn(ordered.view, ordered.children, step="fraud_check")) == ["fraud_check", "score", "decide"]
    assert rows(drawn(ordered.view, ordered.children, step="decide")) == ["fraud_check", "decide"]


def test_a_part_of_the_time_axis(ordered):
    text = drawn(ordered.view, ordered.children, since=START + 200 * MILLISECOND, until=START + 500 * MILLISECOND)
    assert "//" not in text
    assert text.splitlines()[1].split()[0] == "200ms"
    assert text.splitlines()[1].split()[-1] == "500ms"
    assert rows(text)[0] == "fraud_check"
    assert "charge_card" not in text


def test_many_rows_of_any_kind_stay_few():
    journal = Journal(workflow="w").claimed()
    for number in range(150):
        journal.ran(f"load table {number}")
    for number in range(150):
        journal.ran("".join(chr(97 + digit) for digit in divmod(number, 26)))
    text = drawn(seen(journal.completed()))
    assert len(text.splitlines()) <= MOST + 3
    assert "load table  150×" in text
    assert "more rows: flow timeline k7f2qd --all" in text


def test_turns_of_a_loop_stand_in_their_order_and_are_no_fan_out():
    journal = Journal(workflow="w").claimed()
    for number in range(3):
        journal.ran(f"poll#{number}" if number else "poll", us=SECOND).ran(f"think#{number}" if number else "think", us=SECOND)
    assert rows(drawn(seen(journal))) == ["poll", "think", "poll#1", "think#1", "poll#2", "think#2"]


def test_a_name_that_looks_like_a_pattern_is_only_itself():
    journal = Journal(workflow="w").claimed().ran("a.b").ran("axb")
    assert rows(drawn(seen(journal), step="a.b")) == ["a.b"]
    assert rows(drawn(seen(journal), step="a?b")) == ["a.b", "axb"]


def test_a_child_of_a_child_and_a_run_that_is_its_own_child():
    top = Journal(workflow="top").claimed().step("kid", kind="child").add("child.started", "kid", 1, child="b")
    middle = Journal(workflow="middle").claimed().step("grandkid", kind="child").add("child.started", "grandkid", 1, child="c")
    bottom = Journal(workflow="bottom").claimed().step("work").step("again", kind="child")
    bottom.add("child.started", "again", 1, child="b").after(SECOND)
    view = seen(top, life="alive", now=START + SECOND)
    text = drawn(view, {"b": lane(middle, "alive"), "c": lane(bottom, "alive")})
    assert rows(text) == ["kid", "grandkid", "work", "again"]
    assert "▸   ├─ work " in text
    assert "working 1.00s" in text


def test_a_child_whose_process_is_gone_is_marked(ordered):
    gone = Journal(workflow="fraud_check", at=START + 190 * MILLISECOND).claimed().step("score")
    text = drawn(ordered.view, {CHILD: lane(gone, "dead")})
    assert "! └─ score" in text


def test_the_time_of_a_child_that_is_not_here_is_never_cut():
    journal = Journal(workflow="w").claimed().ran("a", us=SECOND).step("kid", kind="child")
    journal.add("child.started", "kid", 1, child=CHILD).after(3600 * SECOND).succeeded("kid").ran("b", us=SECOND).completed()
    assert "//" not in drawn(seen(journal))
    other = Journal(workflow="kid", at=START + SECOND).claimed().ran("work", us=SECOND).completed()
    assert "//" in drawn(seen(journal), {CHILD: lane(other)})


def test_interrupted_attempts_and_what_a_retry_put_aside():
    text = drawn(seen(five_minutes()), stream=window(color=True))
    build, _, publish = text.splitlines()[3:]
    assert "\x1b[1;33m!" in build
    assert "\x1b[2m✗" in publish
    assert rows(drawn(seen(five_minutes()), only="failed")) == ["build", "publish"]


def test_a_clock_that_was_set_back_is_said():
    assert "clock!" in drawn(seen(Journal().claimed().ran("a").after(-SECOND).ran("b").completed()))
    assert "clock!" not in M3


def test_a_point_is_shown_among_the_events_and_among_the_steps():
    journal = order()
    known = state_at(journal.row(), journal.events, 15)
    text = state.people(known, "order_fulfilment", "k7f2qd", journal.events, window(), pointer=True)
    assert text.partition("\n\n")[0] + "\n" == M4
    assert "▲" not in state.people(known, "order_fulfilment", "k7f2qd", journal.events, window())


def test_the_state_at_a_point_says_what_has_changed_since():
    journal = order()
    one, other = (state_at(journal.row(), journal.events, n) for n in (13, 16))
    text = state.changes(diff_document(one, other)["changes"], 13, window())
    assert text.splitlines()[:3] == ["", "changed since event 13", '  ~ steps["quotes[0..2]"]    "running" → "succeeded"']


# the command


def test_a_child_run_is_drawn_under_its_step(project):
    (project.root / "workflows" / "nested.py").write_text(
        "from flowstone import Flow, workflow\n"
        "def one() -> int:\n    return 1\n"
        "@workflow\nasync def inner(flow: Flow) -> int:\n    return await flow.do('deep step', one)\n"
        "@workflow\nasync def outer(flow: Flow) -> int:\n    return await flow.do('kid', inner)\n"
    )
    project.flow("run", "outer")
    text = project.terminal("timeline", "@last:outer", NO_COLOR="1").out
    assert "✓ kid " in text
    assert "✓ └─ deep step " in text


def test_a_pipe_gets_only_what_is_asked_for(shared):
    whole = shared.flow("timeline", "@last:fails").out.splitlines()
    assert shared.flow("timeline", "@last:fails", "--only", "failed").out.splitlines() == whole
    assert shared.flow("timeline", "@last:hello", "--only", "failed").out == ""
    assert shared.flow("timeline", "@last:hello", "--step", "gr*").out.count("\n") == 1
    assert shared.flow("timeline", "@last:hello", "--step", "x*").out == ""
    assert shared.flow("timeline", "@last:hello", "--to", "+0.000001s").out == ""


def test_wrong_options_are_told(shared):
    for arguments, said in (
        (("--only", "broken"), "failed, waiting, slow"),
        (("--from", "4", "--to", "2"), "is not after"),
        (("-f", "--json"), "--jsonl"),
        (("-f", "--at", "3"), "neither --at nor --to"),
    ):
        result = shared.flow("timeline", "@last:hello", *arguments)
        assert (result.code, result.out, said in result.err) == (2, "", True), result.err


def test_events_as_objects_one_per_line(shared):
    lines = shared.flow("timeline", "@last:hello", "--jsonl").out.splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["n"] for event in events] == list(range(len(events)))
    assert events == shared.flow("timeline", "@last:hello", "--json").document["events"]
    assert shared.flow("timeline", "@last:hello", "-f", "--jsonl").out.splitlines() == lines


def test_following_a_run_shows_it_until_it_ends(project, write):
    os.mkfifo(project.root / "hole")
    runner = project.start("run", "holds", "--set", f"path={project.root / 'hole'}")
    pipe = os.open(project.root / "hole", os.O_WRONLY)  # opens as soon as the step reads
    followers = [project.start("timeline", "@last", "-f", *more) for more in ((), ("--jsonl",))]
    first = followers[1].stdout.readline()
    os.close(pipe)
    lines, objects = (follower.communicate(timeout=60)[0] for follower in followers)
    runner.communicate(timeout=60)
    assert json.loads(first)["kind"] == "run.created"
    assert json.loads(objects.splitlines()[-1])["kind"] == "run.completed"
    assert [line.split("\t")[4:8] for line in lines.splitlines()] == [["step", "succeeded", "hold", "1"]]
    assert "✓ hold " in project.terminal("timeline", "@last", "-f").out


def test_the_state_command_shows_a_difference_in_each_form(shared):
    document = shared.flow("state", "@last:hello", "--at", "-1", "--diff", "1", "--json").document
    assert document["schema"] == "flow.diff/1"
    assert document["a"]["event"] == 1
    assert "changed\tadd\tresults.greet\t-\t" in shared.flow("state", "@last:hello", "--diff", "1").out
    assert "changed since event 1\n" in shared.terminal("state", "@last:hello", "--diff", "1", NO_COLOR="1").out


def test_working_time_counts_children_once():
    view, children = order_seen().view, order_seen().children
    both = busy([span for one in (spans(view.events), children[CHILD].spans) for span in one], view.now)
    assert sum(end - start for start, end in both) == 1_007_000
    assert fraud_check().row().finished_at is not None
