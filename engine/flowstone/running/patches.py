"""Where the marks of `flow.patched` stand in a branch: a body that is past a patch no longer asks for its mark."""

from flowstone.journal.ledger import Ledger
from flowstone.running.body_loop import Branch


def skip_marks(ledger: Ledger, branch: Branch) -> None:
    """Pass over the marks at the branch's place: what is asked for there is no patch."""
    while _is_mark(ledger, branch, branch.position):
        branch.position += 1


def skip_to_mark(ledger: Ledger, branch: Branch, name: str, *, replaying: bool) -> bool:
    """Go to the place of the patch of that name in the branch, and say whether the run goes the new way.

    It does if its mark is recorded there, or if nothing at all is and the run comes there for the first time.
    """
    place = branch.position
    while _is_mark(ledger, branch, place) and ledger.by_place[branch.name, place].name != name:
        place += 1
    if not _is_mark(ledger, branch, place) and (replaying or (branch.name, place) in ledger.by_place):
        return False
    branch.position = place
    return True


def _is_mark(ledger: Ledger, branch: Branch, position: int) -> bool:
    record = ledger.by_place.get((branch.name, position))
    return record is not None and record.is_patch
