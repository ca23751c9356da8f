"""Makes records from database rows: one named function each, by position in the order of statements.py."""

from collections.abc import Sequence
from sys import intern
from typing import Any
from zlib import crc32

from flowstone.errors import Damaged
from flowstone.journal.events import Draft, Event
from flowstone.journal.shapes import is_instant, wrong_in_note, wrong_in_row
from flowstone.journal.states import Status
from flowstone.ports import AuditEntry, LogPiece, RunRow, Source

Row = tuple[Any, ...]


def run_row(row: Row) -> RunRow:
    """A run's row. Raises Damaged if something in it is nonsense."""
    (id_, workflow, status, version, key, user, parent_run, parent_step, created_at, updated_at, finished_at, *rest) = row
    owner, epoch, mail, events, waiting, steps, done, current_step, error = rest
    try:
        known = Status(status)
    except ValueError:
        raise _damaged(id_, f"{status!r} is no status") from None
    made = RunRow(
        id=id_,
        workflow=workflow,
        status=known,
        version=version,
        key=key,
        user=user,
        parent_run=parent_run,
        parent_step=parent_step,
        created_at=created_at,
        updated_at=updated_at,
        finished_at=finished_at,
        owner=owner,
        epoch=epoch,
        mail=mail,
        events=events,
        waiting=waiting,
        steps=steps,
        done=done,
        current_step=current_step,
        error=error,
    )
    wrong = wrong_in_row(made)
    if wrong is not None:
        raise _damaged(id_, wrong)
    return made


def _damaged(run_id: str, why: str) -> Damaged:
    return Damaged(run_id, f"the row of run {run_id} is damaged: {why}", hint="flow doctor --repair")


def event(run_id: str, row: Row) -> Event:
    """An event, its body checked against its checksum. Raises Damaged if they differ."""
    n, at, kind, step, attempt, crc, body = row
    if crc32(body) != crc:
        raise Damaged(run_id, f"event {n} of run {run_id} is damaged: its checksum differs", hint="flow doctor")
    try:
        return Event(n, at, intern(kind), step, attempt, body.decode())
    except UnicodeDecodeError:
        raise Damaged(run_id, f"event {n} of run {run_id} is damaged: its body is no text", hint="flow doctor") from None


def journal_rows(run_id: str, events: Sequence[Event]) -> list[Row]:
    """What to bind to append events, with the checksums of their bodies."""
    return [(run_id, e.n, e.at, e.kind, e.step, e.attempt, crc32(e.text.encode()), e.text) for e in events]


def numbered(drafts: Sequence[Draft], first: int, now: int) -> list[Event]:
    """Drafts as events, numbered from `first`, all at one instant."""
    return [Event(first + i, now, draft.kind.value, draft.step, draft.attempt, draft.text) for i, draft in enumerate(drafts)]


def log_piece(run_id: str, row: Row) -> tuple[int, LogPiece]:
    """A piece of output with its row id. Raises Damaged if its instant is none."""
    id_, step, attempt, at, stream, text = row
    if not is_instant(at):
        raise Damaged(run_id, f"output {id_} of run {run_id} is damaged: its instant is none", hint="flow doctor")
    return id_, LogPiece(step=step, attempt=attempt, at=at, stream=stream, text=text)


def log_row(run_id: str, piece: LogPiece) -> Row:
    """What to bind to record a piece. Bytes of a program that are no text must not cost a step its result."""
    text = piece.text.encode("utf-8", "backslashreplace").decode()
    return run_id, piece.step, piece.attempt, piece.at, piece.stream, text


def audit_entry(row: Row) -> AuditEntry:
    """An audit note as it was written. Raises Damaged if it is nonsense."""
    run_id, n, at, action, by = row
    wrong = wrong_in_note(at, by)
    if wrong is not None:
        raise Damaged(run_id, f"a note ({action}) in the audit of run {run_id} is damaged: {wrong}", hint="flow doctor")
    return AuditEntry(run_id=run_id, n=n, at=at, action=action, by=by)


def source(row: Row) -> Source:
    """A version's source."""
    version, workflow, text = row
    return Source(version=version, workflow=workflow, text=text)
