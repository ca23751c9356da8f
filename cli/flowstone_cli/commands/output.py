"""`flow output RUN [STEP]`: the output of a run, or the result of one of its steps, as JSON."""

from typing import Annotated, Any

import typer

from flowstone.errors import NotFound
from flowstone_cli import exit_codes, json_text
from flowstone_cli.parameters import Path, Run
from flowstone_cli.render import outcome
from flowstone_cli.session import Session
from flowstone_cli.typed import again
from flowstone_cli.view import RunView


def command(
    ctx: typer.Context,
    run: Run,
    step: Annotated[str | None, typer.Argument(metavar="[STEP]", help="A step's name or key.", show_default=False)] = None,
    path: Path = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print a text bare, without quotes.")] = False,
) -> int:
    """Print the output of a run, or the result of one of its steps.

    Exits like the run: 1 if it failed, 3 if it was cancelled, 8 if it has not ended.
    """
    session: Session = ctx.obj
    row = session.find(run)
    view = session.view(row, session.err, reveal=True)
    code = exit_codes.OK
    if step is None:
        code, value = exit_codes.of_run(row.status, view.ledger.error), view.ledger.output
    else:
        value = _result(view, step)
    if path is not None and code == exit_codes.OK:
        value = _at(value, path, session)
    if session.options.json:
        fields = {"schema": "flow.output/1", "run": row.id, "step": step, "status": row.status.value, "value": value}
        session.out.write(json_text.document(fields))
    elif code == exit_codes.OK:
        session.out.write(value if raw and isinstance(value, str) else _text(value, session))
    if code != exit_codes.OK:
        session.tell(outcome.block(session.view(row, session.err), session.err))
    return code


def _at(value: Any, path: str, session: Session) -> Any:
    """The part of a value at a path. Raises NotFound with the command without it."""
    from flowstone.journal.paths import value_at

    try:
        return value_at(value, path)
    except NotFound as error:
        error.hint = again([one for one in session.arguments if one != f"--path={path}"], without=("--path", path))
        raise


def _text(value: Any, session: Session) -> str:
    return (json_text.pretty if session.out.terminal else json_text.compact)(value) + "\n"


def _result(view: RunView, step: str) -> Any:
    from flowstone.journal.points import event_number
    from flowstone.journal.state_at import results_of

    results = results_of(view.ledger.operations.values())
    if step in results:
        return results[step]
    ended = view.events[event_number(f"{step}", view.events, view.id)]  # refuses what is no step, and says what is near
    if ended.step in results:
        return results[ended.step]
    raise NotFound(f"{step} has no result", hint=f"flow status {view.id}")
