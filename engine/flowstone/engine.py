"""The engine: start, answer, resume, retry, cancel, resolve, drive. It wires the parts together and decides nothing itself."""

import asyncio
import functools
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from flowstone.authoring.definition import Policy, require_entry
from flowstone.authoring.inputs import bind
from flowstone.clock import MICROSECONDS, Clock
from flowstone.errors import BadSettings, FlowError, NotFound, TryAgain, UsageError
from flowstone.identity import new_run_id, present_user, who
from flowstone.journal.damage import blaming
from flowstone.journal.events import Draft, Event
from flowstone.journal.labels import typed_name
from flowstone.journal.ledger import Ledger
from flowstone.journal.states import SETTLED, Status
from flowstone.ports import AuditNote, Library, Life, NewRun, Owners, RunRow, Store
from flowstone.running.advance import outside_of_tasks
from flowstone.running.answering import Word, decide, early_word, gate_meant, is_gate
from flowstone.running.body import Program
from flowstone.running.cancelling import requested
from flowstone.running.checking import Checked, checked
from flowstone.running.children import has_news, tell_parent
from flowstone.running.compensation import Names
from flowstone.running.creating import Creating
from flowstone.running.forking import UNCHANGED, Forking
from flowstone.running.output import OutputLog
from flowstone.running.ownership import Cause, life_of, refuse_if_owned
from flowstone.running.passing import Passing
from flowstone.running.programs import Programs
from flowstone.running.recovery import Passed, due_runs, passed_over
from flowstone.running.resolving import fitting, unresolved, word
from flowstone.running.resuming import passed_gates
from flowstone.running.steps.child import AskedChild
from flowstone.running.stopping import Stop
from flowstone.running.taking import Taken, Taking
from flowstone.running.work import has_work
from flowstone.settings import Settings
from flowstone.values.codec import digest
from flowstone.values.duration import parse

FOLLOW = MICROSECONDS // 10
"""How often a process that follows another one's run looks at it."""


