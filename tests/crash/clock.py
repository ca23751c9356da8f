"""A wall clock for some processes only, which can be set while they run: `clock.c`, preloaded."""

import shutil
import struct
import subprocess
from pathlib import Path

SECOND = 1_000_000_000
HOUR, DAY = 3600 * SECOND, 86_400 * SECOND


def refusal() -> str | None:
    """Why no clock can be made here; None if one can."""
    return None if shutil.which("gcc") else "gcc is not installed"


class SetClock:
    """A clock that runs like the system's and is ahead of it by as much as it was set. Starts at no difference."""

    def __init__(self, folder: Path) -> None:
        """Compile it; its files lie in `folder`."""
        library, self._file = folder / "clock.so", folder / "clock"
        self._file.write_bytes(bytes(8))
        source = Path(__file__).with_name("clock.c")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
        self.environment = {"LD_PRELOAD": str(library), "FLOW_TEST_CLOCK": str(self._file)}
        """What a process is to be started with that shall go by it."""
        self.ahead = 0

    def set(self, ahead: int) -> None:
        """From now on it is ahead of the system's by so many nanoseconds."""
        with self._file.open("r+b") as file:  # one write of eight bytes: nobody sees half of it
            file.write(struct.pack("=q", ahead))
        self.ahead = ahead
