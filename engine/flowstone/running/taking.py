"""Taking a run up: its body is replayed to the frontier first, and only if code and history fit is the run claimed."""

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import Any

from flowstone.clock import Clock
from flowstone.errors import BadData, Diverged, FlowError, NotFound
from flowstone.interrupts import Divergence
from flowstone.journal.events import Draft, Kind, body_text
from flowstone.journal.ledger import Ledger
from flowstone.journal.notes import said_note
from flowstone.journal.states import Verb
from flowstone.journal.summary import Index
from flowstone.ports import AuditNote, Owners, RunRow, Store
from flowstone.running.body import Body, Program
from flowstone.running.cancelling import cancelling, is_without_body
from flowstone.running.ownership import Cause, claim_drafts, claimed, refuse_if_owned
from flowstone.running.recognition import Difference
from flowstone.running.reopening import reopening_cut
from flowstone.running.steps.gate import closing
from flowstone.running.writer import summary_of

_NOTED_WITH_MAIL = frozenset({"approve", "reject", "cancel", "resolve"})
"""Verbs whose mail has its audit note already."""


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A long journal makes many objects that all stay: looking for garbage among them costs more than making them."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@dataclass(slots=True)
class Taken:
    """A run that this process owns, and its body at the frontier; no body if what is left is done without it."""

    row: RunRow
    ledger: Ledger
    index: Index
    body: Body | None
    misfit: str | None = None
    """Why the run is cancelled without its body: how code and history disagree."""

    def close(self) -> None:
        """It is not gone on with."""
        if self.body is not None:
            self.body.close()


@dataclass(frozen=True, slots=True)
class Taking:
    """Takes runs up. Nothing is run and nothing is written when code and history disagree."""

    store: Store
    owners: Owners
    clock: Clock
    program: Callable[[RunRow, Any], Program]
    """The code of a run, given its row and recorded input."""
    plan: Callable[[str], dict[str, Any]]
    """What the journal keeps of a workflow's plan."""
    log: Callable[[str, int, str], None]

    def replayed(self, row: RunRow, *, to_cancel: bool = False) -> Taken:
        """A run at its frontier, whoever owns it. Raises Diverged, unless it is to be cancelled, which needs no body."""
        with no_garbage_collection():
            events = self.store.events(row.id)
            ledger = Ledger(events)
            taken = Taken(row, ledger, Index().after(events), None)
            try:
                taken.body = self._body(row, ledger)
            except FlowError as misfit:
                if not isinstance(misfit, Diverged) or not to_cancel or ledger.cancel_request is None:
                    misfit.details = with_what_is_kept(misfit.details, ledger, row.id)
                    raise
                taken.misfit = misfit.message.removeprefix(f"run {row.id}: ")
            return taken

    def claim(self, taken: Taken, cause: Cause) -> Taken:
        """Claim a run that nobody owns, or whose owner is dead. Raises TryAgain if somebody else was first."""
        row = taken.row
        drafts, verb = claim_drafts(self.owners, row, taken.ledger, cause, self._migrated(taken))
        now = self.clock.now()
        for key in cause.passes:
            number = taken.ledger.operations[key].last.number
            drafts.append(closing(key, number, "resumed", by=cause.by, at=now))
        if taken.misfit is not None:
            drafts.append(cancelling(taken.ledger, without_body=taken.misfit))
        return self._claimed(taken, drafts, verb, cause)

    def reopenable(self, row: RunRow, step: str | None) -> tuple[Taken, dict[str, Any]]:
        """A run that has failed or was cancelled at the frontier of what its cut keeps, and the cut. Writes nothing.

        Raises UsageError, RunOwned, NotFound (no such step), Diverged.
        """
        refuse_if_owned(self.owners, row)
        events = self.store.events(row.id)
        ledger = Ledger(events)
        cut = reopening_cut(row, ledger, step)
        ledger.reopen(cut)
        return Taken(row, ledger, Index().after(events), self._body(row, ledger)), cut

    def reopen(self, row: RunRow, cause: Cause, step: str | None) -> Taken:
        """Re-open it. Raises also TryAgain."""
        taken, cut = self.reopenable(row, step)
        ledger = taken.ledger
        reopened = Draft(Kind.RUN_REOPENED, text="")
        steps = sum(operation.is_step for operation in ledger.operations.values())
        text = body_text(by=cause.by, cut=cut, steps=steps, done=ledger.done)
        drafts = [claimed(self.owners.enlist(), row.epoch + 1), reopened._replace(text=text), *self._migrated(taken)]
        return self._claimed(taken, drafts, Verb.REOPEN, cause)

    def _migrated(self, taken: Taken) -> list[Draft]:
        """The event of a run that goes on under another version, with that one's plan."""
        before, body = taken.ledger.version, taken.body
        if body is None or body.version == before:
            return []
        told = {"from": before, "to": body.version, **self.plan(taken.row.workflow)}
        return [Draft(Kind.RUN_MIGRATED, text=body_text(**told))]

    def _claimed(self, taken: Taken, drafts: list[Draft], verb: Verb | None, cause: Cause) -> Taken:
        taken.index = taken.index.after(drafts)
        row = taken.row
        try:
            taken.row = self._claim(row, drafts, verb, cause, taken)
        except BaseException:
            taken.close()
            raise
        for event in self.store.events(row.id, after=taken.ledger.count - 1):
            taken.ledger.apply(event)
        return taken

    def _claim(self, row: RunRow, drafts: list[Draft], verb: Verb | None, cause: Cause, taken: Taken) -> RunRow:
        return self.store.claim(
            row,
            self.owners.enlist(),
            drafts,
            verb=verb,
            source=None if taken.body is None else taken.body.source,
            audit=None if cause.verb in _NOTED_WITH_MAIL else AuditNote(cause.verb, json.dumps(cause.by)),
            summary=summary_of(taken.index),
        )

    def _body(self, row: RunRow, ledger: Ledger) -> Body | None:
        if ledger.undoing is not None or is_without_body(ledger):
            return None
        return replayed_body(row.id, ledger, self._fitting_program(row, ledger), self.log)

    def _fitting_program(self, row: RunRow, ledger: Ledger) -> Program:
        try:
            return self.program(row, ledger.created["input"])
        except NotFound as gone:
            first = next(
                (f'its step "{one.name}" was asked for at {one.opened.get("site")}' for one in ledger.operations.values()), ""
            )
            raise Diverged(
                f"run {row.id}: the workflow {row.workflow} is gone: {gone.message}",
                details=[*gone.details, *filter(None, [first]), NOTHING_WRITTEN],
                hint="flow list",
            ) from None
        except BadData as unfit:
            raise Diverged(
                f"run {row.id}: its recorded input no longer fits {row.workflow}",
                details=[*(unfit.details or [unfit.message]), NOTHING_WRITTEN],
                hint=f"flow show {quote(row.workflow)}",
            ) from None


