"""Running a program as a step: its output goes to the step's log, and its whole process group ends with the attempt."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from flowstone.authoring.current import current_step

KEPT = 256 * 1024
"""Characters of a program's output that its result keeps, from the end; the log has more."""
PATIENCE = 2.0
"""Seconds between SIGTERM and SIGKILL."""


class ShellFailed(Exception):
    """A program ended with another exit code than 0."""

    def __init__(self, program: str, code: int, tail: str) -> None:
        super().__init__(f"{program} ended with exit code {code}" + (f": {tail}" if tail else ""))
        self.program = program
        self.code = code


@dataclass(frozen=True)
class ShellResult:
    """What a program that ended with exit code 0 printed: the end of each stream."""

    out: str
    err: str


async def run_program(argv: Sequence[str], cwd: str | None, env: Mapping[str, str] | None) -> ShellResult:
    """Run a program without a shell, in a process group of its own. `env` is added to the environment.

    Raises ShellFailed for an exit code other than 0, OSError if it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        out, err, code = await asyncio.gather(_kept(process.stdout, "out"), _kept(process.stderr, "err"), process.wait())
    except asyncio.CancelledError:
        await _end_group(process)
        raise
    if code != 0:
        raise ShellFailed(argv[0], code, err.strip().rpartition("\n")[2][:500])
    return ShellResult(out, err)


async def _kept(stream: asyncio.StreamReader, name: str) -> str:
    step, kept = current_step(), ""
    while chunk := await stream.read(65536):
        text = chunk.decode(errors="backslashreplace").replace("\0", "\\x00")
        step.output(name, text)
        kept = (kept + text)[-KEPT:]
    return kept


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """SIGTERM, and SIGKILL for what is left of the group after a while, also when the program itself has gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), PATIENCE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
