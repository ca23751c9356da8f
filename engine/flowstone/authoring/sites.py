"""Where the author's code made a call: the nearest frame outside of the Flow's own files."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from flowstone.authoring.requests import Site

_OURS = tuple(
    str(Path(__file__).with_name(name)) for name in ("sites.py", "flow.py", "step_verbs.py", "wait_verbs.py", "blocking.py")
)
_PLACED: ContextVar[Site | None] = ContextVar("flowstone_site", default=None)


def site_of_caller() -> Site:
    """The author's line that is calling; for a `def` body the one that handed the call over."""
    placed = _PLACED.get()
    if placed is not None:
        return placed
    frame = sys._getframe(1)
    while frame.f_code.co_filename in _OURS and frame.f_back is not None:
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)


@contextmanager
def placed_at(site: Site | None) -> Iterator[None]:
    """Calls made in this block are the author's at `site`."""
    before = _PLACED.set(site)
    try:
        yield
    finally:
        _PLACED.reset(before)
