"""Text from data made safe for a terminal, and measured in cells. Every byte of data that is shown goes through `clean`."""

from collections.abc import Iterable
from unicodedata import category, combining, east_asian_width

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, invisible format marks (bidi, zero-width), halves of surrogate pairs, line and paragraph separators."""


def clean(text: str) -> str:
    r"""The text with everything that a terminal would obey, hide or reorder made visible: `\x1b`, `<U+202E>`.

    Newlines and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(char if char in "\n\t" or category(char) not in _UNSAFE else _escaped(char) for char in text)


def one_line(text: str) -> str:
    r"""As `clean`, with newlines and tabs written as `\n` and `\t`: for one row or one field."""
    safe = clean(text)
    return safe if safe.isprintable() else safe.replace("\n", "\\n").replace("\t", "\\t")


def cells(text: str) -> int:
    """How many cells of a terminal clean text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """Clean text cut in its middle to at most `width` cells, head and tail kept, never between a letter and its accents."""
    if cells(text) <= width:
        return text
    mark = ellipsis if cells(ellipsis) <= width else ""
    room = max(0, width - cells(mark))
    clusters = _clusters(text)
    tail = _taken(reversed(clusters), room // 2)
    head = _taken(clusters, room - sum(map(cells, tail)))
    return "".join(head) + mark + "".join(reversed(tail))


def head(text: str, width: int, ellipsis: str = "…") -> str:
    """Clean text cut at its end to at most `width` cells."""
    if cells(text) <= width:
        return text
    mark = ellipsis if cells(ellipsis) <= width else ""
    return "".join(_taken(_clusters(text), width - cells(mark))) + mark


def left(text: str, width: int) -> str:
    """Text filled with blanks on its right to `width` cells."""
    return text + " " * (width - cells(text))


def right(text: str, width: int) -> str:
    """Text filled with blanks on its left to `width` cells."""
    return " " * (width - cells(text)) + text


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 and category(char) == "Cc" else f"<U+{code:04X}>"


def _width(char: str) -> int:
    if combining(char) or category(char) in ("Mn", "Me") or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def _clusters(text: str) -> list[str]:
    clusters: list[str] = []
    for char in text:
        if clusters and _width(char) == 0:
            clusters[-1] += char
        else:
            clusters.append(char)
    return clusters


def _taken(clusters: Iterable[str], room: int) -> list[str]:
    taken = []
    for cluster in clusters:
        room -= cells(cluster)
        if room < 0:
            break
        taken.append(cluster)
    return taken
