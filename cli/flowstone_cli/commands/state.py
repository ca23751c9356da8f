"""`flow state RUN`: what a run knew, now or at a past point."""

from typing import Annotated, Any

import typer

from flowstone.errors import NotFound, UsageError
from flowstone_cli import json_text
from flowstone_cli.parameters import At, Path, Run
from flowstone_cli.session import Session
from flowstone_cli.typed import again


def command(
    ctx: typer.Context,
    run: Run,
    at: At = None,
    path: Path = None,
    diff: Annotated[
        str | None, typer.Option("--diff", metavar="AT", help="Also what has changed since that point.", show_default=False)
    ] = None,
) -> int:
    """Show what a run knew: input, results, state. With --diff and --json only what has changed (flow.diff/1)."""
    from flowstone.journal.points import event_number
    from flowstone.journal.state_at import diff_document, state_at
    from flowstone_cli.render import diff as differences
    from flowstone_cli.render import state

    session: Session = ctx.obj
    row = session.find(run)
    events = session.events(row.id)
    out, short = session.out, session.short(row.id)
    known = state_at(row, events, event_number("-1" if at is None else at, events, short))
    if path is not None:
        return _value(known, path, diff, session)
    before = None if diff is None else state_at(row, events, event_number(diff, events, short))
    changed = None if before is None else diff_document(before, known)
    if session.options.json:
        out.write(json_text.document(known if changed is None else changed))
    elif out.terminal:
        out.write(state.people(known, row.workflow, session.short(row.id, out), events, out, pointer=changed is not None))
        if changed is not None:
            out.write(state.changes(changed["changes"], changed["a"]["event"], out))
    else:
        out.write(state.piped(known))
        if changed is not None:
            out.write("".join(f"changed\t{one}\n" for one in differences.piped(changed).splitlines()))
    return 0


def _value(known: dict[str, Any], path: str, diff: str | None, session: Session) -> int:
    """Print the value at a path of the state alone, as JSON."""
    from flowstone.journal.paths import value_at

    if diff is not None:
        raise UsageError("--path prints one value and --diff what has changed: give one of them", hint="flow state --help")
    try:
        value = value_at(known, path)
    except NotFound as error:
        error.hint = again([one for one in session.arguments if one != f"--path={path}"], without=("--path", path))
        raise
    session.out.write((json_text.pretty if session.out.terminal else json_text.compact)(value) + "\n")
    return 0
