"""`flow prune`: delete old runs that have ended, child runs with them."""

from typing import Annotated

import typer

from flowstone.errors import UsageError
from flowstone.journal.states import SETTLED
from flowstone.ports import Filter, RunRow
from flowstone_cli.commands.delete import Family, carry_out, weighed
from flowstone_cli.parameters import microseconds
from flowstone_cli.render.text import count, size
from flowstone_cli.session import Session
from flowstone_cli.typed import again, unknown_choice

_STATUSES = tuple(status.value for status in SETTLED)


def command(
    ctx: typer.Context,
    older: Annotated[
        str | None, typer.Option("--older", metavar="DUR", help="Only what ended so long ago.", show_default=False)
    ] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", help="Only completed, failed or cancelled ones.", show_default=False),
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", help="Keep the newest N of each workflow.", min=0, show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    vacuum: Annotated[bool, typer.Option("--vacuum", help="Give the room back to the disk.")] = False,
) -> int:
    """Delete runs that have ended, each with its child runs. What has not ended is never touched.

    Of --older, --status and --keep at least one must be given.
    """
    session: Session = ctx.obj
    if older is None and status is None and keep is None:
        raise UsageError("say which runs: --older, --status or --keep", hint="flow prune --older 30d --dry-run")
    if status is not None and status not in _STATUSES:
        raise unknown_choice(session.arguments, "--status", status, sorted(_STATUSES))
    age = None if older is None else microseconds("--older", older)
    if session.is_fresh:
        return carry_out(session, [], "prune", dry_run=True)
    session.store("read" if dry_run else "write")
    doomed = weighed(session, _chosen(session, age, status, keep))
    if doomed and not (yes or dry_run):
        words = f"{count(len(doomed), 'run')} ({size(sum(one.bytes for one in doomed))})"
        session.ask(
            f"delete {words} for good?",
            f"{words} would be deleted: say --yes, or --dry-run to see them",
            again(session.arguments, "--yes"),
        )
    return carry_out(session, doomed, "prune", dry_run=dry_run, vacuum=vacuum)


def _chosen(session: Session, age: int | None, status: str | None, keep: int | None) -> list[RunRow]:
    """The runs to be deleted, each with its children; a child goes only with its parent."""
    now = session.clock.now()
    family = Family(session.store().runs(Filter()))
    kept: dict[str, int] = {}
    chosen = []
    for row in family.by_id.values():  # newest first
        if row.parent_run in family.by_id:
            continue
        kept[row.workflow] = kept.get(row.workflow, 0) + 1
        if keep is not None and kept[row.workflow] <= keep:
            continue
        if row.finished_at is None or (age is not None and row.finished_at > now - age):
            continue
        if status is not None and row.status != status:
            continue
        whole = family.with_children([row])
        if all(one.status in SETTLED for one in whole):
            chosen += whole
    return chosen
