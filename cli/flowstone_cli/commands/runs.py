"""`flow runs`: the runs of this database, newest first."""

from typing import Annotated

import typer

from flowstone.errors import UsageError
from flowstone.journal.documents import runs_document
from flowstone.journal.phase import Phase, phase_of, row_waits
from flowstone.journal.states import Status
from flowstone.ports import Filter, RunRow
from flowstone_cli import json_text
from flowstone_cli.render import runs
from flowstone_cli.session import Session

_WAITS = ("approval", "suspend", "sleep", "retry", "child", "function", "resolve", "queue")


def command(
    ctx: typer.Context,
    workflow: Annotated[str | None, typer.Option("-w", "--workflow", metavar="NAME", help="Only this workflow's.")] = None,
    status: Annotated[str | None, typer.Option("-s", "--status", metavar="STATUS", help="A status or phase.")] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", metavar="N", help="At most so many.", min=1)] = 20,
    all: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    count: Annotated[bool, typer.Option("--count", help="Only how many.")] = False,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="The run with this key.")] = None,
    waiting_for: Annotated[
        str | None, typer.Option("--waiting-for", metavar="KIND", help="approval, suspend, sleep, retry, ...")
    ] = None,
) -> int:
    """List runs, newest first."""
    session: Session = ctx.obj
    rows, total = _found(session, workflow, status, key, waiting_for, None if all else limit)
    out, now = session.out, session.clock.now()
    if session.options.json:
        document = runs_document([(row, session.life(row)) for row in rows], now=now, next=_next(rows, total))
        out.write(json_text.document(document if not count else document | {"runs": [], "count": total}))
        return 0
    if count:
        out.write(f"{total}\n")
        return 0
    listed = runs_document([(row, session.life(row)) for row in rows], now=now, next=None)["runs"]
    if out.terminal:
        length = session.store().prefix_length() if rows else 0
        out.write(runs.people(listed, rows, out, now=now, total=total, id_length=length))
    else:
        out.write(runs.piped(listed, rows))
    return 0


def _found(
    session: Session, workflow: str | None, status: str | None, key: str | None, waiting_for: str | None, limit: int | None
) -> tuple[list[RunRow], int]:
    """The rows to show, and how many there are in all."""
    if waiting_for is not None and waiting_for not in _WAITS:
        raise UsageError(f"--waiting-for takes {', '.join(_WAITS)}; not {waiting_for}")
    known = [one.value for one in (*Status, *Phase)]
    if status is not None and status not in known:
        raise UsageError(f"--status takes {', '.join(dict.fromkeys(known))}; not {status}")
    stored = Status(status) if status in [one.value for one in Status] else None
    derived = status if stored is None else None
    unfinished = True if waiting_for is not None or derived is not None else None
    wanted = Filter(workflow=workflow, status=stored, key=key, unfinished=unfinished)
    if session.is_fresh:
        return [], 0
    store = session.store()
    if waiting_for is None and derived is None:
        return store.runs(wanted, limit=limit), store.count(wanted)
    rows = [
        row
        for row in store.runs(wanted)
        if (derived is None or phase_of(row, session.life(row)) == derived)
        and (waiting_for is None or any(wait["kind"] == waiting_for for wait in row_waits(row)))
    ]
    return rows[:limit], len(rows)


def _next(rows: list[RunRow], total: int) -> str | None:
    return "flow runs --all" if len(rows) < total else None
