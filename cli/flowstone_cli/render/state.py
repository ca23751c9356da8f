"""`flow state`: what a run knew at a point, and where that point is."""

from collections.abc import Sequence
from typing import Any

from flowstone.journal.events import Event
from flowstone.journal.labels import label_of
from flowstone.journal.ledger import Ledger
from flowstone.journal.notes import said_note
from flowstone.journal.phase import Phase
from flowstone.journal.states import STEP_ENDS
from flowstone.journal.timeline import Span, spans
from flowstone_cli import json_text
from flowstone_cli.clean import cells, fit, left, one_line
from flowstone_cli.render import diff, spoken
from flowstone_cli.render.rows import Lane, tree
from flowstone_cli.render.text import Part, instant_words, line, told, tsv, value_text
from flowstone_cli.terminal import Stream

_LABEL = 10
_ONE = {"input": "input", "results": "result", "state": "state", "failed": "failed", "open": "open"}
"""Label of a section → what one of its entries is called."""
_LONGEST_NAME = 24

State = dict[str, Any]
"""The document flow.state/1."""


def people(state: State, workflow: str, run_id: str, events: Sequence[Event], stream: Stream, *, pointer: bool = False) -> str:
    """The state; with `pointer` also where among the events and the steps it is."""
    n, last = state["event"], len(events) - 1
    since = spoken.lasted(stream, events[n].at - events[0].at)
    if stream.spoken:
        said = f"{workflow} {run_id}, event {n} of 0 to {last}, after {since}: {_doing(state, events)}."
        return spoken.sentence(said, stream) + _sections(state, stream)
    workflow = fit(one_line(workflow), max(4, stream.width - len(run_id) - 1), stream.glyph("…"))
    start = f"{workflow} {run_id}"
    rest = f"event {n} of 0..{last}   +{since}   {_doing(state, events)}"
    if stream.terminal and stream.width < 60:
        doing = _doing(state, events)
        made = line(stream, start) + line(stream, rest.removesuffix(doing).rstrip()) + told(stream, one_line(doing), indent="")
    else:
        made = line(stream, f"{start}   {rest}")
    if pointer:
        made += _pointer(n, last, events[n], stream) + _way(n, events, stream)
        moment = told(stream, one_line(_moment(state, events)), indent="")
        made += "".join(stream.paint(piece, "quiet") + "\n" for piece in moment.splitlines()) + "\n"
    return made + _sections(state, stream)


def _sections(state: State, stream: Stream) -> str:
    made = _section("input", [("", state["input"])] if state["input"] is not None else [], stream)
    made += _section("results", [(label_of(key), value) for key, value in state["results"].items()], stream)
    made += _section("state", list(state["state"].items()), stream)
    unsettled = [(label_of(key), status) for key, status in state["steps"].items() if status not in ("succeeded", "cancelled")]
    made += _section("failed", [(name, "") for name, status in unsettled if status == "failed"], stream, bare=True)
    return made + _section("open", [one for one in unsettled if one[1] != "failed"], stream, bare=True)


def piped(state: State) -> str:
    """One line per fact: what, name, value."""
    made = "".join(tsv(name, None, state[name]) for name in ("run", "event", "at", "status", "phase"))
    made += tsv("input", None, json_text.compact(state["input"]))
    made += "".join(tsv("step", key, status) for key, status in state["steps"].items())
    made += "".join(tsv("result", key, json_text.compact(value)) for key, value in state["results"].items())
    return made + "".join(tsv("state", name, json_text.compact(value)) for name, value in state["state"].items())


def changes(found: Sequence[State], since: int, stream: Stream) -> str:
    """What has changed since event `since`, under its heading."""
    return "\n" + line(stream, f"changed since event {since}") + diff.changed(found, stream)


def _doing(state: State, events: Sequence[Event]) -> str:
    gate = next((wait for wait in state["waiting"] if wait["step"]), None)
    if state["phase"] == "waiting" and gate is not None:
        said = said_note(Ledger(events[: state["event"] + 1]), gate["step"])
        return f"waiting for {label_of(gate['step'])}" + (f", {said}" if said else "")
    return str(state["phase"])


