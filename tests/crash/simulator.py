"""Rebuilds what a disk could hold after a power loss, from the record of recorder.c, and what had been told by then.

The disk is honest and nothing more: what was synced is there; of the rest nothing, everything, or any sectors of any writes; a
name that was made, moved or removed since its folder was synced is as before, or as after, each for itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

SECTOR = 512


class Deed(NamedTuple):
    """One record."""

    op: str
    inode: int
    offset: int
    path: str
    data: bytes


def deeds(record: bytes) -> Iterator[Deed]:
    """The records in order."""
    at = 0
    while at < len(record):
        end = record.index(b"\n", at)
        op, inode, offset, length, path = record[at:end].decode().split(" ", 4)
        at = end + 1 + int(length)
        yield Deed(op, int(inode), int(offset), path, record[end + 1 : at])


Change = tuple[int, bytes | None]
"""Bytes at an offset; None: the file is cut off, or extended, there."""


def change(content: bytearray, offset: int, data: bytes | None) -> None:
    """Make a change to a file's content."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data


@dataclass
class File:
    """An inode: what is on the disk for sure, and what may be."""

    synced: bytearray = field(default_factory=bytearray)
    since: list[Change] = field(default_factory=list)

    def maybe(self, random: Random, luck: float) -> bytes:
        """What the disk could hold: of each sector that was written, by chance."""
        content = bytearray(self.synced)
        for offset, data in self.since:
            if data is None:
                if random.random() < luck:
                    change(content, offset, None)
                continue
            for start in range(0, len(data), SECTOR):
                if random.random() < luck:
                    change(content, offset + start, data[start : start + SECTOR])
        return bytes(content)

    def sync(self) -> None:
        """All that was written is on the disk."""
        for offset, data in self.since:
            change(self.synced, offset, data)
        self.since.clear()


@dataclass
class Disk:
    """A folder on a disk, as deeds reach it. Feed it deeds in order; `could_hold` at any time."""

    files: dict[int, File] = field(default_factory=dict)
    """By inode: the file that has the number now."""
    names: dict[str, File] = field(default_factory=dict)
    """As programs see them; and as they are on the disk for sure:"""
    kept: dict[str, File] = field(default_factory=dict)

    def take(self, deed: Deed) -> None:
        """One more deed."""
        path = deed.path
        match deed.op:
            case "L":
                if path not in self.names or self.names[path] is not self.files.get(deed.inode):
                    self.names[path] = self.files[deed.inode] = File()  # the number may have been another file's
            case "W":
                self._file(deed).since.append((deed.offset, deed.data))
            case "S":
                self._file(deed).since.append((deed.offset, None))
            case "F":
                self._file(deed).sync()
            case "R":
                self.names[deed.data.decode()] = self.names.pop(path)
            case "U":
                self.names.pop(path, None)
            case "D":
                here = {name for name in (*self.names, *self.kept) if name.rpartition("/")[0] == path}
                for name in here:
                    self.kept.pop(name, None)
                    if name in self.names:
                        self.kept[name] = self.names[name]

    def _file(self, deed: Deed) -> File:
        if deed.inode not in self.files:
            self.names[deed.path] = self.files[deed.inode] = File()
        return self.files[deed.inode]

    def could_hold(self, random: Random) -> dict[str, bytes]:
        """The content of each file after a power loss now."""
        luck = random.choice((0.0, 1.0, random.random()))
        found: dict[str, bytes] = {}
        for name in sorted({*self.names, *self.kept}):
            after = self.names.get(name) if random.random() < luck else self.kept.get(name)
            if after is not None:
                found[name] = after.maybe(random, luck)
        return found


def rebuilt(files: dict[str, bytes], old: Path, new: Path) -> None:
    """Put a state of the disk, recorded below `old`, below `new`."""
    for name, content in files.items():
        if name.endswith("-shm"):  # is no content: SQLite makes it anew after a restart of the machine
            continue
        path = new / Path(name).relative_to(old)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
