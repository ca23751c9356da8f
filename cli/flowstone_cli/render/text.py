"""Lines of text: fitted to a terminal's width there, tab-separated in a pipe. Everything here takes text that may be unclean."""

from flowstone.clock import to_rfc3339
from flowstone_cli.clean import cells, clean, head, left, one_line
from flowstone_cli.terminal import Stream

LABEL = 9
"""Cells of a label in a block, with the blanks after it."""
INDENT = 2
LONGEST_VALUE = 200
"""Characters of a value that a block shows."""

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


def field(stream: Stream, label: str, text: str, word: str = "", *, whole: bool = False) -> str:
    """A labelled line of a block. `whole`: wrapped instead of cut, for what is typed or must be read to the end."""
    if not whole:
        return line(stream, " " * INDENT + left(label, LABEL), (text, word))
    width = stream.width if stream.terminal else 1_000_000
    made, first = "", True
    for paragraph in clean(text).split("\n"):
        for piece in wrap(paragraph.replace("\t", " "), max(8, width - INDENT - LABEL)):
            made += line(stream, " " * INDENT + left(label if first else "", LABEL), (piece, word))
            first = False
    return made


def wrap(text: str, width: int) -> list[str]:
    """Clean text broken at blanks into lines of at most `width` cells; a longer word is broken where it must be."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cells(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        while cells(word) > width:
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
