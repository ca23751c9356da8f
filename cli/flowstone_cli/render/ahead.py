"""What of a run's plan is still ahead: the operations that it has not asked for yet, in the order of the source."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from flowstone.journal.keys import encoded
from flowstone.journal.labels import label_of
from flowstone.journal.plan import HOLE
from flowstone_cli.clean import head, one_line

CONDITION = 40
"""Cells of a condition's source text."""
_PREFIXES = {"approval": "approve:", "suspend": "suspend:", "sleep": "sleep:"}
_NOT_SHOWN = ("state", "unknown")
_MAYBE = ("if", "else", "case", "try", "except", "loop", "later")
"""Blocks that a body may pass without asking for what stands in them."""
_PLACES = re.compile(r"\[[^\]]*\]/?|#\d+")


class Coming(NamedTuple):
    """One operation that the plan has and the run has not reached."""

    label: str
    note: str


class Ahead:
    """The plan of a run and how far it has come. `plan`: the entries of `plan[]` of flow.run/1."""

    def __init__(self, plan: Sequence[Mapping[str, Any]]) -> None:
        self._entries = [entry for entry in plan if entry["kind"] not in _NOT_SHOWN and (entry["key"] or entry["name"])]
        self._reached: set[int] = set()
        self._furthest = -1
        self._by_base: dict[str, list[int]] = {}
        self._with_holes: list[tuple[re.Pattern[str], int]] = []
        for index, entry in enumerate(self._entries):
            base = entry["key"] or _PREFIXES.get(entry["kind"], "") + encoded(entry["name"])
            if HOLE in (entry["name"] or ""):
                parts = (re.escape(encoded(part)) for part in entry["name"].split(HOLE))
                pattern = re.escape(_PREFIXES.get(entry["kind"], "")) + ".*".join(parts)
                self._with_holes.append((re.compile(pattern, re.DOTALL), index))
            else:
                self._by_base.setdefault(_base(base), []).append(index)
        self._coming: list[Coming] | None = None

    def reached(self, key: str) -> None:
        """The run has asked for an operation, which has this key."""
        base = _base(key)
        places = self._by_base.get(base) or [place for form, place in self._with_holes if form.fullmatch(base)]
        new = [place for place in places if place not in self._reached] or places
        if new:
            self._reached.add(new[0])
            self._furthest = max(self._furthest, new[0])
            self._coming = None

    def is_over(self) -> None:
        """Nothing of it comes any more: what was done is being undone."""
        self._entries, self._coming = [], None

    @property
    def coming(self) -> list[Coming]:
        """What may still come; what stands under a condition only until something behind it was reached."""
        if self._coming is None:
            self._coming = [*self._left()]
        return self._coming

    def _left(self) -> Iterable[Coming]:
        for place, entry in enumerate(self._entries):
            conditions = [block for block in entry["in"] if block["kind"] in _MAYBE]
            if place in self._reached or (conditions and place < self._furthest and not self._is_beside(entry)):
                continue
            if any(block["kind"] in ("except", "later") for block in conditions):
                continue  # not what one expects to come
            key = entry["key"] or _PREFIXES.get(entry["kind"], "") + encoded(entry["name"])
            yield Coming(label_of(key), ", ".join(["planned", *_words(conditions)]))

    def _is_beside(self, entry: Mapping[str, Any]) -> bool:
        """Whether it stands in the same parallel block or loop as what the run has reached last."""
        ours = [block for block in entry["in"] if block["kind"] in ("parallel", "loop")]
        return any(block in self._entries[self._furthest]["in"] for block in ours)


def _base(key: str) -> str:
    """A key without its places and repeats: `quotes[dhl]` → `quotes`, `[1]/fetch#1` → `fetch`."""
    return _PLACES.sub("", key) if "[" in key or "#" in key else key


def _words(conditions: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    for block in conditions[-1:]:
        text = head(one_line(block["text"]), CONDITION, "...")
        match block["kind"]:
            case "if" | "case":
                yield f"only if {text}"
            case "else":
                yield "otherwise"
            case "loop":
                yield text
