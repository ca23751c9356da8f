"""The judge of a run after a fault: the ledger of effects, the journal, the row and the exit code must tell one story."""

import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from flowstone.journal.events import Event
from flowstone.journal.ledger import Ledger
from flowstone.journal.states import SETTLED
from flowstone.journal.summary import Index
from flowstone.ports import Filter, RunRow
from flowstone.storage.sqlite import rows, statements

LISTED = {0, 1, 3, 4, 8, 69, 74, 75, 77}
"""Exit codes that a disk that fails may lead to (69: it gave no source); 70 would be a bug of ours, 66 or 76 a lie."""


class Violation(AssertionError):
    """A promise was broken."""


def holds(condition: object, what: str) -> None:
    """Raise Violation unless it does."""
    if not condition:
        raise Violation(what)


def effects_of(root: Path) -> list[tuple[str, str]]:
    """Tag and invocation id of each effect, in order."""
    file = root / "effects"
    return [(line.split()[0], line.split()[1]) for line in file.read_text().splitlines()] if file.exists() else []


def database(root: Path) -> Path:
    """Where the database of a project lies."""
    return root / ".flow" / "flow.db"


def read(root: Path) -> list[tuple[RunRow, list[Event]]]:
    """Every run and its journal, oldest first, with no code of the store that is judged but the names of its columns."""
    if not database(root).exists():
        return []
    try:
        with closing(sqlite3.connect(f"{database(root).as_uri()}?mode=ro", uri=True)) as connection:  # ro: tidies nothing up
            answer = connection.execute("pragma integrity_check").fetchall()
            holds(answer == [("ok",)], f"the file is damaged: {answer}")
            listed, values = statements.runs(Filter())
            found = connection.execute(listed, {**values, "limit": -1, "offset": 0}).fetchall()
            journals = [connection.execute(statements.EVENTS, {"id": row[0], "after": -1}).fetchall() for row in found]
    except sqlite3.Error as error:
        raise Violation(f"the file cannot be read: {error}") from error
    return [
        (rows.run_row(row), [rows.event(row[0], event) for event in events]) for row, events in zip(found, journals, strict=True)
    ][::-1]


def consistent(row: RunRow, events: list[Event]) -> Ledger:
    """One run: a gapless journal in which nothing is recorded twice, and a row that is its fold."""
    kinds = [f"{event.n} {event.kind} {event.step or ''}~{event.attempt}" for event in events]
    holds([event.n for event in events] == list(range(len(events))), f"the journal has gaps: {kinds}")
    holds(row.events == len(events), f"the row counts {row.events} events of {len(events)}")
    endings = Counter((event.step, event.attempt) for event in events if event.kind in _ENDS)
    holds(not endings or max(endings.values()) == 1, f"an attempt ended twice: {kinds}")
    # That a cancel has reached an operation is recorded with its last attempt, which may have been cut off or have failed before.
    cancelled = Counter((event.step, event.attempt) for event in events if event.kind == "step.cancelled")
    given = {(event.step, event.attempt) for event in events if event.kind == "step.succeeded"}
    holds(
        not cancelled or (max(cancelled.values()) == 1 and not given & set(cancelled)),
        f"cancelled twice, or after its result: {kinds}",
    )
    reopened = sum(event.kind == "run.reopened" for event in events)
    succeeded = Counter(event.step for event in events if event.kind == "step.succeeded")
    holds(not succeeded or max(succeeded.values()) <= 1 + reopened, f"a step succeeded twice: {kinds}")
    index, ledger = Index().after(events), Ledger(events)
    told = (row.waiting, row.steps, row.done, row.current_step, row.error, row.status, row.mail)
    folded = (index.waiting(), index.steps, index.done, index.current, index.error, ledger.status, ledger.mail)
    holds(told == folded, f"the row says {told}, the journal {folded}")
    claims = [event.body()["epoch"] for event in events if event.kind == "run.claimed"]
    holds(claims == list(range(1, len(claims) + 1)), f"the epochs of the claims are {claims}")
    holds(row.epoch == len(claims), f"the row is at epoch {row.epoch} after {len(claims)} claims")
    holds((row.finished_at is not None) == (row.status in SETTLED), "finished_at and status differ")
    holds(row.status not in SETTLED or row.owner is None, "a run that has ended has an owner")
    return ledger


def at_least_once(effects: list[tuple[str, str]], wanted: dict[str, int], chain: tuple[str, ...], more: int) -> None:
    """Each effect as often as wanted, at most `more` times more; one id per effect; none again after one that needs it."""
    counts = Counter(tag for tag, _ in effects)
    holds(set(counts) == set(wanted), f"effects {dict(counts)}, wanted {wanted}")
    holds(
        all(wanted[tag] <= count <= wanted[tag] + more for tag, count in counts.items()),
        f"effects {dict(counts)}, wanted {wanted}",
    )
    _one_id_each(effects)
    reached = -1
    for tag, _ in effects:
        if tag in chain:
            holds(
                chain.index(tag) >= reached,
                f"{tag} was done again although its result was recorded: {[tag for tag, _ in effects]}",
            )
            reached = max(reached, chain.index(tag))


def _one_id_each(effects: list[tuple[str, str]]) -> None:
    ids: dict[str, set[str]] = {}
    for tag, id in effects:
        ids.setdefault(tag, set()).add(id)
    holds(all(len(found) == 1 for found in ids.values()), f"one step, several invocation ids: {ids}")


def exit_code_fits(code: int, out: str, err: str, row: RunRow | None, output: str, done: bool) -> None:
    """The exit code is a listed one and is what the journal says; stdout has the answer exactly if it is 0."""
    if code < 0:
        return
    holds(code in LISTED, f"exit {code}: {err}")
    holds("Traceback" not in err and not re.search(r"\bbug\b", err), f"not told in words: {err}")
    if code == 0 and done:
        holds(row is not None and row.status == "completed", f"exit 0, and the run is {row and row.status}")
        holds(out == output or not output, f"exit 0, and stdout has {out!r}")
    if code in (1, 3):
        holds(
            row is not None and row.status == {1: "failed", 3: "cancelled"}[code],
            f"exit {code}, and the run is {row and row.status}",
        )
    if code == 74:
        holds("error" in err or err == "", f"exit 74 without a word: {err!r}")


_ENDS = {"step.succeeded", "step.failed", "step.interrupted"}
