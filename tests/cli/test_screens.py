"""The drawings M2 to M6 on a real terminal, compared line by line with screens.txt. `FLOW_STORE_TEXT=1` writes it anew."""

import os
import re
from pathlib import Path

import pytest

from flowstone_cli.clean import cells
from support.journal_builder import SECOND, Journal
from support.order_runs import CHILD, catalog, fraud_check, order
from support.recorded import record
from support.screens import Screen, needs_tmux

STORED = Path(__file__).with_name("screens.txt")
ORDER, WAITING, CATALOG, NAP = "k7f2qd9xmc4w", "q4t9hzm2c8rd", "p4x9nev5w0ba", "b7w2kkq8y3sm"
COMMANDS = (
    (80, f"flow status {ORDER}"),
    (80, f"flow timeline {ORDER}"),
    (140, f"flow timeline {ORDER}"),
    (80, f"FLOW_ASCII=1 flow timeline {ORDER}"),
    (40, f"flow timeline {ORDER}"),
    (80, f"flow timeline {ORDER} --at 15"),
    (80, f"flow state {ORDER} --at 15 --diff 12"),
    (80, "flow runs"),
    (140, "flow runs"),
    (40, "flow runs"),
    (80, f"flow timeline {CATALOG}"),
    (80, f"flow timeline {CATALOG} --only failed"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("screens")
    database = folder / ".flow" / "flow.db"
    record(database, ORDER, order(), key="A-1001")
    record(database, CHILD, fraud_check(), parent=(ORDER, "fraud_check"))
    record(database, CATALOG, catalog(200, failing=77).failed("fetch[0077]", "SSLError", "handshake"))
    waiting = Journal({"order_id": "A-1007"}, workflow="order_fulfilment").claimed().ran("validate").gate("manager")
    record(database, WAITING, waiting.suspended(gates=("approve:manager",), reasons=("manager",)), key="A-1007")
    record(database, NAP, Journal(workflow="weekly_report").claimed().ran("collect", us=SECOND).sleep("cool off", 10**15))
    return folder


def masked(text: str) -> str:
    """Without what depends on today."""
    text = re.sub(r" *\b\d+[a-z]+ ago", " AGO", text)
    text = re.sub(r"due in \S+", "due DUE", text)
    return re.sub(r"(?<=\S) +", " ", text) if text.startswith("   ID") else text  # ages make the columns wide or narrow


@needs_tmux
def test_the_drawings_are_those_that_are_stored(folder):
    screen = Screen(folder, columns=80, rows=60)
    made = []
    try:
        for columns, command in COMMANDS:
            screen.resize_at_prompt(columns, 60)
            shown = masked(screen.run(command))
            assert max(map(cells, shown.splitlines())) <= columns
            made += [f"$ {command}    # {columns} columns", *shown.splitlines(), ""]
    finally:
        screen.close()
    if os.environ.get("FLOW_STORE_TEXT"):
        STORED.write_text("\n".join(made))
    assert made == STORED.read_text().split("\n")[: len(made)]
