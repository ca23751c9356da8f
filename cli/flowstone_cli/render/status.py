"""`flow status`: a card about the run, then one line per step."""

from typing import Any

from flowstone.journal.labels import label_of
from flowstone.journal.notes import refused_note, resolved_words, said_note
from flowstone.journal.phase import Phase
from flowstone.journal.timeline import busy, spans, working
from flowstone.journal.words import duration_words
from flowstone_cli import json_text
from flowstone_cli.clean import fit, left, one_line, right
from flowstone_cli.render import outcome, spoken
from flowstone_cli.render.text import count, field, instant_words, line, tsv, value_text
from flowstone_cli.terminal import Stream
from flowstone_cli.view import RunView

MOST_STEPS = 60
"""Lines of steps for people; a pipe gets all."""


def people(view: RunView, stream: Stream) -> str:
    """The card and the steps."""
    row = view.row
    said = view.whose_process() if view.phase is Phase.INTERRUPTED else ""
    made = outcome.headline(view, stream, row.id, said)
    gap = ", " if stream.spoken else "    "
    started = f"{instant_words(row.created_at)}, {spoken.ago(stream, view.now - row.created_at)}"
    ended = f"{gap}ended {instant_words(row.finished_at)}" if row.finished_at is not None else ""
    made += field(stream, "started", f"{started} by {row.user}{ended}", whole=True)
    made += field(stream, "took", _took(view, stream), whole=True)
    if row.key is not None:
        made += field(stream, "key", row.key)
    if fork := view.ledger.created.get("fork"):
        made += field(stream, "fork", f"of {fork['run'][: len(view.id)]} from {one_line(fork['step'])}")
    if view.ledger.created.get("input") is not None:
        made += field(stream, "input", value_text(json_text.compact(view.ledger.created["input"]), stream))
    if view.phase is Phase.COMPLETED:
        made += field(stream, "output", value_text(json_text.compact(view.ledger.output), stream))
    if view.phase is Phase.FAILED:
        made += field(stream, "failed", outcome.facts(view, stream), whole=True)
    made += outcome.details(view, stream)
    made += field(stream, "events", f"0 to {row.events - 1}")
    if len(view.versions) > 1:
        first, *later = view.versions
        went_on = "".join(f", since event {n} {version[:6]}" for version, n in later)
        made += field(stream, "versions", f"begun under {first[0][:6]}{went_on}", whole=True)
    made += outcome.next_lines(view, stream)
    made += field(stream, "more", f"flow timeline {view.id}", typed=True)
    steps = [step for step in view.document["steps"] if step["kind"] != "state"]
    return made + ("\n" + _steps(steps, view, stream) + _unvisited(view, stream) if steps or view.unvisited else "")


def piped(view: RunView) -> str:
    """The same in a pipe: `field TAB value`, then one line per step."""
    document, ledger = view.document, view.ledger
    head = ("id", "workflow", "status", "phase", "key", "user", "created_at", "updated_at", "finished_at", "events")
    lines: list[tuple[object, ...]] = [(name, document[name]) for name in head]
    lines += [("input", json_text.compact(document["input"]))]
    if view.phase is Phase.COMPLETED:
        lines += [("output", json_text.compact(document["output"]))]
    if error := document["error"]:
        lines += [("error", error["step"], error["type"], error["message"])]
    if fork := ledger.created.get("fork"):
        lines += [("fork", fork["run"], fork["step"])]
    lines += [("version", version, n) for version, n in view.versions]
    for wait in document["waiting"]:
        said = said_note(ledger, wait["step"]) or refused_note(ledger, wait["step"])
        words = (said,) if said else ()
        lines += [("waiting", wait["kind"], wait["reason"], wait["deadline"] or wait["wake_at"], *words)]
    lines += [("trace", step, one) for step, trace in view.traces for one in trace.rstrip("\n").split("\n")]
    lines += [("next", document["next"])]
    lines += [("node", fate.node, fate.status, fate.why) for fate in view.unvisited]
    for step in document["steps"]:
        failed = (step["error"] or {}).get("type")
        lines += [("step", step["key"], step["kind"], step["status"], step["attempts"], step["duration_ms"], failed)]
    return "".join(tsv(*line) for line in lines)


def _took(view: RunView, stream: Stream) -> str:
    found = spans(view.events)
    worked = working(busy((*found, *view.kin(found)), view.worked_until))
    took, working_for = spoken.lasted(stream, view.took), spoken.lasted(stream, worked, duration_words)
    return f"{took}, working {working_for}, {count(view.steps_done, 'step')} done"


