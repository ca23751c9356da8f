"""Runs as a Chrome trace, which Perfetto and chrome://tracing open: attempts in lanes, waits beside them, failures as marks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from flowstone.clock import to_rfc3339
from flowstone.journal.labels import label_of
from flowstone.journal.timeline import Span
from flowstone_cli import json_text
from flowstone_cli.render.rows import Lane
from flowstone_cli.view import RunView

Fields = dict[str, Any]


class Family(NamedTuple):
    """A run with its child runs, theirs too. `end`: until when what has not ended is drawn, in microseconds."""

    view: RunView
    run: Lane
    children: Mapping[str, Lane]
    end: int


def chrome(families: Sequence[Family]) -> Iterator[str]:
    """The pieces of one JSON document. Microseconds since the first start; each run is a process, attempts fill its lanes."""
    rows = [family.view.row for family in families]
    start = min(row.created_at for row in rows)
    about: Fields = {"run": rows[0].id, "workflow": rows[0].workflow, "start": to_rfc3339(start)}
    if len(rows) > 1:
        about = {"runs": [{"run": row.id, "workflow": row.workflow} for row in rows], "start": to_rfc3339(start)}
    yield '{"displayTimeUnit":"ms","otherData":' + json_text.compact(about) + ',"traceEvents":[\n'
    processes = {
        family.view.row.id: (f"{family.view.row.workflow} {family.view.row.id}", family.run, family.end) for family in families
    }
    for family in families:
        for child, lane in family.children.items():
            processes.setdefault(child, (child, lane, family.end))
    numbers = {run: number for number, run in enumerate(processes, 1)}
    first = True
    for run, (name, lane, end) in processes.items():
        for event in _of_run(numbers[run], name, lane, numbers, start, end):
            yield ("" if first else ",\n") + json_text.compact(event)
            first = False
    yield "\n]}\n"


def _of_run(process: int, name: str, run: Lane, numbers: Mapping[str, int], start: int, end: int) -> Iterator[Fields]:
    yield {"ph": "M", "pid": process, "tid": 0, "name": "process_name", "args": {"name": name}}
    free: list[int] = []
    """When each lane becomes free."""
    for span in run.spans:
        over = max(span.start_at, end if span.end_at is None else span.end_at)
        common = {
            "name": label_of(span.step),
            "cat": span.kind,
            "pid": process,
            "ts": span.start_at - start,
            "args": _facts(span),
        }
        if span.is_wait:
            identity = f"{process}.{span.start_n}"
            yield {"ph": "b", "tid": 0, "id": identity, **common}
            yield {"ph": "e", "tid": 0, "id": identity, **common, "ts": over - start, "args": {}}
            continue
        if span.kind == "state":
            yield {"ph": "i", "tid": 0, "s": "p", **common}
            continue
        number = next((index for index, until in enumerate(free) if until <= span.start_at), len(free))
        free[number : number + 1] = [over]
        yield {"ph": "X", "tid": number + 1, "dur": over - span.start_at, **common}
        if span.status in ("failed", "interrupted"):
            yield {
                "ph": "i",
                "tid": number + 1,
                "s": "t",
                **common,
                "name": f"{span.status}: {label_of(span.step)}",
                "ts": over - start,
            }
        if span.child is not None and span.child in numbers:
            arrow = {"cat": "child", "name": "child", "id": numbers[span.child], "ts": span.start_at - start}
            yield {"ph": "s", "pid": process, "tid": number + 1, **arrow}
            yield {"ph": "f", "pid": numbers[span.child], "tid": 1, "bp": "e", **arrow}


def _facts(span: Span) -> Fields:
    return {
        "step": span.step,
        "attempt": span.attempt,
        "status": span.status,
        "error": span.error,
        "by": span.by,
        "child": span.child,
        "events": f"{span.start_n}-{'' if span.end_n is None else span.end_n}",
        "cut": span.cut,
    }
