"""`flow check`: per run whether it fits, else the first difference; patches that runs still need; doubts about bodies."""

from collections.abc import Callable
from typing import Any

from flowstone_cli.clean import cells, left, one_line
from flowstone_cli.render.text import count, field, line, tsv
from flowstone_cli.terminal import Stream

Document = dict[str, Any]
"""flow.check/1."""


def people(document: Document, short: Callable[[str, Stream], str], stream: Stream) -> str:
    """The workflow, the runs, the patches, the warnings."""
    made = ""
    workflow = document["workflow"]
    if workflow is not None:
        made += line(stream, f"{workflow['name']} can be started; it is version {workflow['version'][:6]}")
    for file in document["broken"]:
        made += line(stream, (stream.glyph("failed"), "failed"), " does not load")
        made += field(stream, "cause", file["message"], whole=True)
        made += field(stream, "try", file["hint"], typed=True) if file["hint"] else ""
    runs = document["runs"]
    width = max((cells(one_line(run["workflow"])) for run in runs), default=0)
    for run in runs:
        word = "succeeded" if run["fits"] else "failed"
        start = f" {short(run['run'], stream)}  {left(one_line(run['workflow']), width)}  "
        made += line(stream, (stream.glyph(word), word), start, f"{'fits' if run['fits'] else 'does not fit'}, {run['status']}")
        if not run["fits"]:
            made += field(stream, "differs", _without_run(run), whole=True)
            made += field(stream, "cause", run["cause"], whole=True)
    misfits = sum(not run["fits"] for run in runs)
    if len(runs) != 1:
        said = f"{misfits} not fitting" if misfits else "all fit"
        made += line(stream, f"{count(len(runs), 'run')} checked, {said}" if runs else "no run to check")
    for patch in document["patches"]:
        made += field(stream, "patch", f"{patch['patch']}, {patch['file']}:{patch['line'] or '?'}", whole=True)
        needed = [short(run, stream) for run in patch["needed_by"]]
        said = f"needed by {', '.join(needed)}" if needed else "no open run needs the old way: it can go"
        made += field(stream, "", said, whole=True)
    for warning in document["warnings"]:
        made += field(stream, "warning", f"{warning['file']}:{warning['line']}", whole=True)
        made += field(stream, "", f"{warning['call']} {warning['message']}", whole=True)
        made += field(stream, "", f"use {warning['hint']}", whole=True)
    return made


def piped(document: Document) -> str:
    """`broken`, file, line, why, what to type; `fits` or `differs`, run, workflow, status, step, message, cause.

    Then `patch`, workflow, id, line, who needs it.
    Then `warning`, workflow, line, call, what is wrong with it, what to use.
    """
    made = ""
    if document["workflow"] is not None:
        made += tsv("workflow", document["workflow"]["name"], document["workflow"]["version"])
    for file in document["broken"]:
        made += tsv("broken", file["file"], file["line"], file["message"], file["hint"])
    for run in document["runs"]:
        word = "fits" if run["fits"] else "differs"
        made += tsv(word, run["run"], run["workflow"], run["status"], run["step"], run["message"], run["cause"])
    for patch in document["patches"]:
        needed = " ".join(patch["needed_by"]) or "no open run needs the old way"
        made += tsv("patch", patch["workflow"], patch["patch"], f"{patch['file']}:{patch['line'] or '?'}", needed)
    for warning in document["warnings"]:
        place = f"{warning['file']}:{warning['line']}"
        made += tsv("warning", warning["workflow"], place, warning["call"], warning["message"], warning["hint"])
    return made or tsv("checked", "no run")


def _without_run(run: Document) -> str:
    return str(run["message"]).removeprefix(f"run {run['run']}: ")
