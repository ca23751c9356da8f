"""A run as one HTML page that needs no other file and no network, and holds no script: its Gantt, its steps, their values."""

from collections.abc import Iterator, Mapping
from typing import Any

from flowstone.clock import to_rfc3339
from flowstone.journal.documents import step_document
from flowstone.journal.labels import label_of
from flowstone.journal.scale import scale_of
from flowstone.journal.timeline import busy, working
from flowstone.journal.words import duration_words, took_words
from flowstone_cli import json_text
from flowstone_cli.render.exports.gantt import COLUMNS, gantt
from flowstone_cli.render.exports.markup import text
from flowstone_cli.render.rows import Lane, drawn, tree
from flowstone_cli.render.text import size
from flowstone_cli.view import RunView

MOST_STEPS = 2000
LONGEST = 10_000
"""Characters of a value."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """\
:root { color-scheme: light dark; --ink: #1d2329; --quiet: #69737d; --line: #d6dbe0; --bad: #b3261e; --warn: #9a5b00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --quiet: #98a2ac; --line: #3b434b; --bad: #ff8a80; --warn: #ffc26b; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); margin: 2rem auto; max-width: 84rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; margin: 0; } h2 { font-size: 1.05rem; margin-top: 2rem; }
code, pre, td, svg { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 13px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dt { color: var(--quiet); } dd { margin: 0; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; color: var(--quiet); font-weight: 500; }
th, td { border-top: 1px solid var(--line); padding: .25rem .6rem .25rem 0; vertical-align: top; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; } svg .tick, svg .quiet { fill: var(--quiet); }
.grid { stroke: var(--line); } .cut { fill: var(--line); opacity: .45; }
.work { fill: #3d6fb4; } .undo { fill: none; stroke: #9a3fb0; stroke-width: 2; }
.cut-off { fill: none; stroke: #3d6fb4; opacity: .5; }
.person { fill: none; stroke: var(--warn); stroke-dasharray: 6 4; } .sleep { fill: var(--quiet); opacity: .35; }
.backoff { fill: none; stroke: var(--quiet); stroke-dasharray: 2 3; }
.failed, svg text.failed { color: var(--bad); fill: var(--bad); font-weight: 700; }
.interrupted, .waiting, svg text.interrupted { color: var(--warn); fill: var(--warn); font-weight: 700; }
.row:hover text { font-weight: 700; } summary { cursor: pointer; }
"""


def html(view: RunView, run: Lane, children: Mapping[str, Lane], end: int) -> Iterator[str]:
    """The pieces of the page."""
    row, ledger = view.row, view.ledger
    title = f"{row.workflow} {row.id}"
    yield "<!doctype html>\n" + f'<html lang="en"><head><meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
    yield f'<meta charset="utf-8"><title>{text(title)}</title>\n<style>\n{_STYLE}</style></head><body>\n'
    yield f"<h1>{text(row.workflow)} <code>{text(row.id)}</code></h1>\n"
    yield f'<p class="{view.phase.value}">{text(view.phase.value)}</p>\n'
    busily = busy((span for lane in (run, *children.values()) for span in lane.spans), end)
    facts: list[tuple[str, str]] = [
        ("started", f"{to_rfc3339(row.created_at)} by {row.user}"),
        ("ended", to_rfc3339(row.finished_at) if row.finished_at is not None else "not yet"),
        ("took", f"{took_words(view.took)}, working {duration_words(working(busily))}"),
        ("version", row.version),
        ("events", f"0 to {row.events - 1}"),
    ]
    if row.key is not None:
        facts.insert(0, ("key", row.key))
    yield "<dl>" + "".join(f"<dt>{name}</dt><dd>{text(said)}</dd>" for name, said in facts) + "</dl>\n"
    error = ledger.error or {}
    if error:
        yield f'<p class="failed">✗ {text(str(error.get("type") or ""))}: {text(str(error.get("message") or ""))}</p>\n'
    scale = scale_of(busily, row.created_at, end, COLUMNS)
    yield "<h2>When</h2>\n"
    if scale.cuts:
        yield f"<p>{len(scale.cuts)} cut(s) hide {text(took_words(scale.hidden))} in which nothing ran.</p>\n"
    yield from gantt(drawn(tree(run, children), end, str, everything=False), scale, end)
    yield "<h2>Steps</h2>\n<table><thead><tr><th>step<th>status<th>attempts<th>started<th>took<th>values</tr></thead><tbody>\n"
    yield from _steps(view)
    yield "</tbody></table>\n<h2>Run</h2>\n" + _value("input", ledger.created.get("input")) + _value("state", ledger.state)
    yield _value("output", ledger.output) + "</body></html>\n"


def _steps(view: RunView) -> Iterator[str]:
    operations = list(view.ledger.operations.values())
    for operation in operations[:MOST_STEPS]:
        one = step_document(view.row, view.ledger, operation, view.phase, view.now)
        took = "" if one["duration_ms"] is None else duration_words(one["duration_ms"] * 1000)
        error = one["error"] or operation.last.error
        said = "" if not error else f'<br><span class="failed">{text(str(error["type"]))}: {text(str(error["message"]))}</span>'
        undone = f"<br>undo {text(str(one['undone']))}" if one["undone"] else ""
        values = _value("input", operation.opened.get("input"))
        completion = operation.completion.body() if operation.completion is not None else {}
        values += "".join(
            _value(name, completion[name]) for name in ("result", "data", "outcome", "comment") if completion.get(name)
        )
        yield (
            f'<tr><td>{text(label_of(operation.key))}<td class="{text(one["status"])}">{text(one["status"])}{said}{undone}'
            f"<td>{one['attempts']}<td>{text(one['started_at'])}<td>{text(took)}<td>{values}</tr>\n"
        )
    if len(operations) > MOST_STEPS:
        yield f"<tr><td colspan=6>… {len(operations) - MOST_STEPS:,} more</tr>\n"


def _value(name: str, value: Any) -> str:
    """A value, closed until it is clicked at."""
    if value is None or value == {}:
        return ""
    shown = json_text.pretty(value)
    cut = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}… ({size(len(shown))})"
    return f"<details><summary>{text(name)}</summary><pre>{text(cut)}</pre></details>\n"
