"""`flow runs`: a table that drops columns, never ids, when space runs out; in a pipe one line per run."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from flowstone.journal.words import ago_words, took_words
from flowstone.ports import RunRow
from flowstone_cli.clean import cells, fit, left, one_line, right
from flowstone_cli.render import spoken
from flowstone_cli.render.text import count, line, tsv
from flowstone_cli.terminal import Stream

Listed = dict[str, Any]
"""One entry of flow.runs/1."""


class _Column(NamedTuple):
    title: str
    texts: list[str]
    to_right: bool
    from_width: int
    """The narrowest window that has it."""
    most: int

    @property
    def width(self) -> int:
        return min(self.most, max([len(self.title), *map(cells, self.texts)]))


def people(listed: Sequence[Listed], rows: Sequence[RunRow], stream: Stream, *, now: int, total: int, id_length: int) -> str:
    """The table, and below it how many there are."""
    if not listed:
        return "no runs\n"
    if stream.spoken:
        return "".join(spoken.listed(one, row, now, id_length, stream) for one, row in zip(listed, rows, strict=True))
    columns = [
        _Column("ID", [one["id"][:id_length] for one in listed], False, 0, id_length),
        _Column("WORKFLOW", [one_line(one["workflow"]) for one in listed], False, 28, 24),
        _Column("KEY", [one_line(one["key"] or "") for one in listed], False, 100, 20),
        _Column("STARTED", [ago_words(now - row.created_at) for row in rows], True, 40, 12),
        _Column("TOOK", [took_words((one["duration_ms"] or 0) * 1000) for one in listed], True, 48, 8),
        _Column("STEPS", [f"{row.done:,} of {row.steps:,}" for row in rows], True, 120, 16),
        _Column("NOTE", [one_line(one["note"]) for one in listed], False, 64, 1000),
    ]
    columns = [column for column in columns if stream.width >= column.from_width and (column.title != "KEY" or any(column.texts))]
    columns = _narrowed(columns, stream)
    made = line(stream, ("   " + "  ".join(_cell(column.title, column, stream) for column in columns)).rstrip())
    for index, one in enumerate(listed):
        texts = "  ".join(_cell(column.texts[index], column, stream) for column in columns)
        made += line(stream, (stream.glyph(one["phase"]), one["phase"]), f"  {texts}")
    return made + line(stream, (f"{len(listed):,} of {count(total, 'run')}", "quiet"))


def piped(listed: Sequence[Listed], rows: Sequence[RunRow]) -> str:
    """id, workflow, phase, created, finished, milliseconds, key, step, error or note."""
    return "".join(_piped(one, row) for one, row in zip(listed, rows, strict=True))


def _piped(one: Listed, row: RunRow) -> str:
    error = json.loads(row.error) if row.error else None
    step, said = row.current_step, one["note"]
    if error is not None:
        step = error.get("step") or step
        said = ": ".join(str(part) for part in (error.get("type"), error.get("message")) if part)
    return tsv(
        one["id"],
        one["workflow"],
        one["phase"],
        one["created_at"],
        one["finished_at"],
        one["duration_ms"],
        one["key"],
        step,
        said,
    )


def _narrowed(columns: list[_Column], stream: Stream) -> list[_Column]:
    """The columns with the workflow's names cut to what the others leave."""
    others = sum(column.width + 2 for column in columns if column.title not in ("WORKFLOW", "NOTE"))
    room = max(4, stream.width - 3 - others - 2)
    return [column._replace(most=min(column.most, room)) if column.title == "WORKFLOW" else column for column in columns]


def _cell(text: str, column: _Column, stream: Stream) -> str:
    fitted = fit(text, column.width, stream.glyph("…"))
    return right(fitted, column.width) if column.to_right else left(fitted, column.width)
