"""`flow diff`: the JSON paths that differ, each with what was and what is."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from flowstone_cli import json_text
from flowstone_cli.clean import cells, left, one_line
from flowstone_cli.render import spoken
from flowstone_cli.render.text import INDENT, line, tsv, value_text
from flowstone_cli.terminal import Stream

_SIGNS = {"replace": "~", "add": "+", "remove": "-"}
_WIDEST = 24
NARROW = 60
"""Cells of a window below which a value that does not fit beside its path stands under it."""
_NUMBER = re.compile(r"\d+(?=\])")

Change = dict[str, Any]
"""An entry of `changes[]` of flow.diff/1."""


def people(document: dict[str, Any], stream: Stream) -> str:
    """The two points, then a line per change; neighbours that change alike in places of a list are one line."""
    gap = ", " if stream.spoken else "   "
    made = "".join(
        line(stream, f"{name}: " if stream.spoken else left(name, INDENT), gap.join(_point(document[name]))) for name in "ab"
    )
    return made + ("\n" if document["changes"] else "") + changed(document["changes"], stream)


def changed(found: Iterable[Change], stream: Stream) -> str:
    """A line per change; neighbours that change alike in places of a list are one line."""
    changes = list(_folded(found))
    if not changes:
        return line(stream, "nothing differs")
    if stream.spoken:
        return spoken.changes(changes, lambda value: value_text(json_text.compact(value), stream), stream)
    width = min(_WIDEST, max(cells(one_line(change["path"])) for change in changes))
    arrow = stream.glyph("→")
    return "".join(_line(change, width, arrow, stream) for change in changes)


def _point(point: dict[str, Any]) -> tuple[str, str]:
    return point["run"], f"event {point['event']}"


def piped(document: dict[str, Any]) -> str:
    """`op`, path, before, after; the values as JSON."""
    return "".join(
        tsv(
            change["op"],
            change["path"],
            None if change["op"] == "add" else json_text.compact(change["before"]),
            None if change["op"] == "remove" else json_text.compact(change["after"]),
        )
        for change in document["changes"]
    )


def _line(change: Change, width: int, arrow: str, stream: Stream) -> str:
    before, after = (value_text(json_text.compact(change[name]), stream) for name in ("before", "after"))
    said = {"replace": f"{before} {arrow} {after}", "add": after, "remove": before}[change["op"]]
    start = f"{' ' * INDENT}{_SIGNS[change['op']]} "
    path = one_line(change["path"])
    if stream.terminal and stream.width < NARROW and cells(f"{start}{left(path, width)}  {said}") > stream.width:
        return line(stream, f"{start}{path}") + line(stream, f"{' ' * cells(start)}  {said}")
    return line(stream, f"{start}{left(path, width)}  {said}")


def _folded(changes: Iterable[Change]) -> Iterator[Change]:
    """Runs of one change at places that follow each other, as one at `[0..2]`."""
    run: list[Change] = []
    for change in changes:
        if run and not _follows(run[-1], change):
            yield _joined(run)
            run = []
        run.append(change)
    if run:
        yield _joined(run)


def _follows(one: Change, other: Change) -> bool:
    same = all(repr(one[name]) == repr(other[name]) for name in ("op", "before", "after"))
    place = _place(one["path"], other["path"])
    return same and place is not None and int(other["path"][slice(*place[1])]) == int(one["path"][slice(*place[0])]) + 1


def _place(one: str, other: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Where the one number stands in which two paths differ."""
    for here, there in zip(_NUMBER.finditer(one), _NUMBER.finditer(other), strict=False):
        if here[0] != there[0]:
            alike = (one[: here.start()], one[here.end() :]) == (other[: there.start()], other[there.end() :])
            return (here.span(), there.span()) if alike else None
    return None


def _joined(run: list[Change]) -> Change:
    place = _place(run[0]["path"], run[-1]["path"]) if len(run) > 1 else None
    if place is None:
        return run[0]
    first, last = run[0]["path"], run[-1]["path"]
    return run[0] | {"path": f"{first[: place[0][1]]}..{last[slice(*place[1])]}{first[place[0][1] :]}"}
