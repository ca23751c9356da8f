"""`flow doctor`: check the installation, the database, the index columns against the journals, and the workflows."""

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from flowstone.errors import Damaged, FlowError
from flowstone.journal.columns import Columns, columns_in, columns_of
from flowstone.journal.damage import refuse
from flowstone.ports import Filter, Life, RunRow
from flowstone.settings import Settings
from flowstone.storage.sqlite.diagnosis import Finding, examine
from flowstone_cli import exit_codes, json_text
from flowstone_cli.clean import clean
from flowstone_cli.commands.abilities import abilities
from flowstone_cli.render import doctor
from flowstone_cli.render.text import count
from flowstone_cli.session import Session

OLDEST_PYTHON = (3, 11)
_LOOKS = 3
"""How often a row and its journal are read until they are of one moment: a process may be writing."""


def command(
    ctx: typer.Context,
    repair: Annotated[bool, typer.Option("--repair", help="Make rows anew that differ from their journals.")] = False,
) -> int:
    """Check Python, the terminal, SQLite, the file and where it lies, what is recorded, and the workflows. Exits 78 if not all is
    well.

    The workflows are imported. Without --repair nothing is written.
    """
    session: Session = ctx.obj
    out = session.out
    findings = list(_findings(session, repair))
    if session.options.json:
        out.write(json_text.document({"schema": "flow.doctor/1", "checks": [one._asdict() for one in findings]}))
    else:
        out.write("".join(doctor.people(one, out) if out.terminal else doctor.piped(one) for one in findings))
    return exit_codes.CONFIG if any(one.grade == "failed" for one in findings) else exit_codes.OK


def _findings(session: Session, repair: bool) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        yield Finding("python", "failed", f"Python {version} is too old: 3.11 is needed", "use a newer Python")
    else:
        yield Finding("python", "ok", f"Python {version}, {sys.executable}")
    try:
        settings = session.settings
    except FlowError as error:
        yield _refused("settings", error)
        return
    yield Finding("settings", "ok", _sources(settings))
    yield from abilities((session.out, session.err), session.color, session.environment())
    found = examine(settings.db)
    yield from found
    if settings.db.exists() and not any(one.grade == "failed" for one in found if one.check in ("database", "schema")):
        try:
            yield from _recorded(session, repair)
        except FlowError as error:
            yield _refused("database", error)
    yield from _workflows(session)


def _sources(settings: Settings) -> str:
    """Where the settings come from that are not defaults."""
    by_origin: dict[str, list[str]] = {}
    for name, origin in settings.origins.items():
        if origin != "default":
            by_origin.setdefault(origin.rpartition(":")[0] or origin, []).append(name)
    told = [f"{origin}: {', '.join(names)}" for origin, names in by_origin.items()]
    start = str(settings.file) if settings.file else f"no file; the project is {settings.root}"
    return "; ".join([start, *told])


def _recorded(session: Session, repair: bool) -> Iterator[Finding]:
    store = session.store("write" if repair else "read")
    try:
        rows = store.runs(Filter())
    except Damaged:
        rows = []
    yield from _owners(session, rows)
    wrong, repaired = 0, 0
    for error in [store.left_out.pop(run_id) for run_id in list(store.left_out)]:  # told here
        found = _damaged_row(session, error, repair)
        wrong += found.grade == "failed"
        yield found
    for row in rows:
        try:
            refuse(row.id, store.events(row.id))
            differing = _differing(session, row.id)
        except FlowError as error:
            wrong += 1
            yield Finding("index", "failed", f"run {row.id}: {error.message}", "go back to a backup, or flow delete " + row.id)
            continue
        if differing and repair:
            repaired += 1
            session.store().reindex(row.id)
            yield Finding("index", "note", f"run {row.id}: made anew, {', '.join(differing)} differed from the journal")
        elif differing:
            wrong += 1
            said = f"run {row.id}: {', '.join(differing)} differ from the journal"
            yield Finding("index", "failed", said, "flow doctor --repair")
    if not wrong:
        yield Finding("index", "ok", f"{count(len(rows), 'run')}, all rows as their journals have them")


def _damaged_row(session: Session, error: Damaged, repair: bool) -> Finding:
    """A run whose row makes no sense; with `repair` it is made anew from its journal."""
    if not repair:
        return Finding("index", "failed", error.message, error.hint)
    try:
        refuse(error.run, session.store().events(error.run))
        session.store().reindex(error.run)
    except FlowError as still:
        return Finding("index", "failed", still.message, "go back to a backup")
    return Finding("index", "note", f"run {error.run}: made anew, its row was damaged")


def _differing(session: Session, run_id: str) -> list[str]:
    """The columns in which a run's row is not what its journal says."""
    found: list[str] = []
    for _ in range(_LOOKS):
        row, events = session.store().run(run_id), session.store().events(run_id)
        there, folded = columns_in(row), columns_of(events)
        found = [name for name, one, other in zip(Columns._fields, there, folded, strict=True) if one != other]
        if not found or session.store().run(run_id) == row:
            break
    return found


def _owners(session: Session, rows: list[RunRow]) -> Iterator[Finding]:
    lives = [(row, session.owners.life(row.owner)) for row in rows if row.owner is not None]
    dead = [row for row, life in lives if life is Life.DEAD]
    unknown = [row for row, life in lives if life is Life.UNKNOWN]
    for row in dead:
        pid = session.owners.facts(row.owner or "").pid
        yield Finding("owners", "warning", f"run {row.id} ({row.workflow}): its process (pid {pid}) is gone", "flow recover")
    for row in unknown:
        host = session.owners.facts(row.owner or "").host
        yield Finding(
            "owners", "note", f"run {row.id} ({row.workflow}): whether its process on {host or 'another host'} lives is not known"
        )
    if not (dead or unknown):
        yield Finding("owners", "ok", f"{count(len(lives), 'run')} executed now" if lives else "no run is executed now")


def _workflows(session: Session) -> Iterator[Finding]:
    from flowstone.graph.files import library as library_of
    from flowstone_cli.capture import Capture
    from flowstone_cli.onlooker import Onlooker

    settings, err = session.settings, session.err
    library = library_of(settings.dir, settings.root)
    entries = library.index.entries()
    broken: list[Finding] = []
    # What a module prints when it is imported goes to stderr.
    capture = Capture(lambda _stream, text: session.tell(clean(text)))
    with capture, Onlooker(library, settings.root, session.say):
        session.out.file, err.file = capture.answer, capture.talk
        for entry in entries:
            if entry.name is None or entry.error is not None:
                broken.append(Finding("workflows", "failed", f"{entry.file}: {entry.error}", f"python {entry.file}"))
                continue
            try:
                library.load(entry.name)
            except FlowError as error:
                broken.append(_refused("workflows", error))
    yield from broken
    if not entries:
        yield Finding("workflows", "note", f"there are none in {settings.dir}", "flow init, or flow new NAME")
    elif not broken:
        yield Finding("workflows", "ok", f"{count(len(entries), 'workflow')} in {settings.dir}")


def _refused(check: str, error: FlowError) -> Finding:
    return Finding(check, "failed", "; ".join([error.message, *error.details]), error.hint)
