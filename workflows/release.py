"""Release a folder: build an archive, test what was built, ask a person, publish it with its checksum.

flow run release --input workflows/release.json
flow approve @waiting publish --set notes="first one"

What it shows: a gate with typed data. The process ends while the run waits (exit 8); whoever answers carries it on.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from pydantic import BaseModel

from flowstone import Flow, NonRetryable, workflow


class Job(BaseModel):
    """The input. Relative paths count from where `flow run` was typed."""

    folder: Path
    version: str
    build_dir: Path
    publish_dir: Path
    answer_within: str = "2d"


class Built(BaseModel):
    """The artefact, and where it is to go, with paths that hold wherever `flow approve` is typed."""

    artefact: Path
    sha256: str
    publish_dir: Path


class SignOff(BaseModel):
    """What comes with a yes."""

    notes: str = ""


class Release(BaseModel):
    """The output."""

    published: Path
    sha256: str
    approved_by: str
    notes: str


class Broken(NonRetryable):
    """What was built does not work. Trying the same again would not help."""


def build(job: Job) -> Built:
    """Zip the folder's Python files. No times are written, so a second attempt gives the same bytes."""
    folder = job.folder.resolve(strict=True)
    artefact = job.build_dir.resolve() / f"{folder.name}-{job.version}.zip"
    artefact.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(artefact, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*.py")):
            archive.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
    return Built(artefact=artefact, sha256=sha256_of(artefact), publish_dir=job.publish_dir.resolve())


def test(artefact: Path) -> None:
    """Unpack what was built and compile it with another Python."""
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(artefact).extractall(folder)
        done = subprocess.run([sys.executable, "-m", "compileall", "-q", folder], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(done.stdout + done.stderr)


def publish(built: Built) -> Path:
    """Put the artefact in its place and its line into SHA256SUMS, replacing what an earlier attempt left."""
    built.publish_dir.mkdir(parents=True, exist_ok=True)
    content = built.artefact.read_bytes()
    if hashlib.sha256(content).hexdigest() != built.sha256:
        raise Broken(f"{built.artefact} is not what was built and approved")
    published = built.publish_dir / built.artefact.name
    sums = built.publish_dir / "SHA256SUMS"
    others = [line for line in _lines(sums) if not line.endswith(f"  {published.name}")]
    _replace(published, content)
    _replace(sums, "".join(f"{line}\n" for line in sorted([*others, f"{built.sha256}  {published.name}"])).encode())
    return published


def sha256_of(path: Path) -> str:
    """Hash one file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)


@workflow
async def release(flow: Flow, job: Job) -> Release:
    """Build, test, ask, publish."""
    built = await flow.do("build", build, job)
    await flow.do("test", test, built.artefact)
    answer = await flow.approval(
        "publish",
        schema=SignOff,
        expiry=job.answer_within,
        message=f"publish {built.artefact.name} ({built.sha256[:12]})?",
    )
    if not answer.approved:
        flow.cancel(f"publishing was {answer.status}")
    published = await flow.do("publish", publish, built)
    return Release(published=published, sha256=built.sha256, approved_by=answer.by or "", notes=answer.data.notes)
