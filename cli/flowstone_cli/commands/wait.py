"""`flow wait RUN…`: wait in silence until runs have ended, or have come to a point."""

from threading import Event
from time import monotonic
from typing import Annotated

import typer

from flowstone.clock import MICROSECONDS
from flowstone.journal.ledger import Ledger
from flowstone.journal.phase import Phase, is_waiting, phase_of
from flowstone.journal.states import SETTLED
from flowstone.ports import RunRow
from flowstone_cli import exit_codes, json_text
from flowstone_cli.parameters import Runs, microseconds
from flowstone_cli.render import outcome
from flowstone_cli.session import Session

_PAUSE = 0.1
"""Seconds between two looks."""


def command(
    ctx: typer.Context,
    runs: Runs,
    until: Annotated[
        str, typer.Option("--for", metavar="done|completed|waiting|STEP", help="What to wait for; a step's key for its end.")
    ] = "done",
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DUR", help="Give up after so long.", show_default=False)
    ] = None,
) -> int:
    """Wait for runs, without a word; executes nothing.

    Exits like the run: 0 completed, 1 failed, 3 cancelled, 4 undo failed, 8 not ended; 124 when the time is up.
    """
    session: Session = ctx.obj
    limit = None if timeout is None else microseconds("--timeout", timeout)
    ids = list(dict.fromkeys(session.find(form).id for form in runs))
    in_time = _wait(session, ids, until, None if limit is None else monotonic() + limit / MICROSECONDS)
    rows = [session.store().run(run_id) for run_id in ids]
    if not session.options.quiet:
        for row in rows:
            session.tell(outcome.block(session.view(row, session.err), session.err))
    if session.options.json:
        session.out.write(json_text.document(_document(session, rows)))
    return exit_codes.worst(exit_codes.of_row(row) for row in rows) if in_time else exit_codes.TIMED_OUT


def _wait(session: Session, ids: list[str], until: str, deadline: float | None) -> bool:
    """Wait until every run has come there; False if the deadline came first, by the clock that nobody sets."""
    pause, left = Event(), list(ids)
    while True:
        left = [run_id for run_id in left if not _is_there(session, session.store().run(run_id), until)]
        if not left:
            return True
        left_over = _PAUSE if deadline is None else deadline - monotonic()
        if left_over <= 0:
            return False
        pause.wait(min(_PAUSE, left_over))


def _is_there(session: Session, row: RunRow, until: str) -> bool:
    """Whether a run has come to the point; one that has ended comes nowhere any more."""
    if row.status in SETTLED:
        return True
    if until in ("done", "completed"):
        return False
    if until == "waiting":
        life = session.life(row)
        return is_waiting(row, life) or phase_of(row, life) in (Phase.SLEEPING, Phase.RETRYING)
    operation = Ledger(session.store().events(row.id)).operations.get(until)
    return operation is not None and not operation.open


def _document(session: Session, rows: list[RunRow]) -> dict[str, object]:
    if len(rows) == 1:
        return session.view(rows[0], session.err).document
    from flowstone.journal.documents import runs_document

    return runs_document([(row, session.life(row)) for row in rows], now=session.clock.now(), next=None)
