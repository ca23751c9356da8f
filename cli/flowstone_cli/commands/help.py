"""`flow help [TOPIC]`: a verb's help, or a page on a topic."""

from typing import Annotated, Any

import typer

from flowstone.errors import UsageError
from flowstone_cli import exit_codes
from flowstone_cli.session import Session

_IDS = """\
RUN is one of
  k7f2qd9xmc4w     a whole id
  k7f              the start of one, 3 characters or more, if no other run starts so
  @last            the newest run; @last~1 the one before
  @failed          the failed run, @waiting the one that waits, @running the one that runs;
                   with several of them exit 66 lists them, and @failed~0 is the newest
  @last:deploy     each of these for one workflow
  key:A-1001       the run that was started with --key A-1001
"""


def command(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="A verb, exit-codes or ids.", show_default=False)] = None,
) -> int:
    """Explain a verb or a topic: exit-codes, ids."""
    session: Session = ctx.obj
    session.out.write(_page(ctx, topic))
    return 0


def _page(ctx: typer.Context, topic: str | None) -> str:
    if topic == "exit-codes":
        width = max(len(name) for _, name, _ in exit_codes.TABLE)
        return "".join(f"{code:>3}  {name:<{width}}  {when}\n" for code, name, when in exit_codes.TABLE)
    if topic == "ids":
        return _IDS
    root = ctx.parent
    assert root is not None
    if topic is None:
        return root.get_help() + "\n"
    group: Any = root.command
    verb = group.get_command(root, topic)
    if verb is None:
        raise UsageError(f"there is no help on {topic!r}", hint="flow help exit-codes")
    with type(ctx)(verb, info_name=topic, parent=root) as inner:
        return inner.get_help() + "\n"
