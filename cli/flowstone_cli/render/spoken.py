"""Drawings as sentences, for terminals whose text is read aloud (ACCESSIBLE): no bars, no columns, no sign that stands alone."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from flowstone.journal.labels import label_of
from flowstone.journal.scale import Scale
from flowstone.journal.words import ago_words, due_words, took_words, whole
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


def lasted(stream: Stream, us: int, short: Callable[[int], str] = took_words) -> str:
    """A duration as the stream shows it: in whole words where it is read aloud, else as `short` has it."""
    return duration(us) if stream.spoken else short(us)


def due(stream: Stream, us: int) -> str:
    """When something is due, `us` from now, as the stream shows it."""
    if not stream.spoken:
        return due_words(us)
    return f"in {duration(us)}" if us > 0 else f"{duration(-us)} ago"


def ago(stream: Stream, us: int) -> str:
    """How long ago, in one unit, as the stream shows it."""
    short = ago_words(us)
    if not stream.spoken:
        return short
    number, letter = short.removesuffix(" ago")[:-1], short.removesuffix(" ago")[-1]
    return f"{count(int(number), next(unit for unit, _ in _UNITS if unit.startswith(letter)))} ago"


def steps(view: RunView, shown: Sequence[dict[str, Any]], word: Callable[[dict[str, Any]], str], stream: Stream) -> str:
    """A sentence per step of `flow status`. `word`: how it stands."""
    made = []
    for step in shown:
        operation = view.ledger.operations[step["key"]]
        facts = [word(step)]
        if step["duration_ms"] is not None and facts != ["planned"]:
            facts.append(duration(step["duration_ms"] * 1000))
        closed = operation.completion.body() if operation.is_gate and operation.completion is not None else {}
        if who := (closed.get("by") or {}).get("user"):
            facts.append(f"{closed['outcome']} by {who}" + (f', who said "{closed["comment"]}"' if closed.get("comment") else ""))
        if len(operation.attempts) > 1 and not operation.is_gate:
            facts.append(count(len(operation.attempts), "try"))
        if step["child"]:
            facts.append(f"child run {step['child'][: len(view.id)]}")
        error = step["error"] if step["status"] in ("failed", "retrying") else None
        facts += [": ".join(str(part) for part in (error["type"], error["message"]) if part)] if error else []
        made.append(sentence(f"{label_of(step['key'])}: {', '.join(facts)}.", stream))
    return "".join(made)


def changes(found: Iterable[dict[str, Any]], shown: Callable[[Any], str], stream: Stream) -> str:
    """A sentence per change of `flow diff`. `shown`: a value as text."""
    made = []
    for one in found:
        match one["op"]:
            case "add":
                said = f"is new: {shown(one['after'])}"
            case "remove":
                said = f"is gone; it was {shown(one['before'])}"
            case _:
                said = f"was {shown(one['before'])} and is {shown(one['after'])}"
        made.append(sentence(f"{one['path']} {said}.", stream))
    return "".join(made)


def timeline(view: RunView, lines: Sequence[Drawn], scale: Scale, worked: int, end: int, stream: Stream) -> str:
    """A sentence about the run, one per cut, and one per row."""
    made = [f"{view.row.workflow} {view.id}: {view.phase.value}, took {duration(view.took)}, working {duration(worked)}."]
    made += [f"Cut: {duration(cut.hidden)} with nothing running." for cut in scale.cuts]
    for one in lines:
        if one.row is None:
            made.append(f"{one.hidden:,} more that are not told: flow timeline {view.id} --all")
        else:
            made.append(f"{one.row.label}: {', '.join(_facts(one.row, view, end))}.")
    return "".join(sentence(one, stream) for one in made)


def listed(one: dict[str, Any], row: RunRow, now: int, id_length: int, stream: Stream) -> str:
    """A run of `flow runs` as a sentence."""
    facts = [one["phase"], f"started {ago(stream, now - row.created_at)}", f"took {duration((one['duration_ms'] or 0) * 1000)}"]
    facts += [f"key {one['key']}"] if one["key"] else []
    facts += [one["note"]] if one["note"] else []
    return sentence(f"{one['id'][:id_length]} {one['workflow']}: {', '.join(facts)}.", stream)


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


def sentence(text: str, stream: Stream) -> str:
    """Text from data as lines of the window."""
    shown = clean(text).replace("\n", " ").replace("\t", " ")
    return "".join(line(stream, piece) for piece in wrap(shown, max(8, stream.width)))
