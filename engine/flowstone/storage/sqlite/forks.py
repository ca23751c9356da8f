"""Tells open stores, locks and owners that this process is a forked child: what they hold belongs to the parent."""

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something that must not be used, or kept, in a forked child."""

    def forked(self) -> None:
        """Called in the child, once, before anything else runs there."""
        ...


_watched: WeakSet[Forkable] = WeakSet()


def watch(thing: Forkable) -> None:
    """Call `thing.forked()` in every child forked from now on, for as long as `thing` is alive."""
    _watched.add(thing)


def _tell_all() -> None:
    for thing in list(_watched):
        thing.forked()


os.register_at_fork(after_in_child=_tell_all)  # once for the module: such a hook cannot be taken back
