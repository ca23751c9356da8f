"""The logger of a body: silent while history is replayed and after the pass, else into the run's output."""

import logging
from collections.abc import Callable


class BodyLog(logging.LoggerAdapter[logging.Logger]):
    """Gives messages from INFO on to `write`, while `heard` says yes."""

    def __init__(self, heard: Callable[[], bool], write: Callable[[int, str], None]) -> None:
        super().__init__(logging.getLogger("flowstone.body"), {})
        self._heard = heard
        self._write = write

    def isEnabledFor(self, level: int) -> bool:  # logging's name
        """Whether a message would be kept now."""
        return level >= logging.INFO and self._heard()

    def log(self, level: int, msg: object, *args: object, **_: object) -> None:
        """Keep a message."""
        if self.isEnabledFor(level):
            self._write(level, str(msg) % args if args else str(msg))
