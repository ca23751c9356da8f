"""`--dry-run` of retry and fork: which operations are kept, and which run again."""

from collections.abc import Sequence

from flowstone.journal.labels import label_of
from flowstone_cli.render.text import field, tsv
from flowstone_cli.terminal import Stream


def people(word: str, kept: Sequence[str], again: Sequence[str], stream: Stream) -> str:
    """Two lists, the first under `word`; what comes after the last operation runs for the first time."""
    return _named(word, kept, stream) + _named("again", again, stream)


def piped(word: str, kept: Sequence[str], again: Sequence[str]) -> str:
    """`word` or `again`, and the key."""
    return "".join(tsv(word, key) for key in kept) + "".join(tsv("again", key) for key in again)


def _named(label: str, keys: Sequence[str], stream: Stream) -> str:
    return field(stream, label, ", ".join(label_of(key) for key in keys) or "nothing", whole=True)
