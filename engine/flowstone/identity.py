"""The only place that makes ids, seeds and names people: run ids, owner ids, invocation ids, and who is asking."""

import getpass
import os
import secrets
import socket
import sys
import uuid
from typing import Any

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base32, lower case: no i, l, o, u."""
LETTERS = "abcdefghjkmnpqrstvwxyz"
RUN_ID_LENGTH = 12

INVOCATIONS = uuid.UUID("6f0d2f1e-8a51-5c4e-9b7c-2f10a6c7d3e4")
"""Namespace of invocation ids. Frozen: outside systems keep these ids to recognise a repeated attempt."""


def new_run_id() -> str:
    """A fresh run id: 12 random base32 characters, the first a letter, so that it is never read as a number or option."""
    return secrets.choice(LETTERS) + "".join(secrets.choice(ALPHABET) for _ in range(RUN_ID_LENGTH - 1))


def new_owner_id() -> str:
    """A fresh id for this process: 128 random bits in hex."""
    return secrets.token_hex(16)


def new_seed() -> int:
    """A fresh seed for a run's `flow.random` and `flow.uuid`: 63 bits, so that it fits every store."""
    return secrets.randbits(63)


def invocation_id(run_id: str, step_key: str) -> str:
    """The id that every attempt of one step shares; hand it to outside systems as the idempotency key."""
    return str(uuid.uuid5(INVOCATIONS, f"{run_id}:{step_key}"))


def present_user() -> str:
    """The name of the user of this process; `FLOW_USER` overrides it."""
    if os.environ.get("FLOW_USER"):
        return os.environ["FLOW_USER"]
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def who() -> dict[str, Any]:
    """Who is asking, recorded with every answer: user, uid, the user behind sudo, host and terminal.

    Recorded, not proven: whoever can write the database file can write anything into it.
    """
    return {
        "user": present_user(),
        "uid": os.getuid(),
        "sudo_user": os.environ.get("SUDO_USER"),
        "host": socket.gethostname(),
        "tty": _terminal(),
    }


def _terminal() -> str | None:
    for stream in (sys.__stdin__, sys.__stderr__):
        try:
            if stream is not None and stream.isatty():
                return os.ttyname(stream.fileno())
        except (OSError, ValueError):
            continue
    return None
