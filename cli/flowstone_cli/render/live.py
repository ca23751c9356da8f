"""The live view of a run: a header, what runs, waits and is retried and for how long, what is ahead, what was printed last.

Folded from events and drawn as lines; at the same cost for a thousand parallel steps as for ten. Steps of child runs stand under
theirs while it goes on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flowstone.journal.events import Event, Kind
from flowstone.journal.labels import label_of
from flowstone.journal.words import duration_words, lasting_words
from flowstone_cli.clean import cells, fit, left, one_line, right
from flowstone_cli.render.ahead import Ahead
from flowstone_cli.render.plain import error_text
from flowstone_cli.render.status import name_width
from flowstone_cli.render.text import Part, line
from flowstone_cli.terminal import Stream

_ENDED = ("succeeded", "undone", "approved", "rejected", "expired", "resumed", "cancelled")
_FIRST = ("failed", "interrupted", "waiting", "retrying", "undoing", "running", "sleeping")
"""Who is shown when there is not room for all, in this order; what has ended comes last."""
_COUNTED = (("succeeded", "done"), ("running", "running"), ("retrying", "retrying"), ("waiting", "waiting"), ("failed", "failed"))
_NEXT = 3
"""Lines of what is ahead that are kept free before what has ended fills the view."""
SHORT = 6
"""Characters of a child run's id."""


@dataclass(slots=True)
class _Row:
    """One operation as it stands."""

    run: str
    number: int
    key: str
    above: "_Row | None"
    """The step whose child run it belongs to."""
    status: str
    start_at: int
    end_at: int | None = None
    attempt: int = 1
    due: int | None = None
    """When the next attempt comes, the sleep ends, the gate expires."""
    error: str = ""
    child: str = ""
    spent: int = 0
    """Microseconds of the attempts that failed before this one, and of the waits after them."""
    is_step: bool = False
    """Whether it counts as a step that was done: no gate, no sleep, no undo."""


@dataclass(slots=True)
class _Group:
    """The items of one map."""

    number: int
    size: int
    start_at: int
    end_at: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """How many of them stand how."""


class _Line(NamedTuple):
    depth: int
    status: str
    name: str
    took: str
    note: str


