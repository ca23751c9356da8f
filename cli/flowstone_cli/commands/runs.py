"""`flow runs`: the runs of this database, newest first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from flowstone.journal.documents import runs_document
from flowstone.journal.notes import took
from flowstone.journal.phase import Phase, is_waiting, phase_of, row_waits
from flowstone.journal.states import Status
from flowstone.ports import Filter, RunRow
from flowstone_cli import json_text, run_forms
from flowstone_cli.parameters import instant_since, microseconds
from flowstone_cli.render import runs
from flowstone_cli.session import Session
from flowstone_cli.typed import unknown_choice

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
    since: Annotated[str | None, typer.Option("--since", metavar="DUR|TIME", help="Started since then, as 2d.")] = None,
    older: Annotated[str | None, typer.Option("--older", metavar="DUR|TIME", help="Started before then.")] = None,
    min_duration: Annotated[str | None, typer.Option("--min-duration", metavar="DUR", help="Took so long or longer.")] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="FIELD", help="created, duration, steps, workflow; with - downwards.")
    ] = None,
    grep: Annotated[str | None, typer.Option("--grep", metavar="TEXT", help="Name, key, user, error or wait has TEXT.")] = None,
) -> int:
    """List runs, newest first."""
    session: Session = ctx.obj
    sieve = Sieve(waiting_for, since, older, min_duration, grep)
    order = None if sort is None else _order(session, sort)
    rows, total = _found(session, workflow, status, key, sieve, None if all or order is not None else limit)
    if order is not None:
        rows = sorted(rows, key=order, reverse=str(sort).startswith("-"))[: None if all else limit]
    out, now = session.out, session.clock.now()
    listing = [(row, session.life(row)) for row in rows]
    unread = run_forms.unread(rows, run_forms.Reader(session.store(), session.life, now)) if rows else {}
    seen = {row.id: session.owners.facts(row.owner).seen_at for row, life in listing if row.owner and life == "dead"}
    if session.options.json:
        document = runs_document(listing, now=now, next=_next(rows, total), ledgers=unread, seen=seen)
        out.write(json_text.document(document if not count else document | {"runs": [], "count": total}))
        return 0
    if count:
        out.write(f"{total}\n")
        return 0
    listed = runs_document(listing, now=now, next=None, ledgers=unread, seen=seen)["runs"]
    if out.terminal:
        length = session.store().prefix_length() if rows else 0
        out.write(runs.people(listed, rows, out, now=now, total=total, id_length=length))
    else:
        out.write(runs.piped(listed, rows))
    return 0


def _order(session: Session, sort: str) -> Callable[[RunRow], Any]:
    """What `--sort` sorts by. Raises UsageError for what is no field."""
    now = session.clock.now()
    orders: dict[str, Callable[[RunRow], Any]] = {
        "created": lambda row: row.created_at,
        "duration": lambda row: took(row, phase_of(row, session.life(row)), now),
        "steps": lambda row: row.steps,
        "workflow": lambda row: row.workflow,
    }
    field = sort.removeprefix("-")
    if field not in orders:
        raise unknown_choice(session.arguments, "--sort", field, list(orders))
    return orders[field]


@dataclass(frozen=True, slots=True)
class Sieve:
    """What is asked of runs that no index answers: each row is looked at."""

    waiting_for: str | None
    since: str | None
    older: str | None
    min_duration: str | None
    grep: str | None

    def tests(self, now: int, arguments: Sequence[str]) -> list[Callable[[RunRow], bool]]:
        """What a row has to pass. Raises UsageError for what cannot be understood."""
        tests: list[Callable[[RunRow], bool]] = []
        if self.waiting_for is not None:
            kind = self.waiting_for
            if kind not in _WAITS:
                raise unknown_choice(arguments, "--waiting-for", kind, _WAITS)
            tests.append(lambda row: any(wait["kind"] == kind for wait in row_waits(row)))
        if self.since is not None:
            begun = instant_since(self.since, now)
            tests.append(lambda row: row.created_at >= begun)
        if self.older is not None:
            before = instant_since(self.older, now, "--older")
            tests.append(lambda row: row.created_at < before)
        if self.min_duration is not None:
            least = microseconds("--min-duration", self.min_duration)
            tests.append(lambda row: (row.finished_at or now) - row.created_at >= least)
        if self.grep is not None:
            text = self.grep.casefold()
            tests.append(lambda row: text in _text_of(row).casefold())
        return tests


def _text_of(row: RunRow) -> str:
    return "\n".join(part for part in (row.id, row.workflow, row.key, row.user, row.error, row.waiting) if part)


def _found(
    session: Session, workflow: str | None, status: str | None, key: str | None, sieve: Sieve, limit: int | None
) -> tuple[list[RunRow], int]:
    """The rows to show, and how many there are in all."""
    tests = sieve.tests(session.clock.now(), session.arguments)
    known = [one.value for one in (*Status, *Phase)]
    if status is not None and status not in known:
        raise unknown_choice(session.arguments, "--status", status, list(dict.fromkeys(known)))
    stored = Status(status) if status in [one.value for one in Status] else None
    if status is not None and stored is None:
        tests.append(lambda row: _is(row, status, session.life(row)))
    unfinished = True if sieve.waiting_for is not None or (status is not None and stored is None) else None
    wanted = Filter(workflow=workflow, status=stored, key=key, unfinished=unfinished)
    if session.is_fresh:
        return [], 0
    store = session.store()
    if not tests:
        return store.runs(wanted, limit=limit), store.count(wanted)
    rows = [row for row in store.runs(wanted) if all(test(row) for test in tests)]
    return rows[:limit], len(rows)


def _is(row: RunRow, phase: str, life: str | None) -> bool:
    return is_waiting(row, life) if phase == Phase.WAITING else phase_of(row, life) == phase


def _next(rows: list[RunRow], total: int) -> str | None:
    return "flow runs --all" if len(rows) < total else None
