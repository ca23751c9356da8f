"""The live view of a run: a header, what runs, waits and is retried with the time it takes, and what was printed last.

Folded from events and drawn as lines; at the same cost for a thousand parallel steps as for ten.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from flowstone.journal.events import Event, Kind
from flowstone.journal.labels import label_of
from flowstone.journal.words import duration_words, lasting_words
from flowstone_cli.clean import cells, fit, left, one_line, right
from flowstone_cli.render.plain import error_text
from flowstone_cli.render.status import name_width
from flowstone_cli.render.text import Part, line
from flowstone_cli.terminal import Stream

_ENDED = ("succeeded", "undone", "approved", "rejected", "expired", "resumed", "cancelled")
_FIRST = ("failed", "interrupted", "waiting", "retrying", "undoing", "running", "sleeping")
"""Who is shown when there is not room for all, in this order; what has ended comes last."""
_COUNTED = (("succeeded", "done"), ("running", "running"), ("retrying", "retrying"), ("waiting", "waiting"), ("failed", "failed"))


@dataclass(slots=True)
class _Row:
    """One operation as it stands."""

    number: int
    key: str
    status: str
    start_at: int
    end_at: int | None = None
    attempt: int = 1
    due: int | None = None
    """When the next attempt comes, the sleep ends, the gate expires."""
    error: str = ""
    child: str = ""


@dataclass(slots=True)
class _Group:
    """The items of one map."""

    size: int
    start_at: int
    end_at: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """How many of them stand how."""


class Live:
    """What is shown of one run. `title`: its workflow and id; `hint`: how the view is left."""

    def __init__(self, title: str, hint: str) -> None:
        self._title = title
        self._hint = hint
        self._created_at: int | None = None
        self._rows: dict[str, _Row] = {}
        self._by_status: dict[str, dict[str, _Row]] = {}
        self._groups: dict[str, _Group] = {}

    def take(self, event: Event, stream: Stream) -> str:
        """Take an event in; the line that stays on the screen for it, else an empty text."""
        if self._created_at is None:
            self._created_at = event.at
        key = event.step
        if key is None:
            if event.kind == Kind.RUN_INTERRUPTED:
                for row in list(self._by_status.get("running", {}).values()):
                    self._move(row, "interrupted", event.at)
            return ""
        row = self._rows.get(key) or self._begun(key, event.at)
        match event.kind:
            case Kind.STEP_STARTED:
                row.start_at, row.attempt = event.at, event.attempt or 1
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

    def _begun(self, key: str, at: int) -> _Row:
        row = self._rows[key] = _Row(len(self._rows), key, "", at)
        name = _group_of(key)
        if name is not None:
            group = self._groups.setdefault(name, _Group(0, at))
            group.size += 1
        return row

    def _move(self, row: _Row, status: str, end_at: int | None = None) -> None:
        group = self._groups.get(_group_of(row.key) or "")
        if group is not None:
            group.counts[row.status] = group.counts.get(row.status, 0) - 1
            group.counts[status] = group.counts.get(status, 0) + 1
            group.end_at = max(group.end_at, end_at or 0)
        self._by_status.get(row.status, {}).pop(row.key, None)
        row.status, row.end_at = status, end_at
        self._by_status.setdefault(status, {})[row.key] = row

    def _header(self, now: int, stream: Stream) -> str:
        told = _told({status: len(rows) for status, rows in self._by_status.items()})
        took = lasting_words(now - (self._created_at or now))
        title = one_line(self._title)
        for end in (f"{took}   {told}", told, ""):
            if cells(title) + 3 + cells(end) <= stream.width:
                break
        return line(stream, fit(title, stream.width, stream.glyph("…")), right(end, stream.width - cells(title)) if end else "")

    def _drawn(self, now: int, stream: Stream, room: int) -> list[str]:
        chosen: list[_Row] = []
        headed: dict[str, bool] = {}
        """Maps that have a line of their own, and whether it is drawn."""
        hidden = len(self._rows) + sum(group.size > 1 for group in self._groups.values()) > room
        for row in self._in_order():
            group = _group_of(row.key)
            heads = group is not None and group not in headed and self._groups[group].size > 1
            if len(chosen) + len(headed) + 1 + heads + hidden > room:
                break
            if group is not None and heads:
                headed[group] = False
            chosen.append(row)
        made = []
        for row in sorted(chosen, key=lambda one: one.number):
            group = _group_of(row.key)
            if group is not None and headed.get(group) is False:
                headed[group] = True
                made.append(self._group(group, now, stream))
            made.append(self._row(row, now, stream, branch=group in headed))
        if hidden and len(made) < room:
            made.append(line(stream, (f"{stream.glyph('…')} {len(self._rows) - len(chosen):,} more", "quiet")))
        return made

    def _in_order(self) -> Iterable[_Row]:
        """Rows by how much they matter now."""
        for status in _FIRST:
            yield from self._by_status.get(status, {}).values()
        for status in _ENDED:
            yield from reversed(self._by_status.get(status, {}).values())

    def _group(self, name: str, now: int, stream: Stream) -> str:
        group = self._groups[name]
        text = f"{one_line(label_of(name))}  {group.size:,}{stream.glyph('×')}"
        status = next((one for one in _FIRST if group.counts.get(one)), "succeeded")
        took = duration_words(group.end_at - group.start_at) if status == "succeeded" else lasting_words(now - group.start_at)
        return _columns(stream, status, text, took, _told(group.counts))

    def _row(self, row: _Row, now: int, stream: Stream, *, branch: bool) -> str:
        name = (stream.glyph("├─") + " " if branch else "") + one_line(label_of(row.key))
        if row.status in ("running", "undoing"):
            took = lasting_words(now - row.start_at)
        elif row.end_at is not None and row.status != "retrying":
            took = duration_words(row.end_at - row.start_at)
        else:
            took = ""
        return _columns(stream, row.status, name, took, _note(row, now, stream))

    def _failed(self, row: _Row, event: Event, stream: Stream) -> str:
        wait = duration_words((row.due or event.at) - event.at)
        note = f"try {event.attempt} failed, next in {wait}: {row.error}"
        return _columns(stream, "retrying", one_line(label_of(row.key)), duration_words(event.at - row.start_at), note)


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
    if tries and row.error and row.status == "running":
        tries += f" (try {row.attempt - 1}: {row.error})"
    return f"{stream.glyph('→')} {row.child}" if row.child else tries


def _columns(stream: Stream, word: str, name: str, took: str, note: str) -> str:
    width = name_width(stream.width)
    parts: list[Part] = [(stream.glyph(word), word), f" {left(fit(name, width, stream.glyph('…')), width)} "]
    parts.append(right(took, 8 if stream.width >= 60 else 7))
    if note:
        parts.append(f"  {one_line(note)}")
    return line(stream, *parts)