def _section(label: str, entries: list[tuple[str, Any]], stream: Stream, *, bare: bool = False) -> str:
    width = min(_LONGEST_NAME, max((len(one_line(name)) for name, _ in entries), default=0))
    made = ""
    for index, (name, value) in enumerate(entries):
        text = str(value) if bare else value_text(json_text.compact(value), stream)
        if stream.spoken:
            made += spoken.sentence(": ".join(part for part in (_ONE[label], name, text) if part) + ".", stream)
            continue
        shown = left(fit(one_line(name), width, stream.glyph("…")), width) + "  " if width else ""
        made += line(stream, left(label if index == 0 else "", _LABEL), shown, text)
    return made


def _pointer(n: int, last: int, event: Event, stream: Stream) -> str:
    """`0 ─────●──── 35   quotes[1] succeeded`."""
    said = _said(event)
    cells = max(4, min(60, stream.width - len(str(last)) - 8 - min(24, len(said))))
    at = round(n / last * (cells - 1)) if last else 0
    rule = stream.glyph("─")
    return line(stream, f"0 {rule * at}", (stream.glyph("●"), "running"), f"{rule * (cells - 1 - at)} {last}   {said}")


def _moment(state: State, events: Sequence[Event]) -> str:
    """When it was, how much was settled then, and what came next."""
    n, steps = state["event"], state["steps"]
    settled = sum(status in STEP_ENDS for status in steps.values())
    after = f", then {_said(events[n + 1])}" if n + 1 < len(events) else ""
    return f"{instant_words(events[n].at)}, {settled} of {len(steps)} settled{after}"


def _said(event: Event) -> str:
    return f"{label_of(event.step)} {event.kind.partition('.')[2]}" if event.step else str(event.kind)


def _way(n: int, events: Sequence[Event], stream: Stream) -> str:
    """The steps of the run with the signs of their attempts, and where event `n` is: `validate · quotes ▲ · charge_card ✗✗✗`."""
    rows = tree(Lane(spans(events), Phase.RUNNING, ended=True), {})
    if not rows:
        return ""
    starts = [min(span.start_n for span in row.everything) for row in rows]
    here = max((index for index, start in enumerate(starts) if start <= n), default=None)
    if events[n].step is not None:
        step = events[n].step
        here = next((index for index, row in enumerate(rows) if any(span.step == step for span in row.everything)), here)
    stops: list[Part] = []
    for index, row in enumerate(rows):
        signs = "" if row.size else "".join(_sign(span, stream) for span in row.spans)
        text = one_line(row.label) + (f" {signs}" if signs.strip(stream.glyph("succeeded")) else "")
        stops.append((text, "quiet") if starts[index] > n else text + (f" {stream.glyph('▲')}" if index == here else ""))
    return line(stream, *_around(stops, here or 0, stream))


def _sign(span: Span, stream: Stream) -> str:
    return "" if span.is_wait or span.end_at is None else stream.glyph(span.status)


def _around(stops: Sequence[Part], here: int, stream: Stream) -> list[Part]:
    """As many stops around that one as there is room for."""
    texts = [stop if isinstance(stop, str) else stop[0] for stop in stops]
    gap, dots = f" {stream.glyph('·')} ", stream.glyph("…")
    room = (stream.width if stream.terminal else 1_000_000) - cells(texts[here]) - 2 * cells(gap + dots)
    first = last = here
    while True:
        near = [index for index in (first - 1, last + 1) if 0 <= index < len(stops) and cells(gap + texts[index]) <= room]
        if not near:
            break
        for index in near:
            if cells(gap + texts[index]) <= room:
                room -= cells(gap + texts[index])
                first, last = min(first, index), max(last, index)
    made: list[Part] = [dots + gap] if first else []
    for index in range(first, last + 1):
        made += [gap, stops[index]] if index > first else [stops[index]]
    return [*made, gap + dots] if last < len(stops) - 1 else made
