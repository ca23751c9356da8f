"""`flow delete RUN…`: delete runs with their journals and output; and how a deletion is carried out and told."""

from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import typer

from flowstone.errors import TryAgain
from flowstone.journal.states import SETTLED
from flowstone.ports import AuditNote, Filter, RunRow
from flowstone_cli import exit_codes, json_text
from flowstone_cli.clean import one_line
from flowstone_cli.parameters import Runs
from flowstone_cli.render.text import count, line, size, tsv
from flowstone_cli.session import Session
from flowstone_cli.typed import again


class Doomed(NamedTuple):
    """A run that is to be deleted, and how many bytes its texts take."""

    row: RunRow
    bytes: int


def command(
    ctx: typer.Context,
    runs: Runs,
    with_children: Annotated[bool, typer.Option("--with-children", help="Their child runs too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
) -> int:
    """Delete runs with their journals and output. Who did it stays in flow audit.

    A run that a process executes is refused, and so is a child whose parent has not ended.
    """
    session: Session = ctx.obj
    rows = list({row.id: row for row in [session.find(form, "write") for form in runs]}.values())
    family = Family(session.store().runs(Filter()))
    wanted = family.with_children(rows) if with_children else rows
    for row in wanted:
        _refuse(session, row, {one.id for one in wanted}, family)
    doomed = weighed(session, wanted)
    if not yes:
        words = f"{count(len(doomed), 'run')} ({size(sum(one.bytes for one in doomed))})"
        session.ask(f"delete {words} for good?", f"{words} would be deleted: say --yes", again(session.arguments, "--yes"))
    return carry_out(session, doomed, "delete")


class Family:
    """Which runs are children of which."""

    def __init__(self, rows: Iterable[RunRow]) -> None:
        self.by_id = {row.id: row for row in rows}
        self._children: dict[str, list[RunRow]] = {}
        for row in self.by_id.values():
            if row.parent_run is not None:
                self._children.setdefault(row.parent_run, []).append(row)

    def with_children(self, rows: Iterable[RunRow]) -> list[RunRow]:
        """These runs, each followed by its children and theirs; none twice."""
        found: dict[str, RunRow] = {}
        todo = list(reversed(list(rows)))
        while todo:
            row = todo.pop()
            if row.id not in found:
                found[row.id] = row
                todo += reversed(self.children(row))
        return list(found.values())

    def children(self, row: RunRow) -> list[RunRow]:
        """The runs that are steps of this one."""
        return self._children.get(row.id, [])


def weighed(session: Session, rows: Iterable[RunRow]) -> list[Doomed]:
    """The runs and what they take."""
    return [Doomed(row, session.store().size(row.id)) for row in rows]


def carry_out(session: Session, doomed: Sequence[Doomed], verb: str, *, dry_run: bool = False, vacuum: bool = False) -> int:
    """Delete the runs one by one and tell it; the exit code. One that has changed meanwhile is left."""
    done, code = [], exit_codes.OK
    for one in doomed:
        try:
            if not dry_run:
                session.store("write").delete(one.row, audit=AuditNote(verb, session.who()))
        except TryAgain as error:
            session.say(f"left: {error.message}")
            code = exit_codes.TRY_AGAIN
            continue
        done.append(one)
        if not session.options.json:
            session.out.write(_line(session, one))
    if vacuum and not dry_run:
        session.store("write").vacuum()
    total = sum(one.bytes for one in done)
    if session.options.json:
        listed = [
            {"id": one.row.id, "workflow": one.row.workflow, "status": one.row.status.value, "bytes": one.bytes} for one in done
        ]
        fields = {"schema": f"flow.{verb}/1", "dry_run": dry_run, "runs": listed, "bytes": total}
        session.out.write(json_text.document(fields))
    else:
        session.say(f"{count(len(done), 'run')}, {size(total)} {'would be' * dry_run or 'are'} deleted")
    return code


def _line(session: Session, one: Doomed) -> str:
    row, out = one.row, session.out
    if not out.terminal:
        return tsv(row.id, row.workflow, row.status.value, one.bytes)
    status = row.status.value
    return line(out, (out.glyph(status), status), f" {session.short(row.id, out)}  {one_line(row.workflow)}  {size(one.bytes)}")


def _refuse(session: Session, row: RunRow, wanted: set[str], family: Family) -> None:
    """Raise TryAgain for a run that somebody still needs."""
    if row.owner is not None and session.life(row) != "dead":
        raise TryAgain(f"a process executes run {row.id}: it cannot be deleted now", hint=f"flow cancel {row.id}")
    parent = family.by_id.get(row.parent_run or "")
    if parent is not None and parent.status not in SETTLED and parent.id not in wanted:
        raise TryAgain(f"run {row.id} is a step of run {parent.id}, which has not ended", hint=f"flow status {parent.id}")
    for child in family.children(row):
        if child.status not in SETTLED and child.id not in wanted:
            raise TryAgain(
                f"run {row.id} has a child run that has not ended: {child.id}", hint=f"flow delete {row.id} --with-children"
            )
