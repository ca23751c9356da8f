"""Which suspend gates the verb `flow resume` passes."""

from flowstone.errors import NotFound
from flowstone.journal.labels import typed_name
from flowstone.journal.ledger import Ledger
from flowstone.ports import RunRow


def passed_gates(row: RunRow, ledger: Ledger, reason: str | None) -> list[str]:
    """The keys of the suspend gates that were open when the run was suspended last; only the one that `reason` names, if given.

    Raises NotFound, with the open ones, for a reason that is none of them.
    """
    held = set((ledger.suspension or {}).get("gates", ()))
    gates = [gate for gate in ledger.open_gates() if gate.kind == "suspend" and gate.key in held]
    if reason is None:
        return [gate.key for gate in gates]
    meant = [gate.key for gate in gates if reason in (typed_name(gate.key, gate.name), gate.key)]
    if not meant:
        names = ", ".join(typed_name(gate.key, gate.name) for gate in gates) or "none"
        raise NotFound(f'run {row.id} is not suspended at "{reason}"; open: {names}', hint=f"flow status {row.id}")
    return meant
