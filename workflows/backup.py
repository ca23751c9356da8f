"""Back up a folder: hash its files in parallel, archive them, read the archive back, ask before deleting old ones.

flow run backup --input workflows/backup.json

What it shows: every step may run again after a crash, so each one can. The archive is written beside its name and moved there
when it is whole; what is deleted already is no error; and the archive's name comes from flow.now(), which a replay repeats.
"""

import asyncio
import hashlib
import os
import re
import tarfile
from pathlib import Path
from typing import IO

from pydantic import BaseModel, Field

from flowstone import Flow, NonRetryable, workflow

AT_ONCE = 16
"""Files hashed at the same time; each has a thread of its own."""


class Job(BaseModel):
    """The input. Relative paths count from where `flow run` was typed."""

    folder: Path
    archive_dir: Path
    keep: int = Field(default=3, ge=1)


class Found(BaseModel):
    """The files to archive, with paths that hold wherever `flow resume` is typed."""

    folder: Path
    archive_dir: Path
    names: list[str]


class Summary(BaseModel):
    """The output."""

    archive: Path
    files: int
    bytes: int
    pruned: list[str]


class ArchiveDiffers(NonRetryable):
    """The archive does not hold what was hashed: a file changed meanwhile. Reading it again will not heal that."""


def find_files(job: Job) -> Found:
    """List the regular files, without the archives themselves."""
    folder, archive_dir = job.folder.resolve(strict=True), job.archive_dir.resolve()
    names = [
        path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not path.is_relative_to(archive_dir)
    ]
    return Found(folder=folder, archive_dir=archive_dir, names=names)


def sha256_of(path: Path) -> str:
    """Hash one file."""
    with path.open("rb") as file:
        return _digest(file)


def _digest(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


def write_archive(folder: Path, names: list[str], archive: Path) -> int:
    """Write all of it, and only then give it its name. Returns its size in bytes."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(f".{archive.name}.partial")
    with partial.open("wb") as file:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as tar:
            for name in names:
                tar.add(folder / name, arcname=name, recursive=False)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(archive)
    return archive.stat().st_size


def verify(archive: Path, expected: dict[str, str]) -> int:
    """Read the archive back and compare every hash."""
    found = {}
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None:
                found[member.name] = _digest(content)
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        raise ArchiveDiffers(f"{archive.name} differs from {', '.join(wrong)}")
    return len(found)


def find_old(archive: Path, keep: int) -> list[str]:
    """Earlier archives of the same folder beyond the newest `keep`."""
    name = archive.name.rsplit("-", maxsplit=3)[0]
    ours = re.compile(re.escape(name) + r"-\d{8}-\d{6}-[0-9a-z]{12}\.tar\.gz")
    found = sorted(path.name for path in archive.parent.iterdir() if ours.fullmatch(path.name))
    return found[:-keep]


def prune(archive_dir: Path, names: list[str]) -> list[str]:
    """Delete archives."""
    for name in names:
        (archive_dir / name).unlink(missing_ok=True)
    return names


@workflow
async def backup(flow: Flow, job: Job) -> Summary:
    """Archive a folder, verify the archive, prune old ones."""
    found = await flow.do("find files", find_files, job)
    hashes: dict[str, str] = {}
    for start in range(0, len(found.names), AT_ONCE):
        some = found.names[start : start + AT_ONCE]
        got = await asyncio.gather(*(flow.do(f"hash {name}", sha256_of, found.folder / name) for name in some))
        hashes |= dict(zip(some, got, strict=True))

    archive = found.archive_dir / f"{found.folder.name}-{flow.now():%Y%m%d-%H%M%S}-{flow.run_id}.tar.gz"
    size = await flow.do("archive", write_archive, found.folder, found.names, archive)
    await flow.do("verify", verify, archive, hashes)

    pruned: list[str] = []
    old = await flow.do("find old", find_old, archive, job.keep)
    if old:
        answer = await flow.approval("prune", message=f"delete {', '.join(old)}?", expiry="7d")
        if answer.approved:  # else they stay: rejected, or nobody answered in time
            pruned = await flow.do("prune", prune, found.archive_dir, old)
    return Summary(archive=archive, files=len(hashes), bytes=size, pruned=pruned)
