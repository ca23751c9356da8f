"""What happens on a bug of ours: a file with the trace (no values of variables), one sentence on stderr, exit 70."""

import os
import sys
import time
import traceback
from pathlib import Path

from flowstone_cli import VERSION, exit_codes
from flowstone_cli.app import wants_json
from flowstone_cli.clean import one_line


def report(error: Exception, arguments: list[str]) -> int:
    """Keep the trace where it can be found and say so; the exit code."""
    trace = "".join(traceback.format_exception(error))
    place = _keep(trace)
    message = f"flow has a bug: {type(error).__name__}: {one_line(str(error))[:500]}"
    if wants_json(arguments):
        from flowstone_cli import json_text

        fields = {"schema": "flow.error/1", "code": exit_codes.INTERNAL, "kind": "internal"}
        text = json_text.document({**fields, "message": message, "hint": place and f"cat {place}"})
    else:
        text = f"error: {message}\n" + (f"  try: cat {one_line(str(place))}\n" if place else "")
        if place is None or any(argument in ("-v", "-vv", "--verbose") for argument in arguments):
            text += trace.encode("ascii", "backslashreplace").decode().replace("\x1b", "\\x1b")
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except OSError:
        pass
    return exit_codes.INTERNAL


def _keep(trace: str) -> str | None:
    try:
        from flowstone.settings import load

        folder = load(Path.cwd(), flags={}).root / ".flow"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"crash-{time.time_ns() // 1_000_000}-{os.getpid()}.log"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123  a descriptor
            file.write(f"flow {VERSION}, Python {sys.version.split()[0]}\n{trace}")
    except Exception:  # a second failure must not hide the first
        return None
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
