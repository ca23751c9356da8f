"""`flow reject RUN [REASON]`: say no at a gate."""

import typer

from flowstone_cli.answering import answer
from flowstone_cli.parameters import By, Comment, Early, Input, NoResume, NoWait, Reason, Run, Set, SetStr, Wait


def command(
    ctx: typer.Context,
    run: Run,
    reason: Reason = None,
    input: Input = [],  # noqa: B006  typer's way to say "none"; never changed
    set: Set = [],  # noqa: B006
    set_str: SetStr = [],  # noqa: B006
    comment: Comment = None,
    by: By = None,
    no_resume: NoResume = False,
    early: Early = False,
    wait: Wait = False,
    no_wait: NoWait = False,
) -> int:
    """Say no at a gate, and go on with the run.

    -i and --set carry the fields that the gate asks for; a reason that begins with - goes after --.
    """
    return answer(
        ctx.obj,
        run,
        reason,
        yes=False,
        files=input,
        sets=set,
        set_strs=set_str,
        comment=comment,
        by=by,
        no_resume=no_resume,
        early=early,
        limit=(wait, no_wait),
    )
