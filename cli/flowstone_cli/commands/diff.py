"""`flow diff A B`: what differs between two points of a run, or of two runs."""

from typing import Annotated, Any

import typer

from flowstone.errors import NotFound
from flowstone_cli import json_text
from flowstone_cli.session import Session

Point = Annotated[str, typer.Argument(metavar="RUN[@AT]", help="A run as it is now, or as it was at AT.", show_default=False)]


def command(
    ctx: typer.Context,
    a: Point,
    b: Point,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if anything differs.")] = False,
    ignore_times: Annotated[bool, typer.Option("--ignore-times", help="Leave out when something is due.")] = False,
) -> int:
    """Show what differs between two runs, or two points of one: RUN@12 RUN@41.

    AT is an event number, -1, an instant, +1.5s, STEP or before:STEP, as for flow state.
    """
    from flowstone.journal.state_at import diff_document
    from flowstone_cli.render import diff

    session: Session = ctx.obj
    out = session.out
    document = diff_document(_known(session, a), _known(session, b), ignore_times=ignore_times)
    if session.options.json:
        out.write(json_text.document(document))
    else:
        out.write(diff.people(document, out) if out.terminal else diff.piped(document))
    return 1 if exit_code and document["changes"] else 0


def _known(session: Session, text: str) -> dict[str, Any]:
    """`flow.state/1` at the point that `text` names."""
    from flowstone.journal.points import event_number
    from flowstone.journal.state_at import state_at

    form, at = _parts(session, text)
    row = session.find(form)
    events = session.events(row.id)
    return state_at(row, events, event_number(at, events, session.short(row.id)))


def _parts(session: Session, text: str) -> tuple[str, str]:
    """The run and the point in it: `@last@12`, `key:ana@example.org@before:charge`. The point is the last event by default."""
    if not text.startswith("key:"):
        form, _, at = text[1:].partition("@")
        return text[:1] + form, at or "-1"
    form, sign, at = text.rpartition("@")
    try:
        session.find(text)
    except NotFound:
        return (form, at) if sign else (text, "-1")
    return text, "-1"
