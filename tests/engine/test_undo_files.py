"""Which function an undo is, when workflow files have several of one name: the one that the author gave."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowstone.authoring.loader import Library
from flowstone.clock import SystemClock
from flowstone.engine import Engine
from flowstone.settings import load
from flowstone.storage.sqlite.owners import OwnerFiles
from flowstone.storage.sqlite.store import SqliteStore

STOCK = """
from pathlib import Path

def reserve(ledger: str) -> str:
    with Path(ledger).open("a") as file:
        file.write("reserved ")
    return ledger

def release(done) -> None:
    with Path(done.result).open("a") as file:
        file.write("released")
"""
SHOP = """
from flowstone import Flow, workflow
from . import stock

def fail() -> None:
    raise ValueError("no")

@workflow
async def sell(flow: Flow, ledger: str) -> None:
    await flow.do("reserve", stock.reserve, ledger, undo=stock.release)
    await flow.do("fail", fail)
"""


OTHERS = """
from pathlib import Path
from flowstone import step

def note(path: str, word: str) -> None:
    with Path(path).open("a") as file:
        file.write(word + " ")

@step
def release(done) -> None:
    note(done.args[0], "step of others")

@step(name="take back")
def put_back(done) -> None:
    note(done.args[0], "take back of others")

def plain(done) -> None:
    note(done.args[0], "plain of others")
"""
MINE = """
from flowstone import Flow, step, workflow
from . import others
from .others import note

def reserve(path: str) -> int:
    return 1

def charge(path: list[str]) -> int:
    return 1

def fail() -> None:
    raise ValueError("no")

{mark}
def release(done) -> None:
    note(done.args[0], "my release")

@step(name="take back")
def again(done) -> None:
    note(done.args[0], "my take back")

def plain(done) -> None:
    note(done.args[0], "my plain")

@workflow
async def mine(flow: Flow, path: str) -> None:
    await flow.do("reserve", reserve, path, undo={undo})
    await flow.do("fail", fail)
"""


@pytest.mark.parametrize("mark", ["", "@step"], ids=["plain function", "registered step"])
@pytest.mark.parametrize(
    ("undo", "word"),
    [
        ("release", "my release"),
        ("again", "my take back"),
        ("plain", "my plain"),
        ("others.release", "step of others"),
        ("others.put_back", "take back of others"),
        ("others.plain", "plain of others"),
    ],
)
def test_the_undo_that_was_given_runs_and_none_of_its_namesakes(tmp_path: Path, mark: str, undo: str, word: str) -> None:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "others.py").write_text(OTHERS)
    (folder / "mine.py").write_text(MINE.format(mark=mark, undo=undo))
    with engine_of(folder) as engine:
        started = engine.start("mine", {"path": str(tmp_path / "ledger")})
        assert asyncio.run(engine.drive(started.row.id)).status == "failed"
    assert (tmp_path / "ledger").read_text() == word + " "


def test_the_annotations_of_a_namesake_do_not_decide_how_an_undo_reads_its_arguments(tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "order.py").write_text("from flowstone import step\n\n@step\ndef charge(item: int) -> int:\n    return item\n")
    mine = MINE.format(mark="", undo="release").replace("reserve, path", "charge, [path, path]").replace("args[0]", "args[0][1]")
    (folder / "others.py").write_text(OTHERS)
    (folder / "mine.py").write_text(mine)
    with engine_of(folder) as engine:
        started = engine.start("mine", {"path": str(tmp_path / "ledger")})
        assert asyncio.run(engine.drive(started.row.id)).status == "failed"
    assert (tmp_path / "ledger").read_text() == "my release "


def test_an_undo_that_stands_in_a_sibling_file_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "stock.py").write_text(STOCK)
    (folder / "shop.py").write_text(SHOP)
    with engine_of(folder) as engine:
        started = engine.start("sell", {"ledger": str(tmp_path / "ledger")})
        assert asyncio.run(engine.drive(started.row.id)).status == "failed"
    assert (tmp_path / "ledger").read_text() == "reserved released"


def test_a_file_that_was_renamed_meanwhile_still_has_its_undo(tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "others.py").write_text(OTHERS)
    body = MINE.format(mark="", undo="plain").replace('await flow.do("fail", fail)', 'await flow.suspend("wait")\n    fail()')
    (folder / "mine.py").write_text(body)
    with engine_of(folder) as engine:
        run = engine.start("mine", {"path": str(tmp_path / "ledger")}).row.id
        assert asyncio.run(engine.drive(run)).status == "suspended"
    (folder / "mine.py").rename(folder / "renamed.py")
    with engine_of(folder) as engine:
        engine.resume(run)
        assert asyncio.run(engine.drive(run)).status == "failed"
    assert (tmp_path / "ledger").read_text() == "my plain "


@contextmanager
def engine_of(folder: Path) -> Iterator[Engine]:
    """An engine over the files of a folder."""
    root, clock = folder.parent, SystemClock()
    store = SqliteStore(root / "flow.db", clock, mode="create")
    owners = OwnerFiles(store.path)
    yield Engine(store, owners, Library(folder, root), clock, load(root, flags={}, env={}))
    store.close()
    owners.retire()
