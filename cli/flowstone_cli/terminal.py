"""The two streams: whether each is a terminal, its width, colour and glyphs. Each is judged by itself."""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from flowstone.errors import StorageFailed

FALLBACK_WIDTH = 80
_COLORS = {
    "running": "36",
    "failed": "1;31",
    "interrupted": "1;33",
    "waiting": "1;33",
    "sleeping": "33",
    "retrying": "33",
    "undoing": "35",
    "undone": "35",
    "cancelled": "2",
    "planned": "2",
    "quiet": "2",
    "error": "1;31",
}
"""Only exceptions have colour, so that what went wrong stands out for everybody; success has none."""

LEVELS = "▁▂▃▄▅▆▇█"
"""Signs for how much of something there is, from little to all."""
_GLYPHS = {
    "completed": "✓",
    "succeeded": "✓",
    "approved": "✓",
    "resumed": "✓",
    "running": "▸",
    "failed": "✗",
    "rejected": "✗",
    "interrupted": "!",
    "waiting": "◆",
    "sleeping": "◇",
    "scheduled": "◇",
    "retrying": "↻",
    "undoing": "↶",
    "undone": "↶",
    "cancelled": "⊘",
    "expired": "⊘",
    "planned": "·",
    "…": "…",
    "│": "│",
    "─": "─",
    "┄": "┄",
    "┬": "┬",
    "█": "█",
    "▒": "▒",
    "▏": "▏",
    "·": "·",
    "×": "×",
    "→": "→",
    "●": "●",
    "▲": "▲",
    "├─": "├─",
    "└─": "└─",
    **dict(zip(LEVELS, LEVELS, strict=True)),
}
_ASCII = {
    "✓": "+",
    "▸": ">",
    "✗": "x",
    "!": "!",
    "◆": "?",
    "◇": ":",
    "↻": "@",
    "↶": "<",
    "⊘": "/",
    "·": ".",
    "…": "~",
    "│": "|",
    "─": "-",
    "┄": "~",
    "┬": "+",
    "█": "#",
    "▒": "=",
    "▏": "|",
    "×": "x",
    "→": "->",
    "●": "o",
    "▲": "^",
    **dict(zip(LEVELS[:-1], "_.:-=+*", strict=True)),
    "├─": "|-",
    "└─": "`-",
}


class ReaderGone(Exception):
    """The reader of stdout went away (EPIPE)."""


@dataclass(slots=True)
class Stream:
    """One output stream, and how it is written for. Text given to it must be clean."""

    file: TextIO | None
    """None: the stream is closed."""
    name: str
    terminal: bool
    color: bool
    width: int
    ascii: bool
    spoken: bool = False
    """Its text may be read aloud (ACCESSIBLE): words for signs, sentences for drawings."""

    def glyph(self, word: str) -> str:
        """The sign of a status or of a part of a drawing, as this stream can show it; for one that is read aloud the word."""
        if self.spoken:
            return word if word.isalpha() else "..." if word == "…" else _ASCII.get(word, word)
        sign = _GLYPHS.get(word, word)
        return _ASCII.get(sign, sign) if self.ascii else sign

    def paint(self, text: str, word: str) -> str:
        """The text in the colour of a status, if it has one and the stream shows colours."""
        code = _COLORS.get(word) if self.color and text else None
        return f"\x1b[{code}m{text}\x1b[0m" if code else text

    def write(self, text: str) -> None:
        """Write and flush. Raises ReaderGone when the reader went away, StorageFailed when it cannot be written."""
        if self.file is None:
            raise StorageFailed(f"{self.name} is closed: the answer has nowhere to go")
        try:
            self.file.write(text)
            self.file.flush()
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise ReaderGone from error
            raise StorageFailed(f"cannot write to {self.name}: {error.strerror}") from error


def stream(file: TextIO | None, name: str, *, color: str, env: Mapping[str, str] | None = None) -> Stream:
    """Judge a stream. `color` is what the flag or settings say: auto, always or never."""
    env = os.environ if env is None else env
    terminal = file is not None and file.isatty()
    return Stream(
        file=file,
        name=name,
        terminal=terminal,
        color=wants_color(color, terminal, env),
        width=width_of(file, terminal, env),
        ascii=wants_ascii(file, terminal, env),
        spoken=terminal and bool(env.get("ACCESSIBLE")),
    )


def wants_color(color: str, terminal: bool, env: Mapping[str, str]) -> bool:
    """Flag and settings > NO_COLOR > FORCE_COLOR or CLICOLOR_FORCE > TERM=dumb > whether it is a terminal."""
    if color in ("always", "never"):
        return color == "always"
    if env.get("NO_COLOR"):
        return False
    if any(env.get(name) and env[name] != "0" for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return terminal and env.get("TERM") != "dumb"


def width_of(file: TextIO | None, terminal: bool, env: Mapping[str, str]) -> int:
    """Columns: COLUMNS if it is a positive number, else the terminal's, else 80."""
    columns = env.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns[:6]) > 0:
        return int(columns[:6])
    if terminal and file is not None:
        try:
            return os.get_terminal_size(file.fileno()).columns or FALLBACK_WIDTH
        except (OSError, ValueError):
            pass
    return FALLBACK_WIDTH


def wants_ascii(file: TextIO | None, terminal: bool, env: Mapping[str, str]) -> bool:
    """Whether the stream's encoding lacks our glyphs, its terminal is a plain one, or FLOW_ASCII asks for it."""
    if env.get("FLOW_ASCII", "0") not in ("", "0"):
        return True
    if terminal and env.get("TERM") in ("dumb", "linux"):
        return True
    try:
        "".join(_GLYPHS.values()).encode(getattr(file, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False
