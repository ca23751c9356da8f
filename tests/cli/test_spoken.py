"""ACCESSIBLE=1: words for signs, sentences for drawings, nothing that moves."""

import io

import pytest

from flowstone.journal.timeline import spans
from flowstone_cli.clean import cells
from flowstone_cli.render import timeline
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
    [("status", "@last:fails"), ("timeline", "@last:gated"), ("runs",), ("doctor",), ("state", "@last:fails", "--diff", "0")],
)
def test_no_sign_stands_alone(shared, arguments):
    shown = shared.terminal(*arguments, NO_COLOR="1", ACCESSIBLE="1").out
    assert not any(sign in shown for sign in SIGNS), shown
    assert "\x1b" not in shown
    assert shared.flow(*arguments, ACCESSIBLE="1").out == shared.flow(*arguments).out or arguments[0] == "doctor"
