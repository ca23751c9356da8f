"""Lines about runs that a sweep or a worker takes up: what a run was before and is now."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flowstone.journal.words import duration_words
from flowstone.running.recovery import Passed
from flowstone_cli import json_text
from flowstone_cli.clean import left, one_line
from flowstone_cli.render.text import count, line, tsv
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


def passed_words(passed: Sequence[Passed], now: int, folder: str, shown: Callable[[str], str]) -> list[str]:
    """Why a sweep leaves runs alone, and the command for them. `shown` says how an id is written."""
    resting = sorted((one for one in passed if one.until is not None), key=lambda one: one.until or 0)
    elsewhere = [one for one in passed if one.until is None]
    said = []
    if resting:
        first = resting[0]
        which = "taken up again" if len(resting) == 1 else "the first taken up again"
        when = duration_words((first.until or 0) - now)
        said.append(f"{_are(len(resting))} interrupted, {which} in {when}: flow resume {shown(first.row.id)}")
    if elsewhere:
        belong = "belongs to a workflow that is" if len(elsewhere) == 1 else "belong to workflows that are"
        names = ", ".join(sorted({one_line(one.row.workflow) for one in elsewhere})[:3])
        said.append(f"{count(len(elsewhere), 'run')} {belong} not in {folder} ({names}): flow recover --dir FOLDER")
    return said


def _are(number: int) -> str:
    return "1 run is" if number == 1 else f"{number} runs are"


def worker_line(event: str, at: str, one: Swept) -> str:
    """One line of JSON about a run that a worker has taken up or put down."""
    fields = {"at": at, "event": event, "id": one.id, "workflow": one.workflow, "before": one.before}
    return json_text.compact({**fields, "after": one.after, "exit": one.exit, "error": one.error}) + "\n"
