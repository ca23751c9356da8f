"""The rows of a timeline: steps, child runs under their step, fan-outs under one row; and which of them are drawn."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from flowstone.journal.labels import label_of
from flowstone.journal.phase import Phase
from flowstone.journal.timeline import Span

MOST = 60
"""Rows that are drawn for people unless more are asked for."""
FEW = 5
"""A fan-out of so many is always drawn whole."""
SLOWEST = 3
ONLY_SLOWEST = 20
"""Rows that `--only slow` shows."""
_TROUBLE = (20, 5, 1)
"""How many members that did not simply succeed a folded fan-out shows: fewer if there is no room for so many."""
_PLACE = re.compile(r"\[[^\]]*\]/?")
_INDEX = re.compile(r"#\d+")
_NUMBER = re.compile(r"[ _.-]?\d+$")

Test = Callable[["Row"], bool]


@dataclass(frozen=True, slots=True)
class Lane:
    """One run of a tree of runs."""

    spans: Sequence[Span]
    phase: Phase
    ended: bool


@dataclass(slots=True)
class Row:
    """All spans of one step, or a fan-out, which has only rows under it."""

    label: str
    spans: list[Span]
    lane: Lane
    under: list["Row"] = field(default_factory=list)
    size: int = 0
    """How many rows a fan-out stands for; 0 for a step."""
    everything: list[Span] = field(init=False)
    """Its own spans, or those of a fan-out's rows; a child run's are not counted again."""

    def __post_init__(self) -> None:
        self.everything = [span for member in self.under for span in member.everything] if self.size else self.spans

    @property
    def last(self) -> Span:
        """The newest attempt or round."""
        return self.spans[-1]

    @property
    def word(self) -> str:
        """The word whose sign it has; of a fan-out that of the member that most wants somebody to look."""
        if self.size:
            return min((member.word for member in self.under), key=_urgency)
        last = self.spans[-1]
        if last.resolved is not None:
            return last.resolved
        if last.status == "succeeded" and last.kind != "undo":
            return "succeeded"
        if last.kind == "undo" and last.status == "succeeded":
            return "undone"
        if last.kind == "undo" and last.status == "running" and self.lane.phase is not Phase.INTERRUPTED:
            return "undoing"
        if last.end_at is None:
            if last.is_wait:
                return "sleeping" if last.kind == "sleep" else "waiting"
            return "interrupted" if self.lane.phase is Phase.INTERRUPTED else "running"
        return "retrying" if last.status == "failed" and last.next_attempt_at is not None and not self.lane.ended else last.status

    @property
    def simple(self) -> bool:
        """Whether it did what it was asked for, and nothing of it needs to be seen."""
        return all(member.simple for member in self.under) if self.size else self.last.status in ("succeeded", "approved")

    def spent(self, end: int) -> int:
        """Microseconds of its attempts and the waits between them, without what a retry put aside and the time without a process.

        Of a fan-out from the first start to the last end.
        """
        if self.size:
            begin, over = min(one.start_at for one in self.everything), max(_over(one, end) for one in self.everything)
            return max(0, over - begin)
        if len(self.spans) == 1:
            return self.spans[0].lasted(end) or 0
        kept = [span for span in self.spans if not span.cut] or self.spans
        total = 0
        for span in kept:
            total += span.lasted(end) or 0
            if span is not kept[-1] and span.next_attempt_at is not None and span.end_at is not None:
                total += max(0, span.next_attempt_at - span.end_at)
        return total


@dataclass(frozen=True, slots=True)
class Drawn:
    """One line of the drawing: a row with the branches before it, or (`hidden`) how many rows are not drawn."""

    branches: str
    row: Row | None
    folded: bool = False
    hidden: int = 0
    of: Row | None = None
    """The fan-out whose members are hidden."""


def tree(run: Lane, children: Mapping[str, Lane], within: Callable[[Span], bool] = lambda _span: True) -> list[Row]:
    """The rows of a run by their first span, child runs and fan-outs under theirs. `within`: which spans are drawn."""
    return _tree(run, children, within, frozenset())


def _tree(run: Lane, children: Mapping[str, Lane], within: Callable[[Span], bool], above: frozenset[str]) -> list[Row]:
    by_key: dict[str, list[Span]] = {}
    for span in run.spans:
        if span.kind != "state" and within(span):
            by_key.setdefault(span.step, []).append(span)
    fans: dict[str, list[Row]] = {}
    for key, found in by_key.items():
        row = Row(label_of(key), found, run)
        for child in {span.child: None for span in found if span.child}:
            if child in children and child not in above:
                row.under += _tree(children[child], children, within, above | {child})
        fans.setdefault(_fan(key), []).append(row)
    rows: list[tuple[int, Row]] = []
    for base, members in fans.items():
        if len(members) > 1 and ("#" not in "".join(row.label for row in members) or _at_once(members)):
            members = [Row(label_of(base), [], run, members, len(members))]
        rows += [(_first(row), row) for row in members]
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def select(rows: list[Row], wanted: Test) -> list[Row]:
    """The rows that pass the test, whole, and the rows that they stand under."""
    kept = []
    for row in rows:
        if wanted(row):
            kept.append(row)
        elif under := select(row.under, wanted):
            kept.append(Row(row.label, row.spans, row.lane, under, len(under) if row.size else 0))
    return kept


def named(pattern: str) -> Test:
    """Whether a row's label, key or name fits a pattern: `*` is any text, `?` one letter, all else itself."""
    form = re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern), re.DOTALL)

    def fits(row: Row) -> bool:
        texts = [row.label] if row.size else [row.label, row.spans[0].step, row.spans[0].name]
        return any(form.fullmatch(text) for text in texts)

    return fits


