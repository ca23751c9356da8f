"""The verbs of the port `Store` on one SQLite file: each is one transaction."""

import json
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from flowstone.clock import Clock
from flowstone.errors import CannotCreate, Damaged, FlowError, LostOwnership, NotFound, TryAgain
from flowstone.journal.columns import columns_of
from flowstone.journal.events import MAIL, Draft, Event
from flowstone.journal.states import SETTLED, TRANSITIONS, Status, Verb
from flowstone.ports import AuditEntry, AuditNote, Change, Decide, Filter, LogPiece, NewRun, RunRow, Source, Summary
from flowstone.storage.sqlite import rows, statements
from flowstone.storage.sqlite.database import Database
from flowstone.storage.sqlite.failures import making_in_words
from flowstone.storage.sqlite.opening import BUSY_SECONDS, Mode
from flowstone.storage.sqlite.paths import beside, make_private_file, resolved, sync_folder
from flowstone.storage.sqlite.write_lock import Notice

T = TypeVar("T")

SHORTEST_PREFIX = 6
_REMEMBERED = 50
EMPTY = Summary(waiting="[]", steps=0, done=0, current_step=None, error=None)


class SqliteStore:
    """A store in the file at `path`. `clock` stamps events; `timeout` is how long a write waits for its turn, in seconds; who
    waits for some of them tells `notice` for whom.

    Raises NotFound, NotAllowed, StorageFailed or TryAgain when the file cannot be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Clock,
        *,
        mode: Mode = "write",
        timeout: float = BUSY_SECONDS,
        notice: Notice | None = None,
    ) -> None:
        self.path = resolved(path)
        """The file, without symbolic links."""
        self.read: deque[str] = deque(maxlen=_REMEMBERED)
        """The runs whose journals were read last: where to look when something makes no sense."""
        self.left_out: dict[str, Damaged] = {}
        """The runs of which something makes no sense that was therefore not listed, and what."""
        self._clock = clock
        self._database = Database(self.path, mode, timeout, notice)

    # writing

    def create(
        self,
        new: NewRun,
        drafts: Sequence[Draft],
        *,
        source: Source | None = None,
        audit: AuditNote | None = None,
        summary: Summary | None = None,
    ) -> RunRow:
        """Create a run with its first events, durably. If `new.key` is taken, write nothing and return the run that has it."""
        with self._database.tx(durable=True):
            now = self._clock.now()
            if new.key is not None and (taken := self._database.rows(statements.RUN_OF_KEY, {"key": new.key})):
                return rows.run_row(taken[0])
            made = self._database.rows(
                statements.CREATE_RUN,
                {
                    "id": new.id,
                    "workflow": new.workflow,
                    "status": Status.RUNNING.value,
                    "version": new.version,
                    "key": new.key,
                    "user": new.user,
                    "parent_run": new.parent_run,
                    "parent_step": new.parent_step,
                    "now": now,
                    "owner": new.owner,
                    "epoch": 0 if new.owner is None else 1,
                    **_columns(summary or EMPTY),
                    **_counts(drafts),
                },
            )
            self._write_events(new.id, rows.numbered(drafts, 0, now))
            self._write_beside(new.id, 0, now, source, audit)
            return rows.run_row(made[0])

    def claim(
        self,
        run: RunRow,
        owner: str,
        drafts: Sequence[Draft],
        *,
        verb: Verb | None = None,
        source: Source | None = None,
        audit: AuditNote | None = None,
        summary: Summary | None = None,
    ) -> RunRow:
        """Make `owner` the run's owner under the next epoch, durably, with these events. Raises TryAgain if the run changed."""
        if verb is not None and run.status not in TRANSITIONS[verb][0]:
            raise _illegal(run.id, run.status, verb)
        with self._database.tx(durable=True):
            now = self._clock.now()
            claimed = self._database.rows(
                statements.CLAIM_RUN,
                {
                    "id": run.id,
                    "owner": owner,
                    "epoch": run.epoch,
                    "seen_status": run.status.value,
                    "seen_owner": run.owner,
                    "moves": verb is not None,
                    "version": None if source is None else source.version,
                    "now": now,
                    **_columns(summary),
                    **_move(verb, run.status, now),
                    **_counts(drafts),
                },
            )
            if not claimed:
                self.run(run.id)  # NotFound, if it is that
                raise TryAgain(f"run {run.id} was changed by another process a moment ago", hint=f"flow status {run.id}")
            row = rows.run_row(claimed[0])
            first = row.events - len(drafts)
            self._write_events(run.id, rows.numbered(drafts, first, now))
            self._write_beside(run.id, first, now, source, audit)
            return row

    def append(
        self, run_id: str, epoch: int, drafts: Sequence[Draft], change: Change, logs: Sequence[LogPiece] = ()
    ) -> list[Event] | None:
        """Append events as the owner under `epoch`. None, and nothing written, if mail came in.

        Raises LostOwnership under an old epoch or after the run was released, TryAgain if its status does not allow the verb.
        """
        verb, summary = change.verb, change.summary
        output = [rows.log_row(run_id, piece) for piece in logs]
        values: dict[str, Any] = {"id": run_id, "epoch": epoch, "seen_mail": change.seen_mail, **_counts(drafts)}
        if summary is not None:
            values |= summary._asdict()
        statement = statements.append(
            moves=verb is not None,
            release=change.release,
            folded=summary is not None,
            seen_mail=change.seen_mail is not None,
        )
        with self._database.tx(durable=change.durable, patient=change.patient):
            values["now"] = now = self._clock.now()
            if verb is not None:
                values |= {"from": json.dumps(sorted(TRANSITIONS[verb][0])), **_move(verb, None, now)}
            counted = self._database.rows(statement, values)
            if not counted:
                if refusal := self._why_not_appended(run_id, epoch, change):
                    raise refusal
                return None
            appended = rows.numbered(drafts, counted[0][0] - len(drafts), now)
            self._write_events(run_id, appended)
            if output:
                self._database.for_each(statements.ADD_LOG, output)
            return appended

    def post(
        self, run_id: str, step: str | None, decide: Decide, *, audit: AuditNote | None = None
    ) -> tuple[RunRow, list[Event]]:
        """Write mail, durably: under the lock call `decide` with the row and the events of `step` (all events if None)."""
        with self._database.tx(durable=True):
            now = self._clock.now()
            row = self.run(run_id)
            if step is None:
                seen = self.events(run_id)
            else:
                of_step = {"id": run_id, "step": step}
                seen = self._database.records(partial(rows.event, run_id), statements.EVENTS_OF_STEP, of_step)
            drafts = decide(row, seen)
            if not drafts:
                return row, []
            posted = rows.numbered(drafts, row.events, now)
            after = self._database.rows(statements.COUNT_POSTED, {"id": run_id, "now": now, **_counts(drafts)})
            self._write_events(run_id, posted)
            self._write_beside(run_id, row.events, now, None, audit)
            return rows.run_row(after[0]), posted

    # keeping house

    def delete(self, run: RunRow, *, audit: AuditNote | None = None) -> None:
        """Delete a run with its journal and its output, durably. Raises TryAgain if the run changed. The audit stays."""
        seen = {"id": run.id, "epoch": run.epoch, "status": run.status.value, "owner": run.owner, "events": run.events}
        with self._database.tx(durable=True):
            if not self._database.rows(statements.DELETE_RUN, seen):
                self.run(run.id)  # NotFound, if it is that
                raise TryAgain(f"run {run.id} was changed by another process a moment ago", hint=f"flow status {run.id}")
            for statement in statements.DELETE_BESIDE:
                self._database.rows(statement, {"id": run.id})
            self._write_beside(run.id, run.events, self._clock.now(), None, audit)

    def reindex(self, run_id: str) -> RunRow:
        """Write the index columns of a run's row anew, as its journal has them. Returns the row."""
        with self._database.tx(durable=True):
            columns = columns_of(self.events(run_id))
            values = columns._asdict() | {"id": run_id, "status": columns.status.value}
            return rows.run_row(self._database.rows(statements.REINDEX, values)[0])

    def vacuum(self) -> None:
        """Give the room of what was deleted back to the disk."""
        self._database.alone(statements.VACUUM)
        self._database.alone(statements.CHECKPOINT)

    def back_up(self, path: Path) -> None:
        """Copy the database as it is now into the new file `path`, which is whole or not there.

        Raises CannotCreate, StorageFailed.
        """
        unfinished = beside(path, "-unfinished")
        try:
            if path.exists():
                raise CannotCreate(f"{path} is there already: it is not replaced", hint=f"ls -l {quote(str(path))}")
            unfinished.unlink(missing_ok=True)
            make_private_file(unfinished)
            self._database.alone(statements.COPY_INTO, (str(unfinished),))
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
            unfinished.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            raise making_in_words(error, path) from error

    # reading

    def size(self, run_id: str) -> int:
        """How many bytes the texts of a run's journal and output take."""
        taken: int = self._database.rows(statements.SIZE, {"id": run_id})[0][0]
        return taken

    def run(self, run_id: str) -> RunRow:
        """A run's row by its whole id. Raises NotFound."""
        found = self._database.rows(statements.RUN, {"id": run_id})
        if not found:
            raise NotFound(f"there is no run {run_id}", hint="flow runs")
        return rows.run_row(found[0])

    def runs(self, wanted: Filter, *, limit: int | None = None, offset: int = 0) -> list[RunRow]:
        """Runs that fit, newest first; those whose rows are nonsense are in `left_out`. Raises Damaged if there are no others."""
        statement, values = statements.runs(wanted)
        values |= {"ownable": Status.RUNNING.value, "limit": -1 if limit is None else limit, "offset": offset}
        return self._sound(rows.run_row, self._database.rows(statement, values))

    def count(self, wanted: Filter) -> int:
        """How many runs fit."""
        statement, values = statements.count(wanted)
        counted: int = self._database.rows(statement, values | {"ownable": Status.RUNNING.value})[0][0]
        return counted

    def with_prefix(self, prefix: str, *, limit: int) -> list[RunRow]:
        """Runs whose id starts with `prefix`, newest first."""
        found = self._database.rows(statements.RUNS_WITH_PREFIX, {"prefix": prefix, "limit": limit})
        return [rows.run_row(row) for row in found]

    def prefix_length(self) -> int:
        """How many characters of an id tell every run of this store apart; at least 6."""
        length, before = SHORTEST_PREFIX, ""
        for (run_id,) in self._database.rows(statements.ALL_IDS):  # in order: the closest ids are neighbours
            while run_id[:length] == before[:length]:
                length += 1
            before = run_id
        return length

    def events(self, run_id: str, *, after: int = -1) -> list[Event]:
        """The run's events with n > `after`, by n. Raises Damaged if a body's checksum is wrong."""
        self.read.append(run_id)
        return self._database.records(partial(rows.event, run_id), statements.EVENTS, {"id": run_id, "after": after})

    def changed(self) -> bool:
        """Whether another connection may have written since the last call: cheap enough to ask several times a second."""
        return self._database.changed()

    def logs(self, run_id: str, *, step: str | None = None, after: int = 0) -> list[tuple[int, LogPiece]]:
        """Recorded output with its row ids, in the order written."""
        statement = statements.LOGS if step is None else statements.LOGS_OF_STEP
        found = self._database.rows(statement, {"id": run_id, "step": step, "after": after})
        return [rows.log_piece(run_id, row) for row in found]

    def source(self, version: str) -> Source | None:
        """The stored source of a version."""
        found = self._database.rows(statements.SOURCE, {"version": version})
        return rows.source(found[0]) if found else None

    def audit(self, run_id: str | None, *, limit: int | None = None) -> list[AuditEntry]:
        """Who did what by hand on a run (None: on any), newest first; for what is nonsense see `runs`."""
        statement = statements.AUDIT if run_id is None else statements.AUDIT_OF_RUN
        found = self._database.rows(statement, {"id": run_id, "limit": -1 if limit is None else limit})
        return self._sound(rows.audit_entry, found)

    def close(self) -> None:
        """Close; idempotent."""
        self._database.close()

    def _sound(self, make: Callable[[rows.Row], T], found: Sequence[rows.Row]) -> list[T]:
        sound: list[T] = []
        damaged = None
        for row in found:
            try:
                sound.append(make(row))
            except Damaged as error:
                self.left_out[error.run] = damaged = error
        if damaged is not None and not sound:
            raise damaged
        return sound

    def _write_events(self, run_id: str, events: Sequence[Event]) -> None:
        if events:
            self._database.for_each(statements.APPEND_EVENT, rows.journal_rows(run_id, events))

    def _write_beside(self, run_id: str, n: int, now: int, source: Source | None, audit: AuditNote | None) -> None:
        if source is not None:
            self._database.rows(
                statements.ADD_SOURCE,
                {"version": source.version, "workflow": source.workflow, "text": source.text, "now": now},
            )
        if audit is not None:
            self._database.rows(statements.ADD_AUDIT, {"id": run_id, "n": n, "now": now, "action": audit.action, "by": audit.by})

    def _why_not_appended(self, run_id: str, epoch: int, change: Change) -> FlowError | None:
        """The error, or None if it is only that mail came in."""
        row = self.run(run_id)
        if row.epoch != epoch or row.owner is None:
            return LostOwnership(f"run {run_id} belongs to another process now", hint=f"flow status {run_id}")
        if change.seen_mail is not None and row.mail != change.seen_mail:
            return None
        assert change.verb is not None, "nothing else is asked of the row"
        return _illegal(run_id, row.status, change.verb)


def _columns(summary: Summary | None) -> dict[str, Any]:
    return {
        "folded": summary is not None,
        "waiting": summary and summary.waiting,
        "steps": summary and summary.steps,
        "done": summary and summary.done,
        "current_step": summary and summary.current_step,
        "error": summary and summary.error,
    }


def _counts(drafts: Sequence[Draft]) -> dict[str, int]:
    return {"events": len(drafts), "mail": sum(draft.kind in MAIL for draft in drafts)}


def _move(verb: Verb | None, present: Status | None, now: int) -> dict[str, Any]:
    status = TRANSITIONS[verb][1] if verb is not None else present
    return {"status": status, "finished_at": now if status in SETTLED else None}


def _illegal(run_id: str, status: Status, verb: Verb) -> TryAgain:
    return TryAgain(f"run {run_id} is {status}: it cannot {verb}", hint=f"flow status {run_id}")
