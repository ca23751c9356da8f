"""What tells one process from every other that ever was: machine, boot, pid namespace, pid, start time; and whether it lives."""

import hashlib
import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from flowstone.ports import Life

UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Process:
    """A process as written into its owner id. A field that the system does not tell is `-`; none of them holds a dot."""

    machine: str
    """Digest of the host's name and the machine's id."""
    boot: str
    """Digest of the boot id: another one after each start of the machine (Linux)."""
    namespace: str
    """Inode of the pid namespace (Linux): in another one the same pid is another process."""
    pid: str
    start: str
    """When it started, in clock ticks since the boot (Linux): tells it from a later process with its pid."""

    def text(self) -> str:
        """All fields with dots between them."""
        return f"{self.machine}.{self.boot}.{self.namespace}.{self.pid}.{self.start}"


def this_process() -> Process:
    """The process that asks."""
    machine, boot, namespace = here()
    state_and_start = _state_and_start("self")
    return Process(machine, boot, namespace, str(os.getpid()), state_and_start[1] if state_and_start else UNKNOWN)


@lru_cache
def here() -> tuple[str, str, str]:
    """Machine, boot and pid namespace of this process."""
    machine = _digest(socket.gethostname() + _content("/etc/machine-id"))
    return machine, _digest(_content("/proc/sys/kernel/random/boot_id")), _namespace()


def life(process: Process) -> Life:
    """Whether that process lives, as far as this one can tell. DEAD only on proof."""
    machine, boot, namespace = here()
    if process.machine != machine:
        return Life.UNKNOWN
    if process.boot != boot:
        return Life.UNKNOWN if UNKNOWN in (process.boot, boot) else Life.DEAD
    if process.namespace != namespace:
        return Life.UNKNOWN
    try:
        os.kill(int(process.pid), 0)
    except ProcessLookupError:
        return Life.DEAD
    except PermissionError:
        pass  # it is there, and another user's
    now = _state_and_start(process.pid)
    if now is None or UNKNOWN in (process.start, now[1]):
        return Life.UNKNOWN
    state, start = now
    return Life.ALIVE if start == process.start and state not in "ZX" else Life.DEAD


def is_stopped(process: Process) -> bool:
    """Whether that process is there and stopped, as far as this one can tell."""
    state_and_start = _state_and_start(process.pid) if life(process) is Life.ALIVE else None
    return state_and_start is not None and state_and_start[0] in "Tt"


def _state_and_start(pid: str) -> tuple[str, str] | None:
    """State letter and start time from /proc; None where there is none. The name before them may hold anything, also `)`."""
    fields = _content(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], fields[19]) if len(fields) > 19 else None


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return UNKNOWN


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else UNKNOWN


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
