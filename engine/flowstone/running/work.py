"""Whether a run that nobody owns has something to do now: decided from its ledger and the instant."""

from collections.abc import Callable

from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.states import SETTLED, Status
from flowstone.running.cancelling import gives_up_undo


def has_work(ledger: Ledger, now: int, news: Callable[[Operation], bool]) -> bool:
    """True if a pass would get the run further. What only the verb `flow resume` moves is no work.

    `news` tells whether a child has any: its process may have died before it told the parent.
    """
    if ledger.status in SETTLED:
        return False
    if ledger.cancel_request is not None and ledger.cancelling is None and ledger.undoing is None:
        return True
    if ledger.undoing is not None and gives_up_undo(ledger):
        return True
    suspension = ledger.suspension or {}
    if suspension.get("code") == "STOPPED":
        return ledger.cancel_request is not None
    if ledger.interrupted:
        return True
    if any(_ready(operation, now, news) for operation in ledger.waits.values()):
        return True
    return ledger.status is Status.RUNNING and not ledger.waits


def _ready(operation: Operation, now: int, news: Callable[[Operation], bool]) -> bool:
    if operation.kind == "approval":
        answered = operation.answer is not None and operation.answer.attempt == operation.last.number
        deadline = operation.opened["deadline"]
        return answered or (deadline is not None and deadline <= now)
    if operation.kind == "child" and operation.last.next_attempt_at is None:
        return operation.answer is not None or news(operation)
    if operation.last.status == "interrupted":
        return operation.answer is not None
    due = operation.wake_at or operation.last.next_attempt_at
    return due is not None and due <= now
