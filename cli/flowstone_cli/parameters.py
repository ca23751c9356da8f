"""Arguments and options that several verbs share, as typer's annotations."""

from typing import Annotated

import typer

from flowstone.errors import BadData, UsageError

Run = Annotated[str, typer.Argument(metavar="RUN", help="An id, the start of one, @last, @failed, key:KEY.", show_default=False)]
Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs, each as RUN elsewhere.", show_default=False)]
Reason = Annotated[str | None, typer.Argument(metavar="[REASON]", help="The gate, if several are open.", show_default=False)]
Input = Annotated[
    list[str], typer.Option("-i", "--input", metavar="FILE|-", help="JSON; repeated ones are merged.", show_default=False)
]
Set = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="A field: JSON, else text; @FILE reads.", show_default=False)
]
SetStr = Annotated[list[str], typer.Option("--set-str", metavar="NAME=TEXT", help="A field, always text.", show_default=False)]
Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Your own name of the run.", show_default=False)]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for sleeps of any length.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Wait for no sleep.")]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="AT", help="An event number, -1, an instant, +1.5s, STEP, before:STEP.", show_default=False),
]
Path = Annotated[
    str | None,
    typer.Option("--path", metavar="PATH", help="Only the value there, as items[0].total.", show_default=False),
]
Comment = Annotated[str | None, typer.Option("--comment", metavar="TEXT", help="Kept with the answer.", show_default=False)]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who answers, if not you.", show_default=False)]
NoResume = Annotated[bool, typer.Option("--no-resume", help="Only record the answer.")]
Early = Annotated[bool, typer.Option("--early", help="Keep the answer for a gate not reached yet.")]


def microseconds(option: str, text: str) -> int:
    """The duration that an option was given. Raises UsageError for text that is none."""
    from flowstone.values.duration import parse

    try:
        return parse(text)
    except BadData as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from None


def instant_since(text: str, now: int, option: str = "--since") -> int:
    """The instant that an option was given: a duration before now, or an RFC 3339 instant. Raises UsageError."""
    from datetime import datetime

    from flowstone.clock import from_datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return now - microseconds(option, text)
    if moment.tzinfo is None:
        raise UsageError(f"{option}: {text!r} names no time zone", hint=f"{option} {moment.isoformat()}Z")
    return from_datetime(moment)
