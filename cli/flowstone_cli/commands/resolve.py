"""`flow resolve RUN STEP`: say what became of a step whose outcome is unknown, and go on."""

from typing import Annotated, Any

import typer

from flowstone.errors import UsageError
from flowstone_cli import input_files
from flowstone_cli.parameters import NoWait, Run, Wait
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    run: Run,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step's key.", show_default=False)],
    result: Annotated[
        str | None, typer.Option("--result", metavar="FILE|-", help="It succeeded, with this JSON result.", show_default=False)
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="It failed.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Attempt it again.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="How you know.", show_default=False)] = "",
    wait: Wait = False,
    no_wait: NoWait = False,
) -> int:
    """Resolve a step that may or may not have taken effect, and go on with the run.

    Takes exactly one of --result, --failed and --retry, and a reason, which is kept.
    """
    session: Session = ctx.obj
    outcome, value = _said(session, result, failed, retry)
    if not reason.strip():
        raise UsageError("--reason is missing: say how you know", hint="flow resolve --help")
    row = session.find(run, "write")
    from flowstone_cli.acting import Acting, park_after

    limit = park_after(wait, no_wait)
    with Acting(session, "write") as acting:
        acting.engine.resolve(row.id, step, outcome, result=value, reason=reason)
        acting.drive(row.id, "resolve", limit)
    return acting.conclude(row.id, answer=True)


def _said(session: Session, result: str | None, failed: bool, retry: bool) -> tuple[str, Any]:
    """The outcome, and the result of one that succeeded."""
    if (result is not None) + failed + retry != 1:
        raise UsageError("give one of --result FILE, --failed and --retry", hint="flow resolve --help")
    if result is not None:
        return "succeeded", input_files.read([result], [], [], session.arguments).value
    return ("failed" if failed else "retry"), None
