"""`flow list`: one line per workflow, and one per file that cannot be read."""

from collections.abc import Sequence
from pathlib import Path

from flowstone.authoring.names import Entry
from flowstone_cli.clean import cells, fit, left, one_line
from flowstone_cli.render.text import line, tsv
from flowstone_cli.terminal import Stream


def people(entries: Sequence[Entry], folder: Path, start: Path, stream: Stream) -> str:
    """Name, what it does, where it is."""
    if not entries:
        return line(stream, f"no workflows in {_shown(folder, start)}")
    names = [one_line(entry.name or "-") for entry in entries]
    width = min(max(map(cells, names)), max(8, stream.width // 2))
    made = []
    for entry, name in zip(entries, names, strict=True):
        said = entry.error or entry.doc
        place = f"  {_place(entry, start)}" if entry.error or not said else f"  ({_place(entry, start)})"
        fitted = left(fit(name, width, stream.glyph("…")), width)
        made.append(line(stream, fitted, ("  " + said if said else "", "error" if entry.error else ""), (place, "quiet")))
    return "".join(made)


def piped(entries: Sequence[Entry], start: Path) -> str:
    """Name, file and line, description, error."""
    return "".join(tsv(entry.name, _place(entry, start), entry.doc, entry.error) for entry in entries)


def _place(entry: Entry, start: Path) -> str:
    return f"{_shown(entry.file, start)}:{entry.line}" if entry.line else _shown(entry.file, start)


def _shown(path: Path, start: Path) -> str:
    return str(path.relative_to(start) if path.is_relative_to(start) else path)