def only(what: str, rows: list[Row], end: int) -> Test:
    """The test behind `--only failed|waiting|slow`."""
    if what == "failed":
        return lambda row: any(span.status in ("failed", "interrupted", "refused") for span in row.spans)
    if what == "waiting":
        return lambda row: any(span.is_wait or span.next_attempt_at is not None for span in row.spans)
    leaves = [row for row in _leaves(rows) if not row.last.is_wait]
    slowest = {id(row) for row in sorted(leaves, key=lambda row: -row.spent(end))[:ONLY_SLOWEST]}
    return lambda row: id(row) in slowest


def drawn(rows: list[Row], end: int, glyph: Callable[[str], str], *, everything: bool, expand: Test | None = None) -> list[Drawn]:
    """The lines to draw: all of them if there are few or if `everything` is asked for, else fan-outs folded.

    A fan-out that passes `expand` is drawn whole; `glyph` draws the branches.
    """
    if everything or _lines(rows) <= MOST:
        return list(_drawn(rows, "", glyph, lambda _row: None))
    rows = _loosely(rows)
    for trouble in _TROUBLE:

        def keeps(row: Row, trouble: int = trouble) -> list[Row] | None:
            open_ = expand is not None and (expand(row) or any(expand(member) for member in row.under))
            return None if open_ or len(row.under) <= FEW else _kept(row.under, trouble, end)

        made = list(_drawn(rows, "", glyph, keeps))
        if len(made) <= MOST or expand is not None:
            return made
    top = _kept(rows, MOST // 2, end)
    made = list(_drawn(top, "", glyph, keeps))[: MOST - 1]
    return [*made, Drawn("", None, hidden=len(list(_leaves(rows))) - sum(one.row is not None for one in made))]


def most_at_once(found: Iterable[Span], end: int) -> int:
    """How many attempts ran at the same time at most."""
    found = list(found)
    ends, over, most = sorted(_over(span, end) for span in found), 0, 0
    for begun, start in enumerate(sorted(span.start_at for span in found), 1):
        while over < begun and ends[over] <= start:
            over += 1
        most = max(most, begun - over)
    return most


def _over(span: Span, end: int) -> int:
    return max(span.start_at, end if span.end_at is None else span.end_at)


def _fan(key: str) -> str:
    """A key without its places: `quotes[dhl]` → `quotes`, `[1]/fetch#1` → `fetch`."""
    if key.endswith("]") and "/" not in key:
        return key.partition("[")[0]
    return _INDEX.sub("", _PLACE.sub("", key)) if "[" in key or "#" in key else key


def _at_once(rows: Sequence[Row]) -> bool:
    """Whether any two of them ran at the same time; else they are the turns of a loop."""
    ranges = sorted((row.spans[0].start_at, row.last.end_at or row.last.start_at) for row in rows)
    return any(before[1] > after[0] for before, after in pairwise(ranges))


def _loosely(rows: list[Row]) -> list[Row]:
    """Rows in a long list whose names differ only in a number at their end, as one fan-out."""
    if len(rows) <= MOST // 2:
        return rows
    fans: dict[str, list[Row]] = {}
    for row in rows:
        fans.setdefault(row.label if row.size or row.under else _NUMBER.sub("", _INDEX.sub("", row.label)), []).append(row)
    made = []
    for base, members in fans.items():
        made += members if len(members) <= FEW else [Row(base, [], members[0].lane, members, len(members))]
    return made


def _kept(rows: list[Row], trouble: int, end: int) -> list[Row]:
    """Of many the first and the last, the slowest, and those that did not simply succeed, in their order."""
    order = {id(row): index for index, row in enumerate(rows)}
    slowest = sorted((row for row in rows if not row.spans or not row.last.is_wait), key=lambda row: -row.spent(end))[:SLOWEST]
    troubled = [row for row in rows if not row.simple]
    chosen = {order[id(row)] for row in (rows[0], rows[-1], *slowest, *troubled[:trouble])}
    return [rows[index] for index in sorted(chosen)]


def _drawn(
    rows: Sequence[Row], above: str, glyph: Callable[[str], str], keeps: Callable[[Row], list[Row] | None], deep: bool = False
) -> Iterator[Drawn]:
    for row in rows:
        last = row is rows[-1]
        branches = above + (glyph("└─" if last else "├─") + " " if deep else "")
        inner = above + (("  " if last else glyph("│") + " ") if deep else "")
        kept = keeps(row) if row.size else None
        yield Drawn(branches, row, folded=kept is not None)
        if kept is None:
            yield from _drawn(row.under, inner, glyph, keeps, deep=True)
            continue
        for member in kept:
            yield Drawn(f"{inner}{glyph('├─')} ", member)
        yield Drawn(f"{inner}{glyph('└─')} ", None, hidden=len(row.under) - len(kept), of=row)


def _lines(rows: Iterable[Row]) -> int:
    return sum(1 + _lines(row.under) for row in rows)


def _leaves(rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        if not row.size:
            yield row
        yield from _leaves(row.under)


def _first(row: Row) -> int:
    spans = row.under[0].spans if row.size else row.spans
    return spans[0].start_n


_URGENCY = (
    "failed", "interrupted", "waiting", "retrying", "running", "undoing", "sleeping", "scheduled", "rejected", "expired",
    "cancelled",
)  # fmt: skip


def _urgency(word: str) -> int:
    return _URGENCY.index(word) if word in _URGENCY else len(_URGENCY)
