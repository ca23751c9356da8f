"""What `flow approve` and `flow reject` share: check, record, go on with the run."""

from collections.abc import Sequence

from flowstone.errors import BadData, UsageError
from flowstone.journal.events import Kind
from flowstone.journal.states import SETTLED
from flowstone.ports import Life, RunRow
from flowstone_cli import exit_codes, input_files
from flowstone_cli.render.text import instant_words
from flowstone_cli.session import Session


def answer(
    session: Session,
    run: str,
    reason: str | None,
    *,
    yes: bool,
    files: Sequence[str],
    sets: Sequence[str],
    set_strs: Sequence[str],
    comment: str | None,
    by: str | None,
    no_resume: bool,
    early: bool,
    limit: tuple[bool, bool],
) -> int:
    """Say yes or no at a gate and carry the run on, unless `no_resume`; the exit code. `limit`: --wait and --no-wait."""
    if reason is not None and not reason.strip():
        raise UsageError("the reason is empty: name the gate, or leave it out", hint=f"flow status {run}")
    given = input_files.read(files, sets, set_strs, session.arguments)
    row = session.find(run, "write")
    from flowstone_cli.acting import Acting, park_after

    waiting = park_after(*limit)
    verb = "approve" if yes else "reject"
    with Acting(session, "write") as acting:
        try:
            said = acting.engine.answer(row.id, reason, yes=yes, data=given.value, comment=comment, by=by, early=early)
        except BadData as error:
            error.hint = input_files.corrected(session.arguments, error.details) or error.hint
            raise
        word = "approved" if yes else "rejected"
        if said.repeated:
            session.say(f"{said.name} was {word} before, by the same answer{_who_was_first(session, said.row, said.step)}")
        kept = early and said.step not in session.view(said.row, session.err).ledger.operations
        goes_on = said.row.status not in SETTLED and not no_resume and not kept
        if goes_on and acting.engine.life(said.row) is Life.UNKNOWN:
            session.say("recorded; the run is another host's, and goes on there if its process lives")
            goes_on = False
        if goes_on:
            before = said.row.events
            goes_on = acting.drive(row.id, verb, waiting).events > before or not said.repeated
    if no_resume or kept:
        session.say(f"{said.name} is {word}: recorded" + (" for when the run gets there" if kept else ""))
    code = acting.conclude(row.id, answer=True)
    return code if goes_on else exit_codes.OK


def _who_was_first(session: Session, row: RunRow, step: str) -> str:
    """Who gave the answer that a gate has, and when: ` of ana at 2026-12-01 09:12:40Z`."""
    events = [event for event in session.store().events(row.id) if event.step == step and event.kind == Kind.GATE_ANSWERED]
    if not events:
        return ""
    who = (events[-1].body().get("by") or {}).get("user")
    return (f" of {who}" if who else "") + f" at {instant_words(events[-1].at)}"