class Live:
    """What is shown of one run. `title`: its workflow and id; `hint`: how the view is left; `run`: the whole id."""

    def __init__(self, title: str, hint: str, run: str = "") -> None:
        self._title = title
        self._hint = hint
        self._run = run
        self._created_at: int | None = None
        self._rows: dict[str, dict[str, _Row]] = {run: {}}
        self._above: dict[str, _Row | None] = {run: None}
        """Run → the step whose child it is; runs that are not in here are not shown."""
        self._by_status: dict[str, dict[tuple[str, str], _Row]] = {}
        self._counts: dict[str, int] = {}
        """How many operations of the run itself stand how; of those that succeeded only steps."""
        self._groups: dict[tuple[str, str], _Group] = {}
        self._ahead = Ahead([])

    @property
    def children(self) -> list[str]:
        """The child runs that go on."""
        return [run for run in self._above if run != self._run]

    def take(self, event: Event, stream: Stream, run: str | None = None) -> str:
        """Take an event of the run in, or of a child run; the line that stays on the screen for it, else an empty text."""
        run = self._run if run is None else run
        if run not in self._above:
            return ""
        if event.step is None:
            self._take_of_run(event, run)
            return ""
        key = event.step
        row = self._rows[run].get(key) or self._begun(run, key, event.at)
        match event.kind:
            case Kind.STEP_STARTED:
                row.start_at, row.attempt = event.at, event.attempt or 1
                row.is_step = not (":undo" in key or ":on_error" in key)
                if ":undo" in key and event.body().get("cause"):
                    self._ahead.is_over()
                self._move(row, "undoing" if ":undo" in key else "running")
            case Kind.STEP_SUCCEEDED | Kind.STATE_SET:
                self._move(row, "undone" if ":undo" in key else "succeeded", event.at)
            case Kind.STEP_CANCELLED:
                self._move(row, "cancelled", event.at)
            case Kind.STEP_INTERRUPTED:
                self._move(row, "interrupted", event.at)
            case Kind.STEP_FAILED:
                body = event.body()
                row.error, row.due = error_text(body["error"]), body.get("next_attempt_at")
                row.spent += 0 if row.due is None else max(0, row.due - row.start_at)
                self._move(row, "failed" if row.due is None else "retrying", event.at)
                return self._failed(row, event, stream) if row.due is not None else ""
            case Kind.SLEEP_STARTED:
                row.due = event.body()["wake_at"]
                self._move(row, "sleeping")
            case Kind.GATE_OPENED:
                row.due = event.body().get("deadline")
                self._move(row, "waiting")
            case Kind.GATE_CLOSED:
                self._move(row, event.body()["outcome"], event.at)
            case Kind.CHILD_STARTED:
                row.child = event.body()["child"]
                self._above[row.child] = row
                self._rows.setdefault(row.child, {})
        return ""

    def lines(self, now: int, stream: Stream, most: int, said: str) -> list[str]:
        """At most `most` lines, each fitted to the stream's width. `said`: the last line of output."""
        rows = most - (1 if most > 2 else 0) - (1 if most > 3 else 0) - (1 if said and most > 4 else 0)
        made = [self._header(now, stream)] if most > 2 else []
        made += self._drawn(now, stream, rows)
        if said and most > 4:
            made.append(said)
        if most > 3:
            made.append(line(stream, (self._hint, "quiet")))
        return [one.removesuffix("\n") for one in made]

    def _take_of_run(self, event: Event, run: str) -> None:
        if run != self._run:
            return
        if self._created_at is None:
            self._created_at = event.at
        if event.kind in (Kind.RUN_CREATED, Kind.RUN_MIGRATED):
            self._plan(event.body())
        elif event.kind == Kind.RUN_CANCELLING:
            self._ahead.is_over()
        elif event.kind == Kind.RUN_INTERRUPTED:
            for row in [*self._by_status.get("running", {}).values()]:
                self._move(row, "interrupted", event.at)

    def _plan(self, body: dict[str, Any]) -> None:
        if "plan" in body:
            self._ahead = Ahead(body["plan"])
            for key in self._rows[self._run]:
                self._ahead.reached(key)

    def _begun(self, run: str, key: str, at: int) -> _Row:
        rows = self._rows[run]
        number = len(rows)
        row = rows[key] = _Row(run, number, key, self._above[run], "", at)
        name = _group_of(key)
        if name is not None:
            self._groups.setdefault((run, name), _Group(number, 0, at)).size += 1
        if run == self._run:
            self._ahead.reached(key)
        return row

    def _move(self, row: _Row, status: str, end_at: int | None = None) -> None:
        group = self._groups.get((row.run, _group_of(row.key) or ""))
        if group is not None:
            group.counts[row.status] = group.counts.get(row.status, 0) - 1
            group.counts[status] = group.counts.get(status, 0) + 1
            group.end_at = max(group.end_at, end_at or 0)
        if row.above is None:
            self._count(row, -1)
        self._by_status.get(row.status, {}).pop((row.run, row.key), None)
        row.status, row.end_at = status, end_at
        self._by_status.setdefault(status, {})[row.run, row.key] = row
        if row.above is None:
            self._count(row, 1)
        if row.child and end_at is not None and status != "retrying":
            self._forget(row.child)

    def _count(self, row: _Row, by: int) -> None:
        if row.status != "succeeded" or row.is_step:
            self._counts[row.status] = self._counts.get(row.status, 0) + by

    def _forget(self, run: str) -> None:
        """A child run has ended: its steps make room."""
        for row in self._rows.pop(run, {}).values():
            self._by_status.get(row.status, {}).pop((run, row.key), None)
            if row.child:
                self._forget(row.child)
        self._groups = {place: group for place, group in self._groups.items() if place[0] != run}
        self._above.pop(run, None)

    def _header(self, now: int, stream: Stream) -> str:
        told = _told(self._counts)
        took = lasting_words(now - (self._created_at or now))
        title = one_line(self._title)
        for end in (f"{took}   {told}", told, ""):
            if cells(title) + 3 + cells(end) <= stream.width:
                break
        return line(stream, fit(title, stream.width, stream.glyph("…")), right(end, stream.width - cells(title)) if end else "")

    def _drawn(self, now: int, stream: Stream, room: int) -> list[str]:
        coming = self._ahead.coming
        rows = sum(map(len, self._rows.values()))
        hidden = rows + sum(group.size > 1 for group in self._groups.values()) + len(coming) > room
        free = room - hidden
        kept = min(_NEXT, len(coming), free // 2)
        chosen, headed = self._chosen(free, free - kept)
        made = [*self._told_lines(chosen, headed, now, stream)]
        ahead = coming[: free - len(made)]
        dots = stream.glyph("…")
        made += [_Line(0, "planned", one.label.replace("…", dots), "", one.note.replace("…", dots)) for one in ahead]
        depths = [one.depth for one in made]
        drawn = [_columns(stream, one, _branches(depths, place, stream)) for place, one in enumerate(made)]
        if hidden and len(drawn) < room:
            parts = [(rows - len(chosen), "more"), (len(coming) - len(ahead), "planned")]
            said = ", ".join(f"{number:,} {word}" for number, word in parts if number)
            drawn.append(line(stream, (f"{stream.glyph('…')} {said}", "quiet")))
        return drawn

    def _chosen(self, room: int, room_for_ended: int) -> tuple[list[_Row], set[tuple[str, str]]]:
        """The rows for which there is room, each with the steps above it, and the maps that have a line of their own."""
        chosen: dict[tuple[str, str], _Row] = {}
        headed: set[tuple[str, str]] = set()
        for row in self._in_order():
            limit = room_for_ended if row.status in _ENDED else room
            new = [one for one in _with_above(row) if (one.run, one.key) not in chosen]
            heads = {place for one in new if (place := self._heading(one)) is not None} - headed
            if len(chosen) + len(headed) + len(new) + len(heads) > limit:
                break
            chosen.update({(one.run, one.key): one for one in new})
            headed |= heads
        return [*chosen.values()], headed

    def _in_order(self) -> Iterator[_Row]:
        """Rows by how much they matter now."""
        for status in _FIRST:
            yield from self._by_status.get(status, {}).values()
        for status in _ENDED:
            yield from reversed(self._by_status.get(status, {}).values())

    def _heading(self, row: _Row) -> tuple[str, str] | None:
        """The map that a row is an item of, if it has more of them."""
        name = _group_of(row.key)
        return None if name is None or self._groups[row.run, name].size == 1 else (row.run, name)

    def _told_lines(self, chosen: Iterable[_Row], headed: set[tuple[str, str]], now: int, stream: Stream) -> Iterator[_Line]:
        """A line per row, in the order in which they were asked for; before the items of a map one for it."""
        left_over = set(headed)
        for row in sorted(chosen, key=self._place):
            heading = self._heading(row)
            if heading in left_over and heading is not None:
                left_over.discard(heading)
                yield self._group_line(heading, self._depth(row) - 1, now, stream)
            yield self._row_line(row, self._depth(row), now, stream)

    def _place(self, row: _Row) -> tuple[int, ...]:
        name = _group_of(row.key)
        here = (row.number,) if name is None else (self._groups[row.run, name].number, row.number)
        return (*self._place(row.above), *here) if row.above is not None else here

    def _depth(self, row: _Row) -> int:
        above = 0 if row.above is None else self._depth(row.above) + 1
        return above + (self._heading(row) is not None)

    def _group_line(self, place: tuple[str, str], depth: int, now: int, stream: Stream) -> _Line:
        group = self._groups[place]
        text = f"{one_line(label_of(place[1]))}  {group.size:,}{stream.glyph('×')}"
        status = next((one for one in _FIRST if group.counts.get(one)), "succeeded")
        took = duration_words(group.end_at - group.start_at) if status == "succeeded" else lasting_words(now - group.start_at)
        return _Line(depth, status, text, took, _told(group.counts))

    def _row_line(self, row: _Row, depth: int, now: int, stream: Stream) -> _Line:
        if row.status in ("running", "undoing"):
            took = lasting_words(now - row.start_at)
        elif row.end_at is not None and row.status != "retrying":
            took = duration_words(row.spent + row.end_at - row.start_at)
        else:
            took = ""
        return _Line(depth, row.status, one_line(label_of(row.key)), took, _note(row, now, stream))

    def _failed(self, row: _Row, event: Event, stream: Stream) -> str:
        wait = duration_words((row.due or event.at) - event.at)
        note = f"try {event.attempt} failed, next in {wait}: {row.error}"
        took = duration_words(event.at - row.start_at)
        return _columns(stream, _Line(0, "retrying", one_line(label_of(row.key)), took, note), "")


def _with_above(row: _Row) -> Iterator[_Row]:
    """A row after the steps that it stands under."""
    if row.above is not None:
        yield from _with_above(row.above)
    yield row


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[status]:,} {word}" for status, word in _COUNTED if counts.get(status))


