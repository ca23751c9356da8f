"""Lines of text: fitted to a terminal's width there, tab-separated in a pipe. Everything here takes text that may be unclean."""

import re

from flowstone.clock import to_rfc3339
from flowstone_cli.clean import cells, clean, head, left, one_line
from flowstone_cli.terminal import Stream

LABEL = 9
"""Cells of a label in a block, with the blanks after it."""
INDENT = 2
LONGEST_VALUE = 200
"""Characters of a value that a block shows."""

_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:\\.|[^"\\])*"|'[^']*'|["'\\])+""")
"""A word of a command line, with the quotes around parts of it."""
_PROGRAMS = ("flow", "ls", "df", "cp", "mv", "ps", "cat", "fuser", "sqlite3", "pip", "cd")
"""What hints that are commands begin with."""

Part = str | tuple[str, str]
"""Text, or text and the word whose colour it takes."""


def line(stream: Stream, *parts: Part) -> str:
    """One line of parts, cut to the terminal's width; without trailing blanks."""
    room = stream.width if stream.terminal else 1_000_000
    shown: list[tuple[str, str]] = []
    for part in parts:
        text, word = (part, "") if isinstance(part, str) else part
        cut = head(one_line(text), room, stream.glyph("…"))
        room -= cells(cut)
        shown.append((cut, word))
    while shown and not shown[-1][0].strip():
        shown.pop()
    if shown:
        shown[-1] = (shown[-1][0].rstrip(), shown[-1][1])
    return "".join(stream.paint(text, word) for text, word in shown) + "\n"


def field(stream: Stream, label: str, text: str, word: str = "", *, whole: bool = False, typed: bool = False) -> str:
    """A labelled line of a block. `whole`: wrapped instead of cut, for what must be read to the end; `typed`: as a command is."""
    if stream.spoken:
        said = f"{label}: {clean(text)}" if label else clean(text)
        return f"{said}\n" if typed else told(stream, said, indent="")
    if typed:
        room = stream.width - INDENT - LABEL if stream.terminal else 1_000_000
        pieces = wrap_command(one_line(text), room)
        if max(map(cells, pieces)) > room:  # under its label there is more room
            under = wrap_command(one_line(text), stream.width - 2 * INDENT)
            return line(stream, " " * INDENT + label) + "".join(f"{' ' * 2 * INDENT}{piece}\n" for piece in under)
        return "".join(f"{' ' * INDENT}{left(label if not n else '', LABEL)}{piece}\n" for n, piece in enumerate(pieces))
    if not whole:
        return line(stream, " " * INDENT + left(label, LABEL), (text, word))
    width = stream.width if stream.terminal else 1_000_000
    made, first = "", True
    for paragraph in clean(text).split("\n"):
        for piece in wrap(paragraph.replace("\t", " "), max(8, width - INDENT - LABEL)):
            made += line(stream, " " * INDENT + left(label if first else "", LABEL), (piece, word))
            first = False
    return made


def told(stream: Stream, text: str, *, start: str = "", indent: str = "  ") -> str:
    """Clean text as lines: for a terminal broken at blanks, never within a word; the first begins with `start`."""
    if not stream.terminal:
        return start + text.replace("\n", f"\n{indent}") + "\n"
    made: list[str] = []
    for paragraph in text.split("\n"):
        taken = cells(indent) if made else cells(start)
        first, *more = wrap(paragraph.replace("\t", " "), max(8, stream.width - taken), whole=True)
        rest = wrap(" ".join(more), max(8, stream.width - cells(indent)), whole=True) if more else []
        made += [(indent if made else start) + first, *(indent + piece for piece in rest)]
    return "\n".join(made) + "\n"


def typed(stream: Stream, text: str, *, start: str) -> str:
    """A hint as lines: a command stays one that can be copied, anything else is text."""
    if not stream.terminal or cells(start + text) <= stream.width:
        return f"{start}{text}\n"
    if not (text.startswith("/") or text.partition(" ")[0] in _PROGRAMS):
        return told(stream, text, start=start, indent=" " * cells(start))
    pieces = wrap_command(text, stream.width - cells(start))
    return "".join(f"{' ' * cells(start) if number else start}{piece}\n" for number, piece in enumerate(pieces))


def wrap_command(text: str, width: int) -> list[str]:
    """A command broken between its words, with a backslash where a line goes on, so that it can be copied as it is.

    A word that is wider than `width`, in quotes perhaps, is left to the terminal.
    """
    if cells(text) <= width:
        return [text]
    lines = [""]
    for word in _WORD.findall(text):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cells(joined) > width - 2:
            lines.append(word)
        else:
            lines[-1] = joined
    return [*(f"{one} \\" for one in lines[:-1]), lines[-1]]


def wrap(text: str, width: int, *, whole: bool = False) -> list[str]:
    """Clean text broken at blanks into lines of at most `width` cells; a longer word is broken where it must be.

    `whole`: such a word is not broken but left to the terminal, so that it can be copied.
    """
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cells(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        while cells(word) > width and not whole:
            piece = head(word, width, "") or word[0]
            lines[-1] = piece
            lines.append("")
            word = word[len(piece) :]
        lines[-1] = word
    return [one for one in lines if one] or [""]


def tsv(*fields: object) -> str:
    """One line of a pipe: fields between tabs, `-` for what is unknown or empty."""
    return "\t".join("-" if value is None or value == "" else one_line(str(value)) for value in fields) + "\n"


def value_text(text: str, stream: Stream) -> str:
    """A value's JSON text as a block shows it: whole if it is short, else its beginning and its size."""
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[:LONGEST_VALUE]}{stream.glyph('…')} ({size(len(text))})"


def size(count: int) -> str:
    """A number of bytes or characters in words."""
    return f"{count:,} B" if count < 10_000 else f"{count / 1024:,.0f} KiB" if count < 10_000_000 else f"{count >> 20:,} MiB"


def count(number: int, noun: str) -> str:
    """`1 step`, `2 steps`, `2 tries`, `2 days`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{number:,} {noun}s"


def instant_words(at: int, *, seconds: bool = True) -> str:
    """An instant for people: `2026-12-01 09:12:40Z`, without seconds `2026-12-01 09:12Z`."""
    return to_rfc3339(at).replace("T", " ")[: 19 if seconds else 16] + "Z"
