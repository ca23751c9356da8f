"""Recorded histories of every shape and release: today's code replays them, reads them, and goes on with the parked ones."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from flowstone.errors import AlreadyAnswered, BadData, Diverged
from flowstone.journal.export import exported_events
from flowstone.journal.ledger import Ledger
from flowstone.journal.states import SETTLED, Status
from flowstone.ports import Filter
from flowstone.testing.clock import ManualClock
from flowstone.testing.histories import replay_history
from histories.record import SHAPES, put_back
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
    engine = FromFiles(tmp_path, ManualClock(document["journal"][-1]["at_us"]))
    try:
        run = put_back(engine.store, document)
        assert gone_on(engine, run) is Status.COMPLETED
    finally:
        engine.close()


def gone_on(engine: FromFiles, run: str) -> Status:
    """Answer and wake the run until it has ended."""
    for _ in range(100):
        for gate in engine.ledger(run).open_gates():
            if gate.kind == "approval" and gate.answer is None:
                with suppress(AlreadyAnswered):  # it has expired
                    engine.engine.answer(run, gate.key.removeprefix("approve:"), yes=True, by="ben")
        row = engine.store.run(run)
        row = engine.resume(run) if row.status is Status.SUSPENDED else engine.drive(run)
        if row.status in SETTLED:
            break
        engine.clock.move("1h")  # type: ignore[attr-defined]
    return row.status


@pytest.mark.parametrize("database", sorted(HERE.glob("*.db")), ids=lambda path: path.stem)
def test_b57_the_database_of_another_release_is_read_and_gone_on_with(database: Path, tmp_path: Path) -> None:
    shutil.copytree(HERE / "workflows", tmp_path / "workflows")
    shutil.copy(database, tmp_path / "flow.db")
    engine = FromFiles(tmp_path, ManualClock())
    try:
        rows = engine.store.runs(Filter())
        assert rows
        for row in rows:
            document = json.loads(next(path for path in HISTORIES if row.id in path.read_text()).read_bytes())
            assert list(engine.events(row.id))[-1].text == exported_events(document)[-1].text
            assert engine.engine.checked(row.id).refusal is None
            if row.status not in SETTLED:
                assert gone_on(engine, row.id) is Status.COMPLETED
    finally:
        engine.close()


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
