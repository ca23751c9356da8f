"""A file descriptor that this process opened, and whether its number still leads to that file.

Code that closes descriptors which are not its own (a step that makes itself a daemon) gives their numbers to whatever is opened
next: what is then written under such a number goes into somebody else's file.
"""

import os

from flowstone.errors import StorageFailed


class Descriptor:
    """A descriptor, opened just now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.file = _file_of(number)

    @property
    def ours(self) -> bool:
        """Whether it still leads where it led."""
        try:
            return _file_of(self.number) == self.file
        except OSError:
            return False

    def close(self) -> None:
        """Close it, unless somebody else has."""
        if self.ours:
            os.close(self.number)


def lost() -> StorageFailed:
    """What is told when a descriptor is not ours any more."""
    return StorageFailed(
        "the open files of this process were closed by a step, the database among them; nothing more is written",
        hint="take close() and closerange() out of the step, then flow recover",
    )


def _file_of(number: int) -> tuple[int, int]:
    found = os.fstat(number)
    return found.st_dev, found.st_ino
