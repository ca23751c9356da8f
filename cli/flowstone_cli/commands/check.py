"""`flow check [NAME|RUN]`: whether today's code fits recorded runs; of a workflow also whether it can be loaded and started."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import decode_source
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowstone.errors import FlowError, LoadFailed, NotFound, UsageError
from flowstone.ports import Filter, RunRow
from flowstone_cli import exit_codes, json_text
from flowstone_cli.clean import clean
from flowstone_cli.parameters import instant_since
from flowstone_cli.render import check as drawn
from flowstone_cli.session import Session

if TYPE_CHECKING:
    from flowstone.authoring.loader import Library
    from flowstone.graph.model import Model
    from flowstone.running.checking import Checked


def command(
    ctx: typer.Context,
    what: Annotated[str | None, typer.Argument(metavar="[NAME|RUN]", help="A workflow, or a run.", show_default=False)] = None,
    all: Annotated[bool, typer.Option("--all", help="Also runs that have ended.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="DUR|TIME", help="Only runs started since then.", show_default=False)
    ] = None,
) -> int:
    """Check that today's code fits the runs that are going on: of all workflows, of NAME, or one run. Exits 76 if it does not.

    Of NAME also that it can be loaded and started; without NAME that every file can be loaded (else 69). Warns of what bodies
    call that a replay cannot repeat: the clock, randomness, files, a set's order. Nothing is run and nothing is written.
    """
    from flowstone.graph.files import library as library_of
    from flowstone_cli.onlooker import Onlooker

    session: Session = ctx.obj
    out = session.out
    library = library_of(session.settings.dir, session.settings.root)
    with _captured(session), Onlooker(library, session.settings.root, session.say):
        workflow = None if what is None else _workflow(library, what)
        of_workflows = what is None or workflow is not None or _has_runs(session, what)
        if of_workflows:
            rows = _rows(session, what, ended=all, since=since)
        elif all or since is not None:
            raise UsageError("--all and --since choose among runs: leave RUN out, or give a workflow", hint=f"flow check {what}")
        else:
            rows = [session.find(str(what))]
        found = _checked(session, library, rows)
        broken = _broken(library) if what is None else []
    document = {
        "schema": "flow.check/1",
        "workflow": workflow,
        "broken": broken,
        "runs": [_document(one) for one in found],
        "patches": _patches(library, what, found) if of_workflows else [],
        "warnings": _warnings(library, {what} if of_workflows else {one.row.workflow for one in found if one.refusal}),
    }
    if session.options.json:
        out.write(json_text.document(document))
    else:
        out.write(drawn.people(document, session.short, out) if out.terminal else drawn.piped(document))
    if broken:
        return exit_codes.CANNOT_LOAD
    codes = {exit_codes.of_error(one.refusal) for one in found if one.refusal is not None}
    return min(codes, default=exit_codes.OK)  # what is damaged comes before what does not fit


def _broken(library: "Library") -> list[dict[str, Any]]:
    """`broken[]`: the files that do not load and the names that are defined twice, each once."""
    found: dict[str, dict[str, Any]] = {}
    for file in library.index.scans():
        if file.error is not None:
            found[str(file)] = {"file": str(file.file), "line": file.line, "message": str(file), "hint": f"python {file.file}"}
        for one in file.found:
            try:
                library.step(one.name) if one in file.steps else _workflow(library, one.name)
            except FlowError as error:
                said = "; ".join([error.message, *error.details])
                cause = said.partition('": ')[2] or said  # why a file does not load is the same for all that it defines
                found.setdefault(cause, {"file": str(one.file), "line": one.line, "message": said, "hint": error.hint})
    return list(found.values())


def _has_runs(session: Session, name: str) -> bool:
    """Whether there are runs of a workflow of that name: it may be gone."""
    return not session.is_fresh and session.store().count(Filter(workflow=name)) > 0


def _rows(session: Session, workflow: str | None, *, ended: bool, since: str | None) -> list[RunRow]:
    if session.is_fresh:
        return []
    first = 0 if since is None else instant_since(since, session.clock.now())
    rows = session.store().runs(Filter(workflow=workflow, unfinished=None if ended else True))
    return [row for row in rows if row.created_at >= first]


@contextmanager
def _captured(session: Session) -> Iterator[None]:
    """Keep what the author's code prints away from stdout."""
    from flowstone_cli.capture import Capture

    out, err = session.out, session.err  # judged before the streams are exchanged
    with Capture(lambda _stream, text: session.tell(clean(text))) as capture:
        out.file, err.file = capture.answer, capture.talk
        yield


