"""A project whose workflow file is edited under its runs: engines that load it as it is now, and what the database holds."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flowstone.engine import Engine
from flowstone.graph.files import library
from flowstone.settings import load
from flowstone.testing.clock import ManualClock
from flowstone.testing.throwaway import Throwaway


class FromFiles(Throwaway):
    """An engine on the workflows of a folder, as another process would load them now."""

    def __init__(self, root: Path, clock: ManualClock) -> None:
        super().__init__(root, clock=clock)
        folder = root / "workflows"
        self.engine = Engine(
            self.store, self.owners, library(folder, root), clock, load(root, flags={}, env={}), observe=self._observe
        )


@dataclass
class Edits:
    """One workflow file, its first text, and the engines made so far."""

    root: Path
    source: str
    clock: ManualClock = field(default_factory=ManualClock)
    made: list[FromFiles] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.root / "workflows").mkdir()
        self.write(self.source)

    @property
    def file(self) -> Path:
        """The workflow file."""
        return self.root / "workflows" / "work.py"

    def write(self, source: str) -> None:
        """Save the file."""
        self.file.write_text(source)

    def edit(self, *changes: tuple[str, str]) -> None:
        """Save the first text with these replacements, each of a piece that is there once."""
        text = self.source
        for before, after in changes:
            assert text.count(before) == 1, (before, text.count(before))
            text = text.replace(before, after)
        self.write(text)

    def engine(self) -> FromFiles:
        """Another process, which loads the file as it is now."""
        self.made.append(FromFiles(self.root, self.clock))
        return self.made[-1]

    def line_of(self, piece: str) -> int:
        """The line of the file on which a piece stands."""
        return self.file.read_text().partition(piece)[0].count("\n") + 1

    def rows(self) -> list[list[tuple[Any, ...]]]:
        """All that the database holds of runs, journals and sources."""
        with closing(sqlite3.connect(f"file:{self.root / 'flow.db'}?mode=ro", uri=True)) as database:
            tables = ("runs", "journal", "versions", "audit", "log")
            return [database.execute(f"select * from {table} order by rowid").fetchall() for table in tables]

    def close(self) -> None:
        """Close the engines."""
        for engine in self.made:
            engine.close()
