"""An undo in another workflow file is found by its name."""

import asyncio
from pathlib import Path

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


def test_an_undo_that_stands_in_a_sibling_file_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "stock.py").write_text(STOCK)
    (folder / "shop.py").write_text(SHOP)
    clock = SystemClock()
    store = SqliteStore(tmp_path / "flow.db", clock, mode="create")
    owners = OwnerFiles(store.path)
    engine = Engine(store, owners, Library(folder, tmp_path), clock, load(tmp_path, flags={}, env={}))
    started = engine.start("sell", {"ledger": str(tmp_path / "ledger")})
    row = asyncio.run(engine.drive(started.row.id))
    assert row.status == "failed"
    assert (tmp_path / "ledger").read_text() == "reserved released"
    store.close()
    owners.retire()
