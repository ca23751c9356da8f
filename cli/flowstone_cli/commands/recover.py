"""`flow recover`: one sweep that takes up runs which are interrupted or due. Made for cron."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowstone.errors import FlowError, StorageFailed
from flowstone.journal.states import SETTLED
from flowstone.ports import RunRow
from flowstone_cli import exit_codes, json_text
from flowstone_cli.parameters import microseconds
from flowstone_cli.render import sweep
from flowstone_cli.session import Session

if TYPE_CHECKING:
    from flowstone_cli.acting import Acting

_ALL = 1_000_000_000
_NOTHING = "no run is interrupted or due"


def command(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many runs.", min=1)] = 100,
    older: Annotated[
        str | None, typer.Option("--older", metavar="DUR", help="Only what nothing has happened to for so long.")
    ] = None,
) -> int:
    """Recover runs whose process is gone or whose time has come, each as far as it goes without waiting.

    Takes only runs whose workflow is in this folder. Exits 1 if a run failed.
    """
    session: Session = ctx.obj
    age = None if older is None else microseconds("--older", older)
    if session.is_fresh:
        session.say(_NOTHING)
        return _tell([], session, session.out)
    from flowstone_cli.acting import Acting

    with Acting(session, "write", quiet=True) as acting:
        rows = acting.engine.due(limit if age is None else _ALL)
        if age is not None:
            rows = [row for row in rows if row.updated_at <= session.clock.now() - age][:limit]
        if dry_run:
            found = [_found(row, session) for row in rows]
            say_passed_over(acting, nothing=not found)
            return _tell(found, session, acting.out, shown=False)
        swept = _sweep(acting, rows)
        say_passed_over(acting, nothing=not swept)
    code = _tell(swept, session, acting.out)
    return acting.stopped_code or code


def say_passed_over(acting: "Acting", *, nothing: bool) -> None:
    """On stderr, which runs were left alone and why; with `nothing` also that there is none."""
    session = acting.session
    folder = str(session.settings.dir)
    said = sweep.passed_words(acting.engine.passed_over(), session.clock.now(), folder, session.short)
    for words in said or ([_NOTHING] if nothing else []):
        session.say(words)


def _sweep(acting: "Acting", rows: list[RunRow]) -> list[sweep.Swept]:
    """Drive the runs one after the other, and the parents of those that end."""
    session, swept = acting.session, []
    todo, known = list(rows), {row.id for row in rows}
    while todo and acting.stopped_code is None:
        before = session.store().run(todo.pop(0).id)
        one = _found(before, session)
        try:
            after = acting.sweep(before)
        except StorageFailed:
            raise
        except FlowError as error:
            one = one._replace(exit=exit_codes.of_error(error), error=error.message)
        else:
            if after is None:
                continue
            one = sweep.Swept(*one[:3], session.phase(after), exit_codes.of_row(after), None)
            if after.status in SETTLED and after.parent_run is not None and after.parent_run not in known:
                known.add(after.parent_run)
                todo.append(session.store().run(after.parent_run))
        swept.append(one)
        if not session.options.json:
            acting.out.write(
                sweep.people(one, acting.out, session.short(one.id, acting.out)) if acting.out.terminal else sweep.piped(one)
            )
    return swept


def _found(row: RunRow, session: Session) -> sweep.Swept:
    phase = session.phase(row)
    return sweep.Swept(row.id, row.workflow, phase, None, None, None)


def _tell(swept: list[sweep.Swept], session: Session, out: Any, *, shown: bool = True) -> int:
    """The document, or the lines if they have not been shown; errors on stderr; the exit code."""
    if session.options.json:
        runs = [one._asdict() for one in swept]
        out.write(json_text.document({"schema": "flow.recover/1", "runs": runs}))
    elif not shown:
        for one in swept:
            out.write(sweep.people(one, out, session.short(one.id, out)) if out.terminal else sweep.piped(one))
    refused = [one for one in swept if one.error is not None]
    for one in refused:
        session.say(f"run {session.short(one.id)} was left as it is: {one.error}")
    if any(one.exit in (exit_codes.RUN_FAILED, exit_codes.UNDO_FAILED) for one in swept):
        return exit_codes.RUN_FAILED
    return refused[0].exit or exit_codes.OK if refused else exit_codes.OK
