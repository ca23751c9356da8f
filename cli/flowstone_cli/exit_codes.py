"""Exit codes: the one table, and which code an error or a run's end gives."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from flowstone.errors import FlowError
from flowstone.ports import RunRow

OK = 0
RUN_FAILED = 1
USAGE = 2
CANCELLED = 3
UNDO_FAILED = 4
NOT_FINISHED = 8
BAD_DATA = 65
NOT_FOUND = 66
CANNOT_LOAD = 69
INTERNAL = 70
CANNOT_CREATE = 73
STORAGE = 74
TRY_AGAIN = 75
REFUSED = 76
NOT_ALLOWED = 77
CONFIG = 78
TIMED_OUT = 124
SIGHUP = 129
SIGINT = 130
PIPE = 141
SIGTERM = 143

TABLE: tuple[tuple[int, str, str], ...] = (
    (OK, "ok", "did what was asked; the run completed"),
    (RUN_FAILED, "run failed", "the workflow ended failed; its undos are done"),
    (USAGE, "usage", "bad command line, or the run's state does not allow it"),
    (CANCELLED, "cancelled", "the run ended cancelled"),
    (UNDO_FAILED, "undo failed", "the run failed and an undo failed: someone must look"),
    (NOT_FINISHED, "not finished", "waiting, sleeping or still running"),
    (BAD_DATA, "bad data", "an input or answer is not JSON or does not fit"),
    (NOT_FOUND, "not found", "no such run, step, gate, workflow or file; several candidates"),
    (CANNOT_LOAD, "cannot load", "a workflow's file cannot be imported"),
    (INTERNAL, "internal", "our bug; the trace is in .flow/crash-*.log"),
    (CANNOT_CREATE, "cannot create", "a file for output cannot be made, or is there already"),
    (STORAGE, "storage", "database, disk or output failed; what was recorded is intact"),
    (TRY_AGAIN, "try again", "locked, owned by another process, or already answered"),
    (REFUSED, "refused", "history and code disagree, or the code is gone"),
    (NOT_ALLOWED, "not allowed", "approver policy, or a database that cannot be written"),
    (CONFIG, "config", "flow.toml or [tool.flow] is wrong"),
    (TIMED_OUT, "timed out", "the time given was up; the run is as it is"),
    (SIGHUP, "hangup", "stopped by SIGHUP"),
    (SIGINT, "interrupt", "stopped by Ctrl-C"),
    (PIPE, "broken pipe", "the reader of the output went away"),
    (SIGTERM, "terminated", "stopped by SIGTERM"),
)
"""Code, name, and when, in the order that help shows them."""

_KINDS = {
    "usage": USAGE,
    "bad_data": BAD_DATA,
    "misuse": BAD_DATA,
    "not_found": NOT_FOUND,
    "cannot_load": CANNOT_LOAD,
    "internal": INTERNAL,
    "cannot_create": CANNOT_CREATE,
    "storage": STORAGE,
    "try_again": TRY_AGAIN,
    "refused": REFUSED,
    "not_allowed": NOT_ALLOWED,
    "config": CONFIG,
}

_ENDS = {"completed": OK, "failed": RUN_FAILED, "cancelled": CANCELLED}


def of_error(error: FlowError) -> int:
    """The code of a command that was refused with this error."""
    return _KINDS.get(error.kind, INTERNAL)


def of_run(status: str, error: Mapping[str, Any] | None = None) -> int:
    """The code of a command that acted on a run which is now in this status, with this recorded error."""
    if status == "failed" and (error or {}).get("code") == "UNDO_FAILED":
        return UNDO_FAILED
    return _ENDS.get(status, NOT_FINISHED)


def of_row(row: RunRow) -> int:
    """The same by the run's row alone."""
    return of_run(row.status, json.loads(row.error) if row.error else None)


def worst(codes: Iterable[int]) -> int:
    """One code for several runs: the one that most wants somebody to look."""
    return max(codes, key=(OK, NOT_FINISHED, CANCELLED, RUN_FAILED, UNDO_FAILED).index)
