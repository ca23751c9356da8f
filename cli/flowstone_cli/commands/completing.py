"""What the TAB key asks for: names of workflows and ids of runs. Not here: typer, which alone takes longer than a key press may.

`flow __complete runs|workflows PREFIX` prints one candidate per line; whatever goes wrong, it prints nothing.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST = 50
"""Candidates that are shown."""
_SIGNS = ("@last", "@failed", "@waiting", "@running")


def complete(arguments: Sequence[str]) -> int:
    """Print the candidates; the exit code, which is always 0."""
    try:
        what, prefix, *options = arguments
        given = dict(zip(options[::2], options[1::2], strict=False))
        sys.stdout.write("".join(f"{one}\n" for one in (_workflows if what == "workflows" else _runs)(prefix, given)))
        sys.stdout.flush()
    except Exception:  # noqa: S110  nobody wants to read about it in the middle of a line
        pass
    return 0


def _workflows(prefix: str, given: dict[str, str]) -> Iterator[str]:
    from flowstone.authoring.names import Index, index_file
    from flowstone.settings import load

    settings = load(Path.cwd(), flags={"dir": given.get("--dir")})
    for entry in Index(settings.dir, index_file(settings.root)).entries():
        name = entry.name or ""
        if name and name.startswith(prefix) and name.isprintable() and " " not in name:
            yield name


def _runs(prefix: str, given: dict[str, str]) -> Iterator[str]:
    from flowstone.settings import load
    from flowstone.storage.sqlite.ids import ids_with_prefix

    if prefix.startswith("@"):
        yield from (sign for sign in _SIGNS if sign.startswith(prefix))
        return
    yield from ids_with_prefix(load(Path.cwd(), flags={"db": given.get("--db")}).db, prefix.lower(), limit=MOST)