def _steps(steps: list[dict[str, Any]], view: RunView, stream: Stream) -> str:
    hidden = 0
    if len(steps) > MOST_STEPS:
        shown = {index for index, step in enumerate(steps) if step["status"] != "succeeded"}
        shown = set(sorted(shown)[: MOST_STEPS - 4]) | {0, 1, len(steps) - 2, len(steps) - 1}
        hidden = len(steps) - len(shown)
        steps = [step for index, step in enumerate(steps) if index in shown]
    if stream.spoken:
        made = spoken.steps(view, steps, lambda step: _word(step, view), stream)
    else:
        made = "".join(_step(step, view, stream) for step in steps)
    if hidden:
        made += line(stream, f"{stream.glyph('…')} {hidden:,} more that succeeded: flow status {view.id} --json")
    return made


def _unvisited(view: RunView, stream: Stream) -> str:
    """The nodes of a graph that no way has led to, or not yet."""
    width, made, dots = name_width(stream.width), "", stream.glyph("…")
    blank = " " * (9 if stream.width >= 60 else 8)
    for fate in view.unvisited[:MOST_STEPS]:
        sign = "failed" if fate.status == "failed" else "planned"
        note = f"  {fate.status}: {one_line(fate.why)}" if fate.why else ""
        if stream.spoken:
            made += spoken.sentence(f"{fate.node}: {note.strip() or 'planned'}.", stream)
            continue
        name = left(fit(one_line(fate.node), width, dots), width)
        made += line(stream, (stream.glyph(sign), sign), f" {name}{blank}", (note, "quiet" if sign == "planned" else sign))
    hidden = len(view.unvisited) - MOST_STEPS
    return made + (line(stream, f"{dots} {hidden:,} more not visited: flow status {view.id} --json") if hidden > 0 else "")


def _step(step: dict[str, Any], view: RunView, stream: Stream) -> str:
    word = _word(step, view)
    width = name_width(stream.width)
    ms = step["duration_ms"]
    took = "" if ms is None or word == "planned" else duration_words(ms * 1000)
    name = fit(one_line(label_of(step["key"])), width, stream.glyph("…"))
    start = f"{left(name, width)} {right(took, 8 if stream.width >= 60 else 7)}"
    note = note_of(step["key"], view) if stream.width >= 40 else ""
    return line(stream, (stream.glyph(word), word), f" {start}", f"  {note}" if note else "")


def _word(step: dict[str, Any], view: RunView) -> str:
    """The word whose sign a step has."""
    if ":undo" in step["key"] and step["status"] == "succeeded":
        return "undone"
    status = str(step["status"])
    if status == "running" and view.phase is Phase.INTERRUPTED:
        return "interrupted"
    if status == "waiting" and step["kind"] == "sleep":
        return "sleeping"
    return status


def name_width(width: int) -> int:
    """Cells of the column of names in a window of `width`."""
    if width >= 60:
        return 34 if width >= 100 else 24
    return min(24, width - 22) if width >= 40 else min(24, max(4, width - 10))


def note_of(key: str, view: RunView) -> str:
    """What a step's line says beside its duration: its tries, its error, who answered."""
    operation = view.ledger.operations[key]
    parts = []
    child = view.ledger.children.get(key) or operation.child
    if child is not None:
        parts.append(f"child {child[: len(view.id)]}")
    tries = len(operation.attempts)
    if operation.is_gate:
        closed = operation.completion.body() if operation.completion is not None else {}
        who = (closed.get("by") or {}).get("user")
        outcome_word = closed.get("outcome")
        comment = f': "{closed["comment"]}"' if closed.get("comment") else ""
        if who:
            parts.append(f"{outcome_word} by {who}{comment}")
        elif outcome_word:
            parts.append(str(outcome_word))
        elif said := said_note(view.ledger, key):
            parts.append(said)
        elif refused_note(view.ledger, key):
            parts.append(f"round {operation.last.number}")
        return ", ".join(parts)
    if resolved := operation.resolved:
        parts.append(resolved_words(resolved["outcome"], (resolved.get("by") or {}).get("user"), resolved.get("reason")))
        return ", ".join(parts)
    error = operation.last.error
    failed = error is not None and operation.status.value in ("failed", "retrying")
    if tries > 1 or failed:
        parts.append(count(tries, "try") + (f": {(error or {}).get('type')}" if failed else ""))
    return ", ".join(parts)
