"""Counting what code does, where timing it would measure the machine."""

import sys
from collections.abc import Callable
from typing import Any


def calls_of(work: Callable[[], object]) -> int:
    """How many Python functions are called: a measure that no other process disturbs."""
    seen = 0

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal seen
        seen += event == "call"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen
