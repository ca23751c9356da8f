"""`flow cancel RUN…`: cancel runs, undo what they did, and wait until they have ended."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from flowstone.errors import FlowError, TryAgain, UsageError
from flowstone.journal.states import SETTLED, Status
from flowstone.ports import Life, RunRow
from flowstone_cli import exit_codes, json_text
from flowstone_cli.clean import clean
from flowstone_cli.parameters import Runs
from flowstone_cli.session import Session
from flowstone_cli.typed import again

if TYPE_CHECKING:
    from flowstone_cli.acting import Acting


def command(
    ctx: typer.Context,
    runs: Runs,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the run.", show_default=False)] = "",
    no_undo: Annotated[bool, typer.Option("--no-undo", help="Leave what was done as it is.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Cancel several without asking.")] = False,
) -> int:
    """Cancel runs: what runs is stopped, what was done is undone.

    A run whose code is gone or fits its history no more is cancelled without its body, whose cleanup then does not run.

    Exits 0 if the run ended cancelled, 4 if an undo failed, 75 if it ended otherwise first or has not ended.
    """
    session: Session = ctx.obj
    rows = list({row.id: row for row in [session.find(form, "write") for form in runs]}.values())
    if len(rows) > 1 and not yes:
        _ask(session, len(rows))
    from flowstone_cli.acting import Acting

    with Acting(session, "write", quiet=len(rows) > 1) as acting:
        if len(rows) == 1:
            code = _cancel(acting, rows[0], reason, undo=not no_undo)
            return acting.conclude(rows[0].id, code=code)
        codes = [_one_of_several(acting, row, reason, undo=not no_undo) for row in rows]
    if session.options.json:
        from flowstone.journal.documents import runs_document

        found = [session.store().run(row.id) for row in rows]
        listed = [(row, session.life(row)) for row in found]
        acting.out.write(json_text.document(runs_document(listed, now=session.clock.now(), next=None)))
    return max(codes)


def _ask(session: Session, count: int) -> None:
    """Raise UsageError unless a person says yes."""
    asks = session.err.terminal and sys.stdin is not None and sys.stdin.isatty() and not os.environ.get("CI")
    if not asks:
        raise UsageError(f"{count} runs would be cancelled: say --yes", hint=again(session.arguments, "--yes"))
    session.tell(f"cancel {count} runs? [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was cancelled", hint=again(session.arguments, "--yes"))


def _cancel(acting: "Acting", row: RunRow, reason: str, *, undo: bool) -> int:
    """Request it and carry it out, or follow who does. Raises TryAgain if the run has not ended cancelled."""
    session, short = acting.session, acting.session.short(row.id)
    requested = acting.engine.cancel(row.id, reason, undo=undo)
    ended_before = requested.status in SETTLED
    if acting.engine.life(requested) is Life.UNKNOWN:
        raise TryAgain(
            f"the cancel of run {row.id} is recorded; whether its process on another host lives is not known here",
            hint=f"flow status {row.id}",
        )
    row = requested if ended_before else acting.drive(row.id, "cancel", None)
    view = session.view(row, session.err)
    misfit = (view.ledger.cancelling or {}).get("without_body")
    if misfit is not None and not ended_before:
        session.say(f"run {short} is cancelled without its body, whose cleanup did not run: {clean(misfit)}")
    if row.status is Status.CANCELLED:
        if ended_before:
            session.say(f"run {short} was cancelled before")
        return exit_codes.OK
    if row.status in SETTLED:
        code = exit_codes.of_run(row.status, view.ledger.error)
        if code == exit_codes.UNDO_FAILED and not ended_before:
            return code
        raise TryAgain(
            f"run {row.id} {'has ' * ended_before}{row.status} first: it was not cancelled", hint=f"flow status {row.id}"
        )
    stopped = acting.stopped_code
    if stopped is not None:
        return stopped
    suspension = view.ledger.suspension or {}
    if "undo" in suspension:
        raise TryAgain(
            f"run {row.id} is not cancelled yet: its undo waits for {clean(suspension['functions'][0])}, which cannot be found",
            details=["once it is there, flow resume goes on; else what was done can be left as it is"],
            hint=f"flow cancel {row.id} --no-undo",
        )
    raise TryAgain(f"run {row.id} is not cancelled yet: its cleanup waits", hint=f"flow status {row.id}")


def _one_of_several(acting: "Acting", row: RunRow, reason: str, *, undo: bool) -> int:
    from flowstone_cli.render import error as errors
    from flowstone_cli.render import outcome

    session = acting.session
    if acting.stopped_code is not None:
        return acting.stopped_code
    try:
        code = _cancel(acting, row, reason, undo=undo)
    except FlowError as error:
        session.tell(errors.lines(error, session.err, session.shortened))
        return exit_codes.of_error(error)
    session.tell(outcome.block(session.view(session.store().run(row.id), session.err), session.err))
    return code
