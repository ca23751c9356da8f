"""Where the author's code made a call: the nearest frame outside of the Flow's own files, and the error that it handles there."""

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
_HANDLED: ContextVar[BaseException | None] = ContextVar("flowstone_handled", default=None)


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


def handled_by_caller() -> tuple[BaseException, ...]:
    """The errors that the author's code is handling: here, in a `def` body's thread, or where its task was made."""
    return tuple(error for error in (sys.exc_info()[1], _HANDLED.get()) if error is not None)


@contextmanager
def handling(error: BaseException | None) -> Iterator[None]:
    """Calls made in this block, and tasks made in it, belong to the author's handling of `error`."""
    before = _HANDLED.set(error)
    try:
        yield
    finally:
        _HANDLED.reset(before)
