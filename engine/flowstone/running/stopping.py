"""Being told to stop: by a signal, in the middle of a pass."""

from collections.abc import Callable
from dataclasses import dataclass, field

from flowstone.journal.events import Draft, Kind, body_text
from flowstone.journal.ledger import Ledger
from flowstone.journal.states import Verb

GRACE = 10.0
"""Seconds that running attempts get to end."""


@dataclass(slots=True)
class Stop:
    """Tells passes to stop: `set` with STOPPED for Ctrl-C, else with the signal's name."""

    code: str | None = None
    wakes: list[Callable[[], object]] = field(default_factory=list)

    def set(self, code: str) -> None:
        """Stop for that reason; the first one counts."""
        self.code = self.code or code
        for wake in self.wakes:
            wake()


def halted(ledger: Ledger, code: str) -> list[Draft]:
    """The event of a run that was stopped: after Ctrl-C only `flow resume` goes on, after another signal recover does too."""
    if code == "STOPPED":
        gates = ledger.open_gates()
        body = body_text(code=code, gates=[gate.key for gate in gates], reasons=[gate.name for gate in gates])
        return [Draft(Kind.RUN_SUSPENDED, text=body)]
    return [Draft(Kind.RUN_INTERRUPTED, text=body_text(code=code, owner=ledger.owner, pid=None, host=None, found_by=None))]


def halting(code: str) -> Verb | None:
    """The transition that goes with it."""
    return Verb.SUSPEND if code == "STOPPED" else None
