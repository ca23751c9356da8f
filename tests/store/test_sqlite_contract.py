"""The contract of all stores, on SQLite."""

from pathlib import Path

import pytest

from flowstone.storage.sqlite.store import SqliteStore
from flowstone.testing.store_contract import StoreContract
from flowstone.testing.store_fixtures import Opened, SetClock


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def opened(self, path: Path) -> Opened:
        def opened(clock: SetClock) -> SqliteStore:
            return SqliteStore(path, clock, mode="create")

        return opened
