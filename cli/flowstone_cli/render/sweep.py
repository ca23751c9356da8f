"""Lines about runs that a sweep or a worker takes up: what a run was before and is now."""

from typing import NamedTuple

from flowstone_cli import json_text
from flowstone_cli.clean import left, one_line
from flowstone_cli.render.text import line, tsv
from flowstone_cli.terminal import Stream


class Swept(NamedTuple):
    """One run of a sweep. `after` and `exit` are None while nothing has been done."""

    id: str
    workflow: str
    before: str
    after: str | None
    exit: int | None
    error: str | None
    """Why its pass was refused."""


def people(one: Swept, stream: Stream, run_id: str) -> str:
    """`✓ completed   deploy k7f2qd   was interrupted`."""
    phase = one.after or one.before
    said = "" if one.after is None else f"   was {one.before}"
    if one.error is not None:
        said = f"   refused: {one.error}"
    if stream.spoken:
        return line(stream, f"{phase}: {one_line(one.workflow)} {run_id}{said.replace('   ', ', ')}")
    return line(stream, (f"{stream.glyph(phase)} {left(phase, 11)}", phase), f"  {one_line(one.workflow)} {run_id}", said)


def piped(one: Swept) -> str:
    """id, workflow, phase before, phase after, exit code."""
    return tsv(one.id, one.workflow, one.before, one.after, one.exit)


def worker_line(event: str, at: str, one: Swept) -> str:
    """One line of JSON about a run that a worker has taken up or put down."""
    fields = {"at": at, "event": event, "id": one.id, "workflow": one.workflow, "before": one.before}
    return json_text.compact({**fields, "after": one.after, "exit": one.exit, "error": one.error}) + "\n"