class Differs(Diverged):
    """Code that replays a journal and asks for something else: the first difference."""

    def __init__(self, run_id: str, difference: Difference, *, cure: str | None = None, hint: str | None = None) -> None:
        super().__init__(
            f"run {run_id}: {difference.sentence}",
            details=[f"likely cause: {difference.cause}", cure or UNDO_THE_EDIT, NOTHING_WRITTEN],
            hint=hint or f"flow check {run_id}",
        )
        self.difference = difference


def replayed_body(
    run_id: str,
    ledger: Ledger,
    program: Program,
    log: Callable[[str, int, str], None],
) -> Body:
    """The body of a run at its frontier. Raises Differs."""
    body = Body(run_id, ledger, program, partial(log, run_id))
    try:
        body.replay()
    except Divergence:
        body.close()
        assert body.difference is not None
        raise Differs(run_id, body.difference) from None
    return body


def with_what_is_kept(details: Sequence[str], ledger: Ledger, run_id: str) -> tuple[str, ...]:
    """The details of a refusal with what people have said to the run, which is in its journal and counts once the code fits."""
    said = [
        f'"{operation.name}" is {words.partition(", ")[0]}'
        for operation in ledger.waits.values()
        if (words := said_note(ledger, operation.key))
    ]
    if not said:
        return tuple(details)
    known = f"but it is recorded that {' and '.join(said)}"
    kept = f"nothing was run, {known}; once the code fits, flow resume {run_id} goes on with it"
    return (*(detail for detail in details if detail != NOTHING_WRITTEN), kept)


UNDO_THE_EDIT = "undo the edit, or look for randomness, the clock or a set's order in the body"
NOTHING_WRITTEN = "nothing was run and nothing was written"
