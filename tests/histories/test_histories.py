"""Recorded histories of every shape and release: today's code replays them, reads them, and goes on with the parked ones."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from flowstone.errors import BadData, Diverged
from flowstone.journal.events import Draft, Event, Kind
from flowstone.journal.export import exported_events
from flowstone.journal.ledger import Ledger
from flowstone.journal.states import SETTLED, Status, Verb
from flowstone.journal.summary import Index
from flowstone.ports import Change, NewRun
from flowstone.running.writer import summary_of
from flowstone.testing.clock import ManualClock
from flowstone.testing.histories import replay_history
from histories.record import SHAPES
from support.edits import FromFiles

HERE = Path(__file__).parent
HISTORIES = sorted(HERE.glob("*.json"))
PARKED = [path for path in HISTORIES if json.loads(path.read_bytes())["run"]["status"] in ("running", "suspended")]


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


def test_every_shape_has_been_recorded() -> None:
    assert {path.stem for path in HISTORIES} >= set(SHAPES)
    assert PARKED


@each(HISTORIES)
def test_a_history_is_replayed_by_todays_code(path: Path) -> None:
    replay_history(path, workflows=HERE / "workflows")


@each(HISTORIES)
def test_a_history_is_read_as_it_was(path: Path) -> None:
    document = json.loads(path.read_bytes())
    run, ledger = document["run"], Ledger(exported_events(document))
    assert (ledger.status.value, ledger.output, ledger.state) == (run["status"], run["output"], run["state"])
    assert {step["key"] for step in run["steps"]} == set(ledger.operations)


@each(PARKED)
def test_a_run_parked_under_another_release_goes_on(path: Path, tmp_path: Path) -> None:
    document = json.loads(path.read_bytes())
    shutil.copytree(HERE / "workflows", tmp_path / "workflows")
    events = exported_events(document)
    clock = ManualClock(events[-1].at)
    engine = FromFiles(tmp_path, clock)
    try:
        run = put_back(engine, document["run"], events)
        for _ in range(100):
            for gate in engine.ledger(run).open_gates():
                if gate.kind == "approval" and gate.answer is None:
                    engine.engine.answer(run, gate.key.removeprefix("approve:"), yes=True, by="ben")
            row = engine.store.run(run)
            row = engine.resume(run) if row.status is Status.SUSPENDED else engine.drive(run)
            if row.status in SETTLED:
                break
            clock.move("1h")
        assert row.status is Status.COMPLETED
    finally:
        engine.close()


def put_back(engine: FromFiles, run: dict[str, Any], events: list[Event]) -> str:
    """Make the run in the engine's store, as its last process has left it."""
    drafts = [Draft(Kind(event.kind), event.step, event.attempt, event.text) for event in events]
    suspended = drafts[-1:] if drafts[-1].kind is Kind.RUN_SUSPENDED else []
    first = drafts[: len(drafts) - len(suspended)]
    new = NewRun(run["id"], run["workflow"], run["version"], None, run["user"], "whoever")
    engine.store.create(new, first, summary=summary_of(Index().after(first)))
    verb = Verb.SUSPEND if suspended else None
    engine.store.append(run["id"], 1, suspended, Change(verb=verb, release=True, summary=summary_of(Index().after(drafts))))
    return str(run["id"])


def test_code_that_no_longer_fits_a_history_is_told(tmp_path: Path) -> None:
    shutil.copytree(HERE / "workflows", tmp_path / "workflows")
    file = tmp_path / "workflows" / "shapes.py"
    file.write_text(file.read_text().replace('"left", slowly', '"links", slowly'))
    with pytest.raises(Diverged, match=r'the journal has "left" .*, the code asks for "links" .* at workflows/shapes.py:'):
        replay_history(HERE / "gathered.json", workflows=tmp_path / "workflows")


def test_what_is_no_exported_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "it.json").write_text('{"schema": "flow.run/1"}')
    with pytest.raises(BadData, match="no exported run"):
        replay_history(tmp_path / "it.json")
