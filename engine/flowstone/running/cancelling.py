"""The request to cancel a run, and the event with which it reaches the run: decided from the ledger alone."""

from typing import Any

from flowstone.journal.events import Draft, Kind, body_text
from flowstone.journal.ledger import Ledger


def requested(ledger: Ledger, by: dict[str, Any], reason: str, *, undo: bool) -> list[Draft]:
    """The mail that asks for it; none if it has been asked for before, unless only now without the undo."""
    if ledger.cancel_request is not None and (undo or gives_up_undo(ledger)):
        return []
    return [Draft(Kind.RUN_CANCEL_REQUESTED, text=body_text(by=by, reason=reason, undo=undo))]


def cancelling(ledger: Ledger, **fields: Any) -> Draft:
    """The event with which the requested cancel reaches the run."""
    assert ledger.cancel_request is not None
    return Draft(Kind.RUN_CANCELLING, text=body_text(**ledger.cancel_request.body(), **fields))


def is_without_body(ledger: Ledger) -> bool:
    """Whether the run is being cancelled without its body, which did not fit the history when the cancel reached the run."""
    return "without_body" in (ledger.cancelling or {})


def gives_up_undo(ledger: Ledger) -> bool:
    """Whether a person has said to leave what was done as it is."""
    return ledger.cancel_request is not None and not ledger.cancel_request.body().get("undo", True)
