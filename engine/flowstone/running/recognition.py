"""Recognising what a body asks for in what is recorded: the first difference between journal and code, in words."""

from typing import Any

from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.running.steps.asked import Asked


def difference(ledger: Ledger, record: Operation, asked: Asked[Any], *, same_version: bool) -> str | None:
    """How an operation asked for differs from the recorded one at its place; None if it is that one.

    Under another version another input is no difference, unless it is the input of another operation of that name: then the two
    were swapped.
    """
    if (record.name, record.kind, record.function) != (asked.name, asked.kind, asked.function):
        return (
            f"step {_number(ledger, record)}: the journal has {_described(record)}, "
            f"the code asks for {_described(asked)} at {asked.request.site}"
        )
    if record.digest in (asked.digest, None) or asked.digest is None or record.opened.get("copied"):
        return None  # a fork, whose steps are copied, may have another input
    if same_version or _is_anothers(ledger, record, asked):
        return (
            f"step {_number(ledger, record)}: {_described(record)} was recorded with another input "
            f"than the code gives it now at {asked.request.site}"
        )
    return None


def not_asked_for(ledger: Ledger, record: Operation) -> str:
    """The difference that a recorded operation is asked for no longer."""
    return (
        f"step {_number(ledger, record)}: the journal has {_described(record)} "
        f"(asked for at {record.opened.get('site')}), the code does not ask for it"
    )


def _is_anothers(ledger: Ledger, record: Operation, asked: Asked[Any]) -> bool:
    return any(
        other is not record and (other.name, other.function, other.digest) == (asked.name, asked.function, asked.digest)
        for other in ledger.operations.values()
    )


def _number(ledger: Ledger, record: Operation) -> int:
    """Which operation of the journal it is, counted from 1."""
    return list(ledger.operations).index(record.key) + 1


def _described(operation: Operation | Asked[Any]) -> str:
    return f'"{operation.name}" ({operation.function or operation.kind})'
