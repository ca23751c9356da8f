"""Recognising what a body asks for in what is recorded: the first difference between journal and code, and its likely cause."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.running.steps.asked import Asked


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a journal and the code that replays it."""

    step: str
    """The key of the recorded operation."""
    recorded: str
    """It in words: `"charge card" (charge)`."""
    asked: str | None
    """What the code asks for in its place; None if it asks for nothing."""
    site: str | None
    """`folder/file.py:31`: where the code asks; if it does not, where the recorded one was asked for."""
    sentence: str
    cause: str
    """What has most likely led to it."""


Inputs = frozenset[tuple[str, str, str | None, str | None]]
"""Name, kind, function and input's digest of every operation of a journal."""


def inputs_of(ledger: Ledger) -> Inputs:
    """Those of the operations that the ledger holds."""
    return frozenset((one.name, one.kind, one.function, one.digest) for one in ledger.operations.values())


def difference(ledger: Ledger, record: Operation, asked: Asked[Any], inputs: Callable[[], Inputs] | None) -> Difference | None:
    """How an operation asked for differs from the recorded one at its place; None if it is that one.

    `inputs` is given under another version only: then another input is no difference, unless it is the input of another
    operation of that name, for the two were swapped.
    """
    same_version = inputs is None
    if (record.name, record.kind, record.function) != (asked.name, asked.kind, asked.function):
        said = f"the journal has {_described(record)}, the code asks for {_described(asked)} at {asked.request.site}"
        cause = OUTSIDE if same_version else _cause_of_another(ledger, record, asked)
    elif record.digest in (asked.digest, None) or asked.digest is None or record.opened.get("copied"):
        return None  # a fork, whose steps are copied, may have another input
    elif inputs is None or (asked.name, asked.kind, asked.function, asked.digest) in inputs():
        said = f"{_described(record)} was recorded with another input than the code gives it now at {asked.request.site}"
        cause = OUTSIDE if same_version else f'steps named "{record.name}" were swapped'
    else:
        return None
    sentence = f"step {_number(ledger, record)}: {said}"
    return Difference(record.key, _described(record), _described(asked), str(asked.request.site), sentence, cause)


def not_asked_for(ledger: Ledger, record: Operation, *, same_version: bool) -> Difference:
    """The difference that a recorded operation is asked for no longer."""
    site = record.opened.get("site")
    said = f"the journal has {_described(record)} (asked for at {site}), the code does not ask for it"
    cause = OUTSIDE if same_version else f'"{record.name}" was removed, or what leads to it has changed'
    sentence = f"step {_number(ledger, record)}: {said}"
    return Difference(record.key, _described(record), None, site, sentence, cause)


OUTSIDE = "the body is the same: randomness, the clock, a set's order or something else outside of the journal decides in it"


def _cause_of_another(ledger: Ledger, record: Operation, asked: Asked[Any]) -> str:
    """Why another operation stands at the place of the recorded one."""
    others = [other for other in ledger.operations.values() if other is not record]
    if (record.name, record.kind) == (asked.name, asked.kind):
        return f'another function runs under the name "{record.name}"'
    if any((other.name, other.kind, other.function) == (asked.name, asked.kind, asked.function) for other in others):
        return f'"{record.name}" was removed, or swapped with "{asked.name}"'
    if (record.kind, record.function, record.digest) == (asked.kind, asked.function, asked.digest):
        return f'"{record.name}" was renamed to "{asked.name}"'
    return f'"{asked.name}" was inserted before "{record.name}"'


def _number(ledger: Ledger, record: Operation) -> int:
    """Which operation of the journal it is, counted from 1."""
    return list(ledger.operations).index(record.key) + 1


def _described(operation: Operation | Asked[Any]) -> str:
    return f'"{operation.name}" ({operation.function or operation.kind})'
