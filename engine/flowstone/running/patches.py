"""Where the marks of `flow.patched` stand in a branch: a body that is past a patch no longer asks for its mark."""

from functools import cached_property

from flowstone.journal.ledger import Ledger
from flowstone.running.body_loop import Branch


def skip_marks(ledger: Ledger, branch: Branch) -> None:
    """Pass over the marks at the branch's place: what is asked for there is no patch."""
    while _is_mark(ledger, branch, branch.position):
        branch.position += 1


class Reach:
    """How far a recorded run had come: the completions after which it is known to have asked for something.

    To be asked while nothing is added to the ledger.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def includes(self, last: str | None) -> bool:
        """Whether it had asked for anything since that completion (None: since its beginning) was handed out.

        Then it had also passed whatever the body comes to before it waits again.
        """
        return self._furthest >= self._place(last)

    @cached_property
    def _order(self) -> dict[str | None, int]:
        return {event.step: index for index, event in enumerate(self._ledger.completions)}

    @cached_property
    def _furthest(self) -> int:
        asked = [one for one in self._ledger.operations.values() if one.of_body and not one.is_patch]
        return max((self._place(one.opened.get("predecessor")) for one in asked), default=-2)

    def _place(self, key: str | None) -> int:
        return -1 if key is None else self._order.get(key, -1)


def skip_to_mark(ledger: Ledger, branch: Branch, name: str, *, passed: bool) -> bool:
    """Go to the place of the patch of that name in the branch, and say whether the run goes the new way.

    It does if its mark is recorded there, or if nothing at all is and the run had not `passed` there before the patch existed.
    """
    place = branch.position
    while _is_mark(ledger, branch, place) and ledger.by_place[branch.name, place].name != name:
        place += 1
    if not _is_mark(ledger, branch, place) and (passed or (branch.name, place) in ledger.by_place):
        return False
    branch.position = place
    return True


def _is_mark(ledger: Ledger, branch: Branch, position: int) -> bool:
    record = ledger.by_place.get((branch.name, position))
    return record is not None and record.is_patch
