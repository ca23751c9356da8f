"""ACCESSIBLE=1: words for signs, sentences for drawings, nothing that moves."""

import io
import json
import re
import threading
import time

import pytest

from flowstone.clock import SystemClock
from flowstone.journal.events import Event
from flowstone.journal.timeline import spans
from flowstone_cli.clean import cells
from flowstone_cli.progress import BETWEEN, Progress
from flowstone_cli.render import timeline
from flowstone_cli.render.sentences import Sentences
from flowstone_cli.render.spoken import duration
from flowstone_cli.terminal import Stream, stream
from support.order_runs import catalog, order_seen, seen

SPOKEN = """\
order_fulfilment k7f2qd: failed, took 2 days 3 hours, working 1 second 7
milliseconds.
Cut: 2 days 3 hours with nothing running.
validate: succeeded, 12 milliseconds.
reserve_stock: succeeded, 178 milliseconds, 2 tries, StockTimeout: busy.
fraud_check: succeeded, 182 milliseconds, child run m3w8ta.
score: succeeded, 108 milliseconds.
decide: succeeded, 68 milliseconds.
quotes: succeeded, 120 milliseconds, 3 beside each other.
quotes[0]: succeeded, 90 milliseconds.
quotes[1]: succeeded, 120 milliseconds.
quotes[2]: succeeded, 70 milliseconds.
approve: manager: approved, 2 days 3 hours, by ana, who said "within budget".
charge_card: failed, 1 second 230 milliseconds, 3 tries, CardDeclined: no funds.
undo reserve_stock: undone, 31 milliseconds.
"""
SIGNS = "✓✗▸◆◇↻↶⊘·█▒▏┄─│"


def spoken(width=80):
    return Stream(io.StringIO(), "stdout", terminal=True, color=False, width=width, ascii=False, spoken=True)


def test_a_timeline_is_told_in_sentences():
    made = order_seen()
    assert timeline.people(made.view, spans(made.view.events), made.children, spoken(), timeline.Look()) == SPOKEN


def test_sentences_fit_every_window():
    view = seen(catalog(100, failing=3).failed("fetch[0003]"))
    for width in range(20, 241, 5):
        text = timeline.people(view, spans(view.events), {}, spoken(width), timeline.Look())
        assert max(map(cells, text.splitlines())) <= width
        assert "not told" in text.replace("\n", " ")


@pytest.mark.parametrize(
    ("us", "said"),
    [
        (0, "less than a millisecond"), (1_000, "1 millisecond"), (100_000, "100 milliseconds"), (60_000_000, "1 minute"),
        (187_000_000, "3 minutes 7 seconds"), (183_600_000_000, "2 days 3 hours"), (86_400_000_000, "1 day"),
        (86_380_000_000, "1 day"), (59_999_900, "1 minute"), (1_230_499, "1 second 230 milliseconds"), (500, "1 millisecond"),
    ],
)  # fmt: skip
def test_durations_in_words(us, said):
    assert duration(us) == said


def test_only_a_terminal_is_spoken_to():
    assert not stream(io.StringIO(), "stdout", color="auto", env={"ACCESSIBLE": "1"}).spoken


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "@last:fails"),
        ("status", "@last:gated"),
        ("status", "@last:sleeps"),
        ("timeline", "@last:gated"),
        ("timeline", "@last:fails", "--events"),
        ("timeline", "@last:gated", "--at", "2"),
        ("runs",),
        ("doctor",),
        ("state", "@last:fails", "--diff", "0"),
        ("state", "@last:gated"),
        ("diff", "@last:fails@1", "@last:fails"),
        ("logs", "@last:hello"),
        ("watch", "@last:gated"),
        ("show", "hello"),
        ("check",),
        ("list",),
    ],
)
def test_no_sign_stands_alone(shared, arguments):
    shown = shared.terminal(*arguments, NO_COLOR="1", ACCESSIBLE="1").out
    assert not any(sign in shown for sign in SIGNS), shown
    assert "\x1b" not in shown
    piped = (shared.flow(*arguments, ACCESSIBLE="1").out, shared.flow(*arguments).out)
    assert arguments[0] == "doctor" or len({re.sub(r"\d+", "N", text) for text in piped}) == 1


def event(n, kind, step, *, at=0, attempt=1, **body):
    return Event(n, 1_795_000_000_000_000 + at, kind, step, attempt, json.dumps(body))