def _group_of(key: str) -> str | None:
    """The map that a step is an item of: `quotes` for `quotes[dhl]`."""
    name, bracket, _ = key.rpartition("[")
    return name if bracket and name and key.endswith("]") else None


def _note(row: _Row, now: int, stream: Stream) -> str:
    if row.status == "retrying" and row.due is not None:
        return f"try {row.attempt + 1} in {lasting_words(row.due - now)}: {row.error}"
    if row.status == "sleeping" and row.due is not None:
        return f"due in {lasting_words(row.due - now)}"
    if row.status == "waiting":
        return "waits for an answer" + ("" if row.due is None else f", expires in {lasting_words(row.due - now)}")
    if row.status in ("failed", "interrupted"):
        return row.error
    tries = f"try {row.attempt}" if row.attempt > 1 else ""
    if tries and row.error and row.status in ("running", "succeeded"):
        tries += f" (try {row.attempt - 1}: {row.error})"
    return f"{stream.glyph('→')} {row.child[:SHORT]}" if row.child else tries


def _branches(depths: Sequence[int], place: int, stream: Stream) -> str:
    """What is drawn before a line that stands under another one: whether more follow beside it, and beside those above."""
    made = ""
    for level in range(1, depths[place] + 1):
        below = next((depth for depth in depths[place + 1 :] if depth <= level), 0)
        more = below == level
        if level < depths[place]:
            made += f"{stream.glyph('│')} " if more else "  "
        else:
            made += f"{stream.glyph('├─' if more else '└─')} "
    return made


def _columns(stream: Stream, one: _Line, branches: str) -> str:
    width = name_width(stream.width)
    shown = branches if cells(branches) <= width // 2 else branches[-(width // 2) :]
    name = shown + fit(one.name, max(1, width - cells(shown)), stream.glyph("…"))
    word = one.status
    parts: list[Part] = [(stream.glyph(word), word), f" {left(fit(name, width, stream.glyph('…')), width)} "]
    parts.append(right(one.took, 8 if stream.width >= 60 else 7))
    if one.note:
        note = one_line(one.note)
        parts.append((f"  {note}", "quiet") if word == "planned" else f"  {note}")
    return line(stream, *parts)
