"""An engine on a database of its own, for tests: workflows are given as functions, time is moved by hand."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flowstone.authoring.definition import WorkflowDefinition, definition_of
from flowstone.clock import Clock
from flowstone.engine import Engine
from flowstone.errors import NotFound
from flowstone.journal.events import Event
from flowstone.journal.ledger import Ledger
from flowstone.journal.plan import Plan
from flowstone.journal.versions import Version
from flowstone.ports import RunRow
from flowstone.settings import load
from flowstone.storage.sqlite.owners import OwnerFiles
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.testing.clock import ManualClock


class Functions:
    """A library of workflows and steps given as functions."""

    def __init__(self, *functions: Callable[..., Any], version: str = "1") -> None:
        self._version = version
        self._found = {}
        for function in functions:
            definition = definition_of(function)
            assert definition is not None, f"{function} is neither a workflow nor a step"
            self._found[definition.name] = function

    def load(self, name: str) -> Any:
        """The workflow of that name. Raises NotFound."""
        if name not in self._found or not isinstance(definition_of(self._found[name]), WorkflowDefinition):
            raise NotFound(f'there is no workflow "{name}"')
        return self._found[name]

    def step(self, name: str) -> Any:
        """The step of that name. Raises NotFound."""
        if name not in self._found:
            raise NotFound(f'there is no step "{name}"')
        return self._found[name]

    def require_single_steps(self, name: str) -> None:
        """Nothing: each name was given once."""

    def version(self, name: str) -> Version:
        """The version that was given, for every workflow; a graph has its own."""
        definition = definition_of(self._found.get(name))
        if isinstance(definition, WorkflowDefinition) and definition.version is not None:
            return definition.version
        return Version(f"{self._version}:{name}", "")

    def plan(self, name: str) -> Plan:
        """Nothing: the functions of a test are not read."""
        definition = definition_of(self._found.get(name))
        planned = definition.plan if isinstance(definition, WorkflowDefinition) else None
        return planned or Plan(name, ())

    def names(self) -> frozenset[str]:
        """The names of the workflows."""
        return frozenset(name for name, found in self._found.items() if isinstance(definition_of(found), WorkflowDefinition))


class Throwaway:
    """Engine, store and clock in `folder`. A new one on the same folder is what another process would be."""

    def __init__(self, folder: Path, *functions: Callable[..., Any], clock: Clock | None = None, version: str = "1") -> None:
        self.folder = folder
        self.clock = clock or ManualClock()
        self.store = SqliteStore(folder / "flow.db", self.clock, mode="create")
        self.owners = OwnerFiles(self.store.path)
        self.seen: list[Event] = []
        self.observers: list[Callable[[Sequence[Event]], None]] = [self.seen.extend]
        """Told about events once they have landed, before the pass goes on."""
        self.engine = Engine(
            self.store,
            self.owners,
            Functions(*functions, version=version),
            self.clock,
            load(folder, flags={}, env={}),
            observe=self._observe,
        )

    def _observe(self, _run: str, events: Sequence[Event]) -> None:
        for observer in self.observers:
            observer(events)

    def run(self, workflow: str, data: Any = None, **options: Any) -> RunRow:
        """Start a run and drive it until it ends or parks. Sleeps park at once unless `park_after` says otherwise."""
        started = self.engine.start(workflow, data)
        return self.drive(started.row.id, **options)

    def drive(self, run_id: str, **options: Any) -> RunRow:
        """Drive a run until it ends or parks."""
        return asyncio.run(self.engine.drive(run_id, **{"park_after": 0, **options}))

    def resume(self, run_id: str, **options: Any) -> RunRow:
        """What `flow resume` does."""
        self.engine.resume(run_id)
        return self.drive(run_id, **options)

    def events(self, run_id: str) -> Sequence[Event]:
        """The run's journal."""
        return self.store.events(run_id)

    def kinds(self, run_id: str) -> list[str]:
        """The journal in short: `kind step~attempt` an event."""
        return [
            event.kind + (f" {event.step}~{event.attempt}" if event.step is not None else "")
            for event in self.store.events(run_id)
        ]

    def ledger(self, run_id: str) -> Ledger:
        """The fold of the run's journal."""
        return Ledger(self.store.events(run_id))

    def vanish(self) -> None:
        """What a process leaves that was killed: the store as it is, and an owner's file that nobody holds."""
        self.store.close()
        self.owners.forked()

    def close(self) -> None:
        """Close the store and stop being an owner."""
        self.store.close()
        self.owners.retire()