def test_each_change_is_a_sentence():
    sentences = Sentences()
    sentences.begin("k7f2qd9xmc4w", [])
    failure = {"error": {"type": "StockTimeout", "message": "upstream busy"}, "next_attempt_at": 1_795_000_000_140_000}
    for one in (
        event(0, "run.created", None, workflow="order"),
        event(1, "step.started", "reserve_stock", policy={"max_attempts": 3}),
        event(2, "step.failed", "reserve_stock", at=40_000, **failure),
        event(3, "step.started", "reserve_stock", at=140_000, attempt=2, policy={"max_attempts": 3}),
        event(4, "gate.opened", "approve:manager", deadline=1_795_000_000_000_000 + 3 * 86_400_000_000),
    ):
        sentences.take(one, "k7f2qd9xmc4w")
    assert sentences.said() == [
        "Run k7f2qd of order started.",
        "Step reserve_stock failed, attempt 1 of 3, retry in 100 milliseconds. StockTimeout: upstream busy.",
        "Step reserve_stock started, attempt 2 of 3.",
        "Waiting for an answer: approve: manager, expires in 3 days.",
    ]
    sentences.take(event(5, "step.succeeded", "reserve_stock", at=178_000, attempt=2), "k7f2qd9xmc4w")
    sentences.take(event(1, "step.started", "score"), "m3w8tazq0d5n")
    sentences.take(event(6, "gate.closed", "approve:manager", outcome="approved", by={"user": "ana"}), "k7f2qd9xmc4w")
    assert sentences.said() == [
        "Step reserve_stock succeeded after 38 milliseconds, attempt 2 of 3.",
        "Step score of child run m3w8ta started.",
        "approve: manager is approved by ana.",
    ]
    assert sentences.said() == []


def test_many_changes_at_once_are_counted_and_what_one_must_hear_is_said():
    sentences = Sentences()
    for number in range(100):
        sentences.take(event(number, "step.started", f"fetch[{number}]"), "")
        if number < 60:
            sentences.take(event(number, "step.succeeded", f"fetch[{number}]", at=1000), "")
    sentences.take(event(200, "step.failed", "fetch[99]", error={"type": "OSError", "message": "busy"}), "")
    assert sentences.said() == [
        "Step fetch[99] failed, attempt 1, not retried. OSError: busy.",
        "60 steps succeeded, 39 steps started.",
    ]
    assert sentences.alive(90_000_000) == (
        "Still running after 1 minute 30 seconds: fetch[60], fetch[61], fetch[62], fetch[63], fetch[64], fetch[65], 33 more."
    )


def test_a_run_on_a_terminal_that_is_read_aloud_is_told_in_sentences_and_nothing_moves(project):
    shown = project.terminal("run", "gated", ACCESSIBLE="1", NO_COLOR="1").out
    assert "Waiting for an answer: approve: manager, expires in 2 days.\n" in shown
    assert "\x1b" not in shown
    assert not any(sign in shown for sign in SIGNS)
    shown = project.terminal("run", "prints", ACCESSIBLE="1", NO_COLOR="1").out
    assert re.search(r"^Step noisy succeeded after .*\.$", shown, re.MULTILINE)
    assert "noisy: from print\n" in shown
    assert not any(sign in shown for sign in SIGNS)


def test_sentences_come_at_most_every_few_seconds():
    said, two = [], threading.Event()

    def tell(text):
        said.append((time.monotonic(), text))
        if len(said) == 2:
            two.set()

    progress = Progress(spoken(), tell, SystemClock(), quiet=False)
    progress.begin("order k7f2qd", "R", [])
    begun = time.monotonic()
    while not two.wait(0.05) and time.monotonic() < begun + 30:
        progress.observe("R", [event(0, "step.started", f"s{time.monotonic_ns()}")])
    progress.end()
    assert said[1][0] - said[0][0] >= BETWEEN - 0.1
    assert re.search(r"^\d+ steps started\.$", said[1][1], re.MULTILINE)


def test_a_run_is_told_in_labels_and_sentences(shared):
    shown = shared.terminal("status", "@last:fails", ACCESSIBLE="1", NO_COLOR="1", columns=200).out.splitlines()
    assert shown[1].startswith("failed: fails ")
    assert re.fullmatch(r"started: [-\d]+ [:\d]+Z, (less than a|\d+) \w+ ago by ana, ended [-\d]+ [:\d]+Z", shown[2])
    assert re.fullmatch(r"took: .*milliseconds?, working .*, 0 steps done", shown[3])
    assert re.fullmatch(r"break .*: failed, .*, ValueError: .*\.", shown[-1])
    shown = shared.terminal("watch", "@last:gated", ACCESSIBLE="1", NO_COLOR="1").out
    assert re.search(r"^gate: approve: manager, expires in 2 days \(.*Z\)$", shown, re.MULTILINE)
    assert re.search(r"^next: flow approve \w{6} manager$", shown, re.MULTILINE)


def test_changes_are_told_with_what_was_and_what_is(shared):
    shown = shared.terminal("diff", "@last:gated@1", "@last:gated", ACCESSIBLE="1", NO_COLOR="1").out
    assert 'phase was "running" and is "waiting".\n' in shown
    assert re.search(r'^steps\S+ is new: "waiting"\.$', shown, re.MULTILINE)
    shown = shared.terminal("diff", "@last:gated", "@last:gated@1", ACCESSIBLE="1", NO_COLOR="1").out
    assert re.search(r'^steps\S+ is gone; it was "waiting"\.$', shown, re.MULTILINE)


def test_a_check_is_its_name_and_its_verdict(shared):
    shown = shared.terminal("doctor", ACCESSIBLE="1", NO_COLOR="1").out
    assert re.search(r"^python: ok\. Python 3", shown, re.MULTILINE)
