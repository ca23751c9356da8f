"""Records the histories that are not there yet: `python tests/histories/record.py`. What is there is never replaced.

Each is an exported run of a workflow in workflows/, which every later release must replay (test_histories.py). A release adds
some: new workflows in a new file there, and their runs here.
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATABASE = HERE / "release-1.db"
"""The database file of the first release, with all its histories."""
if __name__ == "__main__":
    sys.path += [str(HERE.parents[1] / room) for room in ("engine", "tests")]

from flowstone.journal.documents import run_document  # noqa: E402
from flowstone.journal.events import Draft, Kind  # noqa: E402
from flowstone.journal.export import export_document, exported_events  # noqa: E402
from flowstone.journal.states import SETTLED, Verb  # noqa: E402
from flowstone.journal.summary import Index  # noqa: E402
from flowstone.ports import Change, Filter, NewRun, Source  # noqa: E402
from flowstone.running.writer import summary_of  # noqa: E402
from flowstone.storage.sqlite.store import SqliteStore  # noqa: E402
from flowstone.testing.clock import ManualClock  # noqa: E402
from support.edits import Edits, FromFiles  # noqa: E402

PERSON = {"owner": "desk.4711", "uid": 1000, "sudo_user": None, "host": "desk", "tty": None, "pid": 4711}
"""What stands in a history for whoever has recorded it."""


class Recording:
    """One engine, and how its runs are brought somewhere."""

    def __init__(self, engine: FromFiles) -> None:
        self.engine = engine

    def run(self, workflow: str, data: Any = None, *, broken: Iterable[str] = ()) -> str:
        """Start a run while some things are broken, and drive it until it ends or parks."""
        broken_ones = self.engine.engine.library.load("sequence").__globals__["BROKEN"]
        broken_ones.clear()
        broken_ones.update(broken)
        run = self.engine.run(workflow, data).id
        broken_ones.clear()
        return run

    def go_on(self, run: str) -> str:
        """Do what `flow recover` does, over sleeps and retries, until the run has ended or waits for a person."""
        for _ in range(100):
            for row in self.engine.store.runs(Filter(unfinished=True)):
                self.engine.drive(row.id)
            row = self.engine.store.run(run)
            if row.status in SETTLED or (row.owner is None and row.status.value == "suspended"):
                return run
            self.engine.clock.move("1h")  # type: ignore[attr-defined]
        raise AssertionError(self.engine.kinds(run))

    def answer(self, run: str, reason: str, *, yes: bool = True, **more: Any) -> str:
        """Answer a gate, and go on."""
        self.engine.engine.answer(run, reason, yes=yes, by="ben", **more)
        return self.go_on(run)

    def resume(self, run: str) -> str:
        """Go on with a suspended run."""
        self.engine.resume(run)
        return self.go_on(run)

    def cancel(self, run: str) -> str:
        """Cancel a run."""
        self.engine.engine.cancel(run, "no longer wanted")
        return self.go_on(run)

    def retry(self, run: str, step: str | None = None) -> str:
        """Retry a run that has failed."""
        self.engine.engine.retry(run, step)
        return self.go_on(run)

    def fork(self, run: str, step: str, *data: Any) -> str:
        """Fork a run."""
        return self.go_on(self.engine.engine.fork(run, step, *data).id)

    def document(self, run: str) -> dict[str, Any]:
        """The exported run."""
        row, events = self.engine.store.run(run), self.engine.events(run)
        shown = run_document(row, self.engine.ledger(run), life=None, now=self.engine.clock.now())
        source = self.engine.store.source(row.version)
        return export_document(shown, events, source.text if source else None)


SHAPES: dict[str, Callable[[Recording], str]] = {
    "sequence": lambda it: it.run("sequence", {"name": "ana"}),
    "gathered": lambda it: it.run("gathered"),
    "grouped": lambda it: it.run("grouped"),
    "mapped": lambda it: it.run("mapped", {"items": ["a", "b", "a/b#1"]}, broken=["b"]),
    "mapped-failed": lambda it: it.run("mapped", {"items": ["a", "b"]}, broken=["a"]),
    "raced": lambda it: it.run("raced"),
    "raced-ended": lambda it: it.resume(it.run("raced")),
    "asked": lambda it: it.run("asked"),
    "asked-rounds": lambda it: _asked_rounds(it),
    "slept": lambda it: it.run("slept"),
    "slept-ended": lambda it: it.go_on(it.run("slept")),
    "retried": lambda it: it.run("retried"),
    "retried-ended": lambda it: it.go_on(it.run("retried")),
    "undone": lambda it: it.go_on(it.run("undone", broken=["pay"])),
    "not-undone": lambda it: it.run("undone"),
    "handled": lambda it: it.go_on(it.run("handled", broken=["risky"])),
    "parent": lambda it: it.run("parent"),
    "child": lambda it: _child_of(it, it.run("parent")),
    "parent-retried": lambda it: it.retry(it.go_on(it.run("parent", broken=["bread"]))),
    "cancelled": lambda it: it.cancel(it.run("cancelled")),
    "changed-mind": lambda it: it.run("changed_mind"),
    "mended": lambda it: it.retry(it.go_on(it.run("mended", broken=["quick"]))),
    "mended-from": lambda it: it.retry(it.go_on(it.run("mended", broken=["last"])), "slow"),
    "forked": lambda it: it.fork(it.go_on(it.run("gathered")), "[3]/two"),
    "forked-undone": lambda it: it.fork(it.go_on(it.run("undone", broken=["pay"])), "pay"),
    "forked-answered": lambda it: it.fork(_asked_rounds(it), "approve:sign off#2"),
    "blocking": lambda it: it.run("blocking", {"number": 4}),
    "blocking-ended": lambda it: it.resume(it.run("blocking", {"number": 4})),
    "patched": lambda it: it.run("patched"),
    "patched-answered": lambda it: it.answer(it.run("patched"), "one"),
    "walked": lambda it: it.run("walked"),
}
"""The histories by name."""


def _asked_rounds(it: Recording) -> str:
    run = it.answer(it.run("asked"), "sign off", comment="fine")
    it.answer(run, "sign off#1", yes=False)
    it.engine.clock.move("3d")  # type: ignore[attr-defined]
    return it.go_on(run)


def _child_of(it: Recording, parent: str) -> str:
    (child,) = it.engine.ledger(parent).children.values()
    return child


def anonymous(value: Any, root: str) -> Any:
    """A document without the machine and the person that have made it."""
    if isinstance(value, dict):
        return {name: PERSON.get(name, anonymous(one, root)) for name, one in value.items()}
    if isinstance(value, list):
        return [anonymous(one, root) for one in value]
    return re.sub(f"({re.escape(root)}|{re.escape(str(HERE.parents[1]))})/", "", value) if isinstance(value, str) else value


def text_of(document: dict[str, Any]) -> str:
    """JSON with a line for each event."""
    head = {name: value for name, value in document.items() if name != "journal"}
    lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in document["journal"])
    return f'{json.dumps(head, ensure_ascii=False)[:-1]},\n"journal": [\n{lines}\n]}}\n'


ENDS = {
    Kind.RUN_SUSPENDED: Verb.SUSPEND,
    Kind.RUN_COMPLETED: Verb.COMPLETE,
    Kind.RUN_FAILED: Verb.FAIL,
    Kind.RUN_CANCELLED: Verb.CANCEL,
}


def put_back(store: SqliteStore, document: dict[str, Any]) -> str:
    """Make the run of a history in a store, as its last process has left it."""
    run, events = document["run"], exported_events(document)
    drafts = [Draft(Kind(event.kind), event.step, event.attempt, event.text) for event in events]
    verb = ENDS.get(drafts[-1].kind)
    first = drafts if verb is None else drafts[:-1]
    new = NewRun(run["id"], run["workflow"], run["version"], None, run["user"], "whoever")
    source = Source(run["version"], run["workflow"], document["source"])
    store.create(new, first, source=source, summary=summary_of(Index().after(first)))
    change = Change(verb=verb, release=True, summary=summary_of(Index().after(drafts)))
    store.append(run["id"], 1, drafts[len(first) :], change)
    return str(run["id"])


def main() -> None:
    """Record what is missing."""
    for name, bring_there in SHAPES.items():
        file = HERE / f"{name}.json"
        if file.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = {path.name: path.read_text() for path in (HERE / "workflows").glob("*.py")}
            edits = Edits(Path(folder), "")
            edits.file.unlink()
            for path, text in source.items():
                edits.file.with_name(path).write_text(text)
            recording = Recording(edits.engine())
            document = recording.document(bring_there(recording))
            edits.close()
        file.write_text(text_of(anonymous(document, folder)))
        print(f"{file.name}: {document['run']['status']}, {len(document['journal'])} events")
    if not DATABASE.exists():
        store = SqliteStore(DATABASE, ManualClock(), mode="create")
        for file in sorted(HERE.glob("*.json")):
            put_back(store, json.loads(file.read_bytes()))
        store.close()
        DATABASE.with_name(f"{DATABASE.name}-lock").unlink(missing_ok=True)
        print(DATABASE.name)


if __name__ == "__main__":
    main()
