"""The last lines of a terminal, redrawn in place: what must be written to get from one drawing to the next. Writes nothing."""

import re

from flowstone_cli.clean import cells

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronised update: a terminal that knows it shows the drawing at once; others take no notice."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Region:
    """Remembers what stands on the screen.

    The cursor stays visible, and below the lines: whatever ends us, kill -9 too, it is where it should be.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._width = 0

    def drawn(self, lines: list[str], width: int, above: str = "") -> str:
        """The text that shows `lines` (clean, at most `width` cells, without newline), and `above` for good over them.

        Only lines that differ are written; nothing differs: an empty text.
        """
        before = self._lines
        if above or len(lines) != len(before) or width != self._width:
            text = self._up(width) + "\r\x1b[J" + above + "".join(line + "\n" for line in lines)
            if not (before or lines):
                text = above
        else:
            text = self._changed(lines)
        self._lines, self._width = lines, width
        return _BEGIN + text + _END if text and (before or lines) else text

    def erased(self, above: str = "") -> str:
        """The text that takes the lines away, and leaves `above`."""
        return self.drawn([], self._width, above)

    def forget(self) -> None:
        """Something else was written since: the next drawing begins where the cursor is."""
        self._lines = []

    def _up(self, width: int) -> str:
        """To the first line, also after the terminal has become narrower and has broken long lines in two."""
        rows = len(self._lines)
        if width < self._width:
            rows = sum(max(1, -(-cells(_COLOUR.sub("", line)) // width)) for line in self._lines)
        return f"\x1b[{rows}A" if rows else ""

    def _changed(self, lines: list[str]) -> str:
        made, at = "", len(lines)
        for row, (old, new) in enumerate(zip(self._lines, lines, strict=True)):
            if old != new:
                made += _moved(at, row) + "\r\x1b[2K" + new
                at = row
        return made + _moved(at, len(lines)) + "\r" if made else ""


def _moved(start: int, to: int) -> str:
    if start == to:
        return ""
    return f"\x1b[{start - to}A" if to < start else f"\x1b[{to - start}B"
