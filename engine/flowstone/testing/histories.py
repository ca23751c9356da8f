"""Replaying recorded runs against today's code: for people's own tests, and for `flow check` of exported runs.

def test_old_runs_still_fit():
    for path in Path("histories").glob("*.json"):
        replay_history(path)
"""

import json
from pathlib import Path

from flowstone.authoring.definition import Policy
from flowstone.graph.files import library
from flowstone.journal.export import exported_events
from flowstone.journal.ledger import Ledger
from flowstone.running.programs import Programs
from flowstone.running.taking import replayed_body
from flowstone.settings import load


def replay_history(path: str | Path, *, workflows: str | Path | None = None) -> None:
    """Replay an exported run (`flow export RUN --format json`) to its frontier, running and writing nothing.

    `workflows` is the folder of the workflows; by default what the settings say from the working directory. Raises Diverged with
    the first difference, NotFound, LoadFailed, BadData.
    """
    document = json.loads(Path(path).read_bytes())
    events = exported_events(document)
    settings = load(Path.cwd(), flags={"dir": workflows})
    ledger = Ledger(events)
    programs = Programs(library(settings.dir, settings.root), Policy(settings.retries, settings.retry_delay))
    created = ledger.created
    program = programs.program(created["workflow"], created["input"], where="the recorded one")
    replayed_body(document["run"]["id"], ledger, program, lambda run_id, level, message: None).close()
