"""What a step leaves changed in this process is set back when it ends: a later step, in another process, would not find it."""

import os
from collections.abc import Iterator

from flowstone_cli.capture import Capture
from flowstone_cli.ears import Ears

_ANY = 0o077


class Restoring:
    """The working directory, the umask, the stop signals and the standard streams, as they are when it is made."""

    def __init__(self, ears: Ears, capture: Capture) -> None:
        self._ears = ears
        self._capture = capture
        self._folder = _folder()
        self._umask = os.umask(_ANY)
        os.umask(self._umask)

    def set_back(self) -> Iterator[str]:
        """Set back what was changed, while no step runs that may need it; what that was, in words."""
        if self._folder is not None and _folder() != self._folder:
            try:
                os.chdir(self._folder)
            except OSError as error:
                yield f"the working directory changed, and it cannot be set back: {error.strerror}"
            else:
                yield "the working directory changed"
        found = os.umask(self._umask)
        if found != self._umask:
            yield f"the umask changed to {found:03o}"
        if self._ears.hold():
            yield "the handling of signals changed"
        if self._capture.hold():
            yield "stdout or stderr replaced"


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  a text is enough, and it is asked after every step
    except OSError:
        return None
