"""Drawings as sentences, for terminals whose text is read aloud (ACCESSIBLE): no bars, no columns, no sign that stands alone."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from flowstone.journal.scale import Scale
from flowstone.journal.words import ago_words, whole
from flowstone.ports import RunRow
from flowstone_cli.clean import clean
from flowstone_cli.render.rows import Drawn, Row
from flowstone_cli.render.text import count, line, wrap
from flowstone_cli.terminal import Stream
from flowstone_cli.view import RunView

_UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000), ("millisecond", 1000))


def duration(us: int) -> str:
    """A duration in whole words, in its two largest units: `2 days 3 hours`, `1 second 230 milliseconds`."""
    us = max(0, us)
    for (unit, size), (smaller, part) in pairwise((*_UNITS, ("", _UNITS[-1][1]))):
        number, rest = divmod(whole(us, part), size // part)
        if number:
            return count(number, unit) + (f" {count(rest, smaller)}" if rest and smaller else "")
    return "less than a millisecond"


def timeline(view: RunView, lines: Sequence[Drawn], scale: Scale, worked: int, end: int, stream: Stream) -> str:
    """A sentence about the run, one per cut, and one per row."""
    made = [f"{view.row.workflow} {view.id}: {view.phase.value}, took {duration(view.took)}, working {duration(worked)}."]
    made += [f"Cut: {duration(cut.hidden)} with nothing running." for cut in scale.cuts]
    for one in lines:
        if one.row is None:
            made.append(f"{one.hidden:,} more that are not told: flow timeline {view.id} --all")
        else:
            made.append(f"{one.row.label}: {', '.join(_facts(one.row, view, end))}.")
    return "".join(_sentence(sentence, stream) for sentence in made)


def listed(one: dict[str, Any], row: RunRow, now: int, id_length: int, stream: Stream) -> str:
    """A run of `flow runs` as a sentence."""
    facts = [one["phase"], f"started {ago_words(now - row.created_at)}", f"took {duration((one['duration_ms'] or 0) * 1000)}"]
    facts += [f"key {one['key']}"] if one["key"] else []
    facts += [one["note"]] if one["note"] else []
    return _sentence(f"{one['id'][:id_length]} {one['workflow']}: {', '.join(facts)}.", stream)


def _facts(row: Row, view: RunView, end: int) -> Iterator[str]:
    yield row.word
    yield duration(row.spent(end))
    if row.size:
        yield f"{row.size:,} beside each other"
        return
    last = row.last
    if len(row.spans) > 1:
        yield count(len(row.spans), "try")
    if last.child:
        yield f"child run {last.child[: len(view.id)]}"
    if last.by:
        yield f"by {last.by}" + (f', who said "{last.comment}"' if last.comment else "")
    yield from dict.fromkeys(span.error for span in row.spans if span.error)


def _sentence(text: str, stream: Stream) -> str:
    shown = clean(text).replace("\n", " ").replace("\t", " ")
    return "".join(line(stream, piece) for piece in wrap(shown, max(8, stream.width)))