@dataclass(frozen=True, slots=True)
class Started:
    """The outcome of `start`: `created` is False if the key was taken, and `row` is the run that has it."""

    row: RunRow
    created: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of `answer`: `repeated` if the same had been said before, and nothing was written."""

    row: RunRow
    step: str
    name: str
    repeated: bool


class Engine:
    """Runs workflows of one library over one store. One engine per process; `drive` belongs on that process's event loop."""

    def __init__(
        self,
        store: Store,
        owners: Owners,
        library: Library,
        clock: Clock,
        settings: Settings,
        *,
        observe: Callable[[str, Sequence[Event]], None] | None = None,
        output: OutputLog | None = None,
    ) -> None:
        self.store = store
        self.owners = owners
        self.library = library
        self.clock = clock
        self.settings = settings
        self.stop = Stop()
        """`stop.set(code)` makes `drive` put the run down."""
        self._output = output or OutputLog(clock)
        self._policy = Policy(retries=settings.retries, retry_delay=_checked(settings, "retry_delay"))
        self._park_after = parse(_checked(settings, "park_after"))
        self._programs = Programs(library, self._policy)
        self._creating = Creating(store, self._programs)
        self._taking = Taking(store, owners, clock, self._program, self._programs.plan, self._log)
        self._passing = Passing(
            store, owners, clock, self._output, self.stop, self, self._policy, observe or (lambda run, events: None)
        )
        self._forking = Forking(store, owners, clock, self._program, self._programs.plan, self._log, self._programs.given)
        self._taken: dict[str, Taken] = {}
        self._driving: dict[str, asyncio.Event] = {}
        """Set when the pass of that run has ended."""
        self._followed: list[str] = []
        """Children whose end the pass of their parent is waiting for."""

    # verbs

    def start(
        self, workflow: str, data: Any = None, *, key: str | None = None, detach: bool = False, start: str | None = None
    ) -> Started:
        """Create a run of `workflow` with an input of plain JSON data, owned by this process (`detach`: by nobody yet).

        `start` is the entry of a graph at which it begins, instead of all of them.

        Raises NotFound, LoadFailed, BadData (the input does not fit: `details` by path), TryAgain (the key is taken by a run with
        another input). Nothing is written then.
        """
        definition = self._programs.startable(workflow)
        data = self._programs.given(workflow, data)
        bind(definition, data, where=workflow)
        require_entry(definition, start)
        if definition.require is not None:
            definition.require(data, start, self._programs.function_of)
        user = self.settings.user or present_user()
        new = NewRun(
            new_run_id(), workflow, self._programs.source(workflow).version, key, user, None if detach else self.owners.enlist()
        )
        row = self._creating.create(new, data, who(), start)
        if row.id == new.id:
            return Started(row, True)
        first = self.store.events(row.id)[0].body()
        same = digest(json.dumps([first["input"], first.get("start")])) == digest(json.dumps([data, start]))
        if row.workflow != workflow or not same:
            raise TryAgain(
                f'the key "{key}" belongs to run {row.id} of {row.workflow}, which has another input',
                hint=f"flow status {row.id}",
            )
        return Started(row, False)

    def answer(
        self,
        run_id: str,
        reason: str | None,
        *,
        yes: bool,
        data: Any = None,
        comment: str | None = None,
        by: str | None = None,
        early: bool = False,
    ) -> Answered:
        """Record a person's word on a gate, after checking run, gate, deadline, policy and data under the store's lock.

        `early` keeps the word for a gate that the run has not reached; it is checked when the gate opens. Raises NotFound,
        AlreadyAnswered, NotAllowed, BadData. The run goes on when it is driven.
        """
        row = self.store.run(run_id)
        said = who() | {"user": by or self.settings.user or present_user()}
        said_word = Word(yes, data, comment, said)
        action = "approve" if yes else "reject"
        audit = AuditNote(action, json.dumps(said))
        ledger = Ledger(self.store.events(run_id))
        if early and reason is not None and not is_gate(ledger, reason):
            row, written = self.store.post(
                run_id, None, lambda run, events: early_word(said_word, run, events, reason, self.settings.approvers), audit=audit
            )
            return Answered(row, f"approve:{reason}", reason, repeated=not written)
        gate = gate_meant(ledger, row, reason, action)
        row, written = self.store.post(
            run_id,
            gate.key,
            lambda run, events: decide(said_word, run, events, self.clock.now(), self.settings.approvers),
            audit=audit,
        )
        return Answered(row, gate.key, typed_name(gate.key, gate.name), repeated=not written)

    def resolve(self, run_id: str, step: str, outcome: str, *, result: Any = None, reason: str) -> RunRow:
        """Say what became of a step whose outcome is unknown: "succeeded" with its result, "failed", or "retry".

        Raises NotFound, TryAgain, BadData (the result does not fit the step), Diverged. The run goes on when it is driven.
        """
        by = who() | {"user": self.settings.user or present_user()}
        if outcome == "succeeded":
            row = self.store.run(run_id)
            result = fitting(self._taking, row, unresolved(Ledger(self.store.events(run_id)), row, step), result)

        def said(run: RunRow, events: list[Event]) -> list[Draft]:
            return [word(unresolved(Ledger(events), run, step), outcome, result, by, reason)]

        return self.store.post(run_id, None, said, audit=AuditNote("resolve", json.dumps(by)))[0]

    def cancel(self, run_id: str, reason: str, *, undo: bool = True) -> RunRow:
        """Request that a run be cancelled; it is when it is driven, here or by its live owner. Again is no harm.

        Without its body, if code and history disagree and it is driven with the verb "cancel". `undo=False` leaves what was done
        as it is, also what an undo that has begun has not come to.
        """
        by = who() | {"user": self.settings.user or present_user()}

        def request(run: RunRow, events: list[Event]) -> list[Draft]:
            return [] if run.status in SETTLED else requested(Ledger(events), by, reason, undo=undo)

        return self.store.post(run_id, None, request, audit=AuditNote("cancel", json.dumps(by)))[0]

    def resume(self, run_id: str, reason: str | None = None, *, takeover: bool = False) -> RunRow:
        """Take up a run that is suspended, sleeping or interrupted; `drive` then goes on with it.

        Passes the suspend gates that were open when it was suspended, or the one that `reason` names. A completed run is left as
        it is. Raises RunOwned, NotFound, UsageError (failed or cancelled), Diverged (code and history disagree, nothing written).
        """
        row = self.store.run(run_id)
        if row.status is Status.COMPLETED:
            return row
        if row.status in SETTLED:
            raise UsageError(f"run {run_id} has {row.status}: there is nothing to resume", hint=f"flow retry {run_id}")
        refuse_if_owned(self.owners, row, takeover=takeover)
        taken = self._taking.replayed(row)
        cause = Cause("resume", who(), passed_gates(row, taken.ledger, reason), takeover)
        self._taken[run_id] = self._taking.claim(taken, cause)
        return self._taken[run_id].row

    def retry(self, run_id: str, step: str | None = None) -> RunRow:
        """Re-open a failed or cancelled run at the step whose failure left the body, or at `step`; `drive` then goes on with it.

        Once an undo has begun only the undo goes on. Raises UsageError, NotFound (no such step), RunOwned, Diverged.
        """
        self._taken[run_id] = self._taking.reopen(self.store.run(run_id), Cause("retry", who()), step)
        return self._taken[run_id].row

    def fork(self, run_id: str, step: str, data: Any = UNCHANGED) -> RunRow:
        """Start a new run from what `run_id` had done before it asked for `step`, with its input or another.

        Raises NotFound (no such step), BadData (the input does not fit), Diverged (today's code would not have come there).
        """
        user = self.settings.user or present_user()
        return self._forking.fork(self.store.run(run_id), step, data, user)

    def check_retry(self, run_id: str, step: str | None = None) -> None:
        """Raise what `retry` would; nothing is written."""
        self._taking.reopenable(self.store.run(run_id), step)[0].close()

    def check_fork(self, run_id: str, step: str, data: Any = UNCHANGED) -> None:
        """Raise what `fork` would; nothing is written."""
        self._forking.prepared(self.store.run(run_id), step, data)

    def check(self, run_id: str) -> None:
        """Replay a recorded run against today's code, running and writing nothing. Raises Diverged with the first difference."""
        found = self.checked(run_id)
        if found.refusal is not None:
            raise found.refusal

    def checked(self, run_id: str) -> Checked:
        """The same as a record of what was found. Raises LoadFailed."""
        row = self.store.run(run_id)
        known = row.workflow in self.library.names()
        return checked(self._taking, row, self._programs.source(row.workflow).version if known else None)

    def life(self, row: RunRow) -> Life | None:
        """Whether the run's owner lives; None if it has none."""
        return life_of(self.owners, row)

    async def drive(self, run_id: str, *, park_after: int | None = -1, verb: str = "resume", follow: bool = True) -> RunRow:
        """Carry the run on until it ends or parks, and give its row then. While another live process has it, follow, or leave it.

        `park_after` is how long the process waits for a sleep or a retry, in microseconds: 0 not at all, None without end, -1 as
        the settings say. Raises Diverged, LoadFailed, StorageFailed, LostOwnership.
        """
        limit = self._park_after if park_after == -1 else park_after
        with blaming(self.store, run_id):
            return await self._driven(run_id, limit, verb, follow=follow)

    async def _driven(self, run_id: str, limit: int | None, verb: str, *, follow: bool) -> RunRow:
        while True:
            taken = self._taken.pop(run_id, None) or await self._take_if_free(run_id, verb)
            if taken is not None:
                await self._pass(taken, limit)
                row = self.store.run(run_id)
                if not (row.status is Status.RUNNING and row.owner is None and self._has_work(row)):
                    return row
            row = self.store.run(run_id)
            if not follow or self.stop.code is not None or row.status in SETTLED:
                return row
            if run_id in self._driving:
                await self._driving[run_id].wait()
            elif row.owner is None:
                return row
            else:
                await self.clock.wait(self.clock.now() + FOLLOW)

    async def _pass(self, taken: Taken, park_after: int | None) -> None:
        run_id = taken.row.id
        ended = self._driving.setdefault(run_id, asyncio.Event())
        names = Names(lambda: self._programs.definition(taken.row.workflow).function, self.library.step)
        try:
            await self._passing.run(taken, names, park_after)
        finally:
            del self._driving[run_id]
            ended.set()
        if run_id not in self._followed:
            tell_parent(self.store, self.store.run(run_id))

    async def _take_if_free(self, run_id: str, verb: str) -> Taken | None:
        row = self.store.run(run_id)
        if row.status in SETTLED or run_id in self._driving:
            return None
        ours = row.owner is not None and row.owner == self.owners.enlist()
        if not ours and (self.life(row) not in (None, Life.DEAD) or not self._has_work(row)):
            return None
        taking, taken = self._taking, None
        self._driving[run_id] = asyncio.Event()  # until the pass has ended: nobody else here takes it meanwhile
        try:
            with suppress(TryAgain):  # somebody else was first: follow them
                taken = await outside_of_tasks(
                    lambda: (
                        taking.replayed(row)
                        if ours
                        else taking.claim(taking.replayed(row, to_cancel=verb == "cancel"), Cause(verb, who()))
                    )
                )
        finally:
            if taken is None:
                self._driving.pop(run_id).set()
        return taken

    def _has_work(self, row: RunRow) -> bool:
        """An owner that is gone has left the run in the middle of a pass: that is work, whatever the run waits for."""
        ledger, now = Ledger(self.store.events(row.id)), self.clock.now()
        return row.owner is not None or has_work(ledger, now, functools.partial(has_news, self.store, now))

    # sweeping (see running/recovery.py, worker.py)

    def due(self, limit: int) -> list[RunRow]:
        """At most `limit` runs of this folder's workflows that nobody executes and that would get further now."""
        return due_runs(self.store, self.owners, self.library.names(), self.clock.now(), limit)

    def passed_over(self) -> list[Passed]:
        """The runs that are interrupted or due and that a sweep leaves alone now."""
        return passed_over(self.store, self.owners, self.library.names(), self.clock.now())

    # children (see running/children.py)

    async def ensure_child(self, child: str, asked: AskedChild, parent: str) -> None:
        """Create the child run of that id, unless it exists. Raises BadData if the input does not fit it."""
        try:
            self.store.run(child)
        except NotFound:
            bind(asked.workflow, json.loads(asked.input_text), where=f'child "{asked.name}"')
            above = self.store.run(parent)
            version = self._programs.source(asked.workflow.name).version
            owner = self.owners.enlist()
            new = NewRun(child, asked.workflow.name, version, None, above.user, owner, parent, asked.key)
            self._creating.create(new, json.loads(asked.input_text), who())

    async def reopen_child(self, child: str, asked: AskedChild) -> bool:
        """Re-open a child that has failed or was cancelled; False if it has another input, or has undone what it did."""
        try:
            row = self.store.run(child)
        except NotFound:
            return True  # recorded and never made: it is made under that id
        ledger = Ledger(self.store.events(child))
        if row.workflow != asked.workflow.name or ledger.created["input"] != json.loads(asked.input_text):
            return False
        if row.status in (Status.FAILED, Status.CANCELLED):
            try:
                self._taken[child] = await outside_of_tasks(lambda: self._taking.reopen(row, Cause("retry", who()), None))
            except UsageError:  # it has undone what it did
                return False
        return True

    async def drive_child(self, child: str, park_after: int | None, verb: str = "resume") -> tuple[RunRow, Ledger]:
        """Carry a child on until it ends or parks."""
        self._followed.append(child)
        try:
            row = await self.drive(child, park_after=park_after, verb=verb)
        finally:
            self._followed.remove(child)
        return row, Ledger(self.store.events(child))

    async def cancel_child(self, child: str, reason: str) -> None:
        """Request the cancelling of a child."""
        with suppress(NotFound):  # it was recorded and never made
            self.cancel(child, reason)
            await self._passing.deliver(child)

    # code

    def _program(self, row: RunRow, data: Any, whose: str = "the run's recorded one") -> Program:
        return self._programs.program(row.workflow, data, where=f"{row.workflow} ({whose})")

    def _log(self, run_id: str, level: int, message: str) -> None:
        self._output.add(run_id, None, None, "err" if level >= 30 else "out", message + "\n")


def _checked(settings: Settings, name: str) -> Any:
    value = getattr(settings, name)
    if value == "exponential":
        return value
    try:
        parse(value)
    except FlowError as error:
        raise BadSettings(f"{name} ({settings.origins.get(name, 'default')}): {error}") from None
    return value
