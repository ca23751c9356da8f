"""Which key an operation will have, as far as that can be told without running: a branch of the body with its counts.

What it says is what the body does (DESIGN.md section 6), or nothing.
"""

import unicodedata

from flowstone.errors import FlowMisuse
from flowstone.journal.keys import child_branch, clean_name, key_of

GAP = "\0"
"""In a name: text that only the run knows. No name holds this character."""

_TASK = ("task", "")


class Place:
    """A branch of the body. `name` is None for one whose number is not known: nothing in it has a certain key."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.log: list[tuple[str, str]] = []
        """Everything counted so far, as prefix and name; `unsure_since` takes parts of it back."""
        self._counts: dict[str, int | None] = {}
        self._tasks: int | None = 0
        self._gaps: list[tuple[str, str]] = []
        self._lost = False

    def take(self, prefix: str, name: str, *, repeated: bool) -> str | None:
        """Count an operation and give its key, if it is certain. `repeated`: it stands in a loop."""
        name = unicodedata.normalize("NFC", name)
        self.log.append((prefix, name))
        if GAP in name:
            self._gaps.append((prefix, name))
            return None
        counted = prefix + name
        occurrence = self._counts.get(counted, 0)
        unsure = repeated or self._lost or any(before == prefix and _may_be(gap, name) for before, gap in self._gaps)
        if occurrence is None or unsure:
            self._counts[counted] = None
            return None
        self._counts[counted] = occurrence + 1
        try:
            return None if self.name is None else key_of(prefix, self.name, clean_name(name, "flow"), occurrence)
        except FlowMisuse:
            return None  # the run will refuse this name

    def task(self, *, repeated: bool) -> "Place":
        """The branch of the next task made here."""
        self.log.append(_TASK)
        number = None if repeated or self._lost else self._tasks
        self._tasks = None if number is None else number + 1
        return Place(None if number is None or self.name is None else child_branch(self.name, number))

    def tasks_unknown(self) -> None:
        """Some number of tasks may have been made here."""
        self.log.append(_TASK)
        self._tasks = None

    def lose(self) -> None:
        """Anything may have been asked for here: no later key is certain."""
        self._lost = True

    @property
    def counts(self) -> "tuple[dict[str, int | None], int | None]":
        """What `restore` brings back."""
        return dict(self._counts), self._tasks

    def restore(self, counts: "tuple[dict[str, int | None], int | None]") -> None:
        """Count from there on: for the next arm of a branch. What has no certain count for other reasons keeps none."""
        self._counts, self._tasks = dict(counts[0]), counts[1]

    def unsure_of(self, other: "Place") -> None:
        """Whatever was counted in the other place may be counted here too, now or later, any number of times."""
        mark = len(self.log)
        self.log += other.log
        self.unsure_since(mark)

    def unsure_since(self, mark: int) -> None:
        """Whatever was counted since `len(log)` was `mark` may have been or not."""
        for one in self.log[mark:]:
            prefix, name = one
            if one == _TASK:
                self._tasks = None
            elif GAP in name:
                self._gaps.append(one)
            else:
                self._counts[prefix + name] = None


def _may_be(gap: str, name: str) -> bool:
    """Whether a name with gaps may turn out to be that name; says yes too often rather than too seldom."""
    return name.startswith(gap[: gap.index(GAP)]) and name.endswith(gap[gap.rindex(GAP) + 1 :])
