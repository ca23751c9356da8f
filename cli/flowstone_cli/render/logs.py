"""`flow logs`: what steps printed, line by line, with the step before it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from flowstone.clock import to_rfc3339
from flowstone.journal.labels import label_of
from flowstone.ports import LogPiece
from flowstone_cli.clean import cells, clean, fit, left, one_line
from flowstone_cli.render.text import tsv
from flowstone_cli.terminal import Stream

WIDEST_NAME = 24
"""Cells of a step's name before its lines."""


Source = tuple[str | None, int | None, str]
"""Step, attempt and stream that a line comes from."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output of a step's attempt (or of the body, without a step)."""

    id: int
    """That of the piece in which it begins: the order of lines."""
    step: str | None
    attempt: int | None
    at: int
    stream: str
    text: str


class Lines:
    """Makes lines of pieces: a step's output is kept in the pieces that it was written in."""

    def __init__(self) -> None:
        self._begun: dict[Source, Line] = {}

    def take(self, pieces: Iterable[tuple[int, LogPiece]]) -> list[Line]:
        """The lines that these pieces end; a new attempt of a step ends those of the one before."""
        made = []
        for id_, piece in pieces:
            source = (piece.step, piece.attempt, piece.stream)
            if source not in self._begun:
                made += self._end([one for one in self._begun if one[0] == piece.step and one[1] != piece.attempt])
            begun = self._begun.pop(source, None) or Line(id_, piece.step, piece.attempt, piece.at, piece.stream, "")
            *whole, rest = (begun.text + piece.text).split("\n")
            for text in whole:
                made.append(replace(begun, text=text.removesuffix("\r")))
                begun = replace(begun, id=id_, at=piece.at)
            if rest:
                self._begun[source] = replace(begun, text=rest)
        return made

    def rest(self) -> list[Line]:
        """The lines that nothing has ended."""
        return self._end(list(self._begun))

    def _end(self, sources: list[Source]) -> list[Line]:
        return [self._begun.pop(source) for source in sources]


class People:
    """Lines for people: the step's name, a bar, the text; the names in one column, as wide as the widest so far."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._width = 0

    def draw(self, lines: list[Line]) -> str:
        """The lines as text. They are not cut: what a step said is to be read to the end."""
        names = [fit(_name(line), WIDEST_NAME, self._stream.glyph("…")) for line in lines]
        self._width = max([self._width, *map(cells, names)])
        if self._stream.spoken:
            return "".join(f"{_name(line) or 'the body'}: {clean(line.text.rpartition(chr(13))[2])}\n" for line in lines)
        bar = self._stream.paint(self._stream.glyph("│"), "quiet")
        made = []
        for name, line in zip(names, lines, strict=True):
            shown = line.text.rpartition("\r")[2]  # a line that was redrawn is shown as it was at last
            made.append(f"{self._stream.paint(left(name, self._width), 'quiet')} {bar} {clean(shown)}".rstrip() + "\n")
        return "".join(made)


def piped(lines: Iterable[Line], *, bare: bool) -> str:
    """`step TAB text`, or with `bare` the text alone."""
    if bare:
        return "".join(clean(line.text) + "\n" for line in lines)
    return "".join(tsv(line.step)[:-1] + "\t" + clean(line.text) + "\n" for line in lines)


def document(line: Line) -> dict[str, Any]:
    """A line in JSON."""
    return {"step": line.step, "attempt": line.attempt, "at": to_rfc3339(line.at), "stream": line.stream, "text": line.text}


def _name(line: Line) -> str:
    if line.step is None:
        return ""
    attempt = f"~{line.attempt}" if (line.attempt or 1) > 1 else ""
    return one_line(label_of(line.step)) + attempt