def _checked(session: Session, library: "Library", rows: list[RunRow]) -> "list[Checked]":
    if not rows:
        return []
    from flowstone.engine import Engine

    engine = Engine(session.store(), session.owners, library, session.clock, session.settings)
    return [engine.checked(row.id) for row in rows]


def _document(one: "Checked") -> dict[str, Any]:
    """One entry of `runs[]`."""
    difference, refusal = one.difference, one.refusal
    file, _, line = (difference.site or "").rpartition(":") if difference else ("", "", "")
    return {
        "run": one.row.id,
        "workflow": one.row.workflow,
        "status": one.row.status.value,
        "fits": refusal is None,
        "recorded_version": one.recorded,
        "version": one.version,
        "step": difference.step if difference else None,
        "recorded": difference.recorded if difference else None,
        "asked": difference.asked if difference else None,
        "file": file or None,
        "line": int(line) if line.isdecimal() else None,
        "message": refusal.message if refusal else None,
        "cause": difference.cause if difference else "; ".join(refusal.details) if refusal else None,
    }


def _patches(library: "Library", workflow: str | None, found: "list[Checked]") -> list[dict[str, Any]]:
    """`patches[]`: each `flow.patched` of the workflows, and the runs that need its old way."""
    from flowstone.running.checking import needing_the_old_way, patches_in

    made = []
    for one in library.index.workflows():
        if workflow not in (None, one.name) or one.file.suffix != ".py":
            continue
        runs = [checked for checked in found if checked.row.workflow == one.name]
        lines = patches_in(decode_source(one.file.read_bytes()), one.line)
        for patch in dict.fromkeys([*lines, *(patch for checked in runs for patch in checked.patches)]):
            needed_by = needing_the_old_way(patch, runs)
            made.append(
                {
                    "patch": patch,
                    "workflow": one.name,
                    "file": str(one.file),
                    "line": lines.get(patch),
                    "needed_by": needed_by,
                }
            )
    return made


def _warnings(library: "Library", wanted: set[str | None]) -> list[dict[str, Any]]:
    """`warnings[]`: what the bodies of these workflows (of all, if None is among them) call that a replay cannot repeat."""
    from flowstone.journal.lint import doubts_in

    return [
        {
            "workflow": one.name,
            "file": str(one.file),
            "line": doubt.line,
            "call": doubt.call,
            "message": doubt.message,
            "hint": doubt.cure,
        }
        for one in library.index.workflows()
        if one.file.suffix == ".py" and not wanted.isdisjoint({None, one.name})
        for doubt in doubts_in(decode_source(one.file.read_bytes()), one.attribute, one.line)
    ]


def _workflow(library: "Library", name: str) -> dict[str, Any] | None:
    """What there is to say of a workflow; None if there is none of that name. Raises LoadFailed with all that is wrong."""
    from flowstone.authoring.definition import WorkflowDefinition, definition_of
    from flowstone.authoring.inputs import shape_of
    from flowstone.graph.definition import Graph

    try:
        library.index.find(name)
    except NotFound:
        return None
    loaded = library.load(name)
    definition = definition_of(loaded)
    if not isinstance(definition, WorkflowDefinition):
        raise LoadFailed(f"{name} is not a workflow", hint="flow list")
    shape_of(definition)
    library.require_single_steps(name)
    if isinstance(loaded, Graph):
        _require_functions(loaded.model, library)
    return {"name": name, "version": library.version(name).hash}


def _require_functions(model: "Model", library: "Library") -> None:
    """Raise LoadFailed for nodes that name a step or a workflow which no file defines. A run would wait for it there."""
    missing = []
    for node in model.nodes.values():
        if isinstance(node.function, str) and node.function not in library.names():
            try:
                library.step(node.function)
            except NotFound as gone:
                missing.append(f"{node.site}: nodes.{node.id}.run: {gone.message.replace('no step', 'no step or workflow')}")
    if missing:
        raise LoadFailed(f'the graph "{model.name}" names what is not there', hint="flow list", details=missing)
