"""`flow retry --dry-run`: which operations a retry keeps, and which run again."""

from collections.abc import Sequence

from flowstone.journal.labels import label_of
from flowstone_cli.render.text import field, tsv
from flowstone_cli.terminal import Stream


def people(kept: Sequence[str], again: Sequence[str], stream: Stream) -> str:
    """Two lists; what comes after the last operation runs for the first time."""
    return _named("kept", kept, stream) + _named("again", again, stream)


def piped(kept: Sequence[str], again: Sequence[str]) -> str:
    """`kept` or `again`, and the key."""
    return "".join(tsv("kept", key) for key in kept) + "".join(tsv("again", key) for key in again)


def _named(label: str, keys: Sequence[str], stream: Stream) -> str:
    return field(stream, label, ", ".join(label_of(key) for key in keys) or "nothing", whole=True)
