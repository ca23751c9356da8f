"""The engine: start, answer, resume, drive. It wires store, owners, library and clock together and decides nothing itself."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from flowstone.authoring.definition import Policy, WorkflowDefinition, definition_of
from flowstone.authoring.inputs import bind
from flowstone.clock import MICROSECONDS, Clock
from flowstone.errors import BadSettings, Diverged, FlowError, LoadFailed, NotFound, TryAgain, UsageError
from flowstone.identity import new_run_id, new_seed, present_user, who
from flowstone.interrupts import Divergence
from flowstone.journal.events import Draft, Event, Kind, body_text
from flowstone.journal.labels import typed_name
from flowstone.journal.ledger import Ledger
from flowstone.journal.states import SETTLED, Status
from flowstone.journal.summary import Index
from flowstone.ports import AuditNote, Library, Life, NewRun, Owners, RunRow, Source, Store
from flowstone.running.advance import Pass, Stop, outside_of_tasks
from flowstone.running.answering import Word, decide, gate_meant
from flowstone.running.body import Body, Program
from flowstone.running.output import OutputLog
from flowstone.running.ownership import Cause, claim_drafts, claimed, life_of, refuse_if_owned
from flowstone.running.steps.gate import closing
from flowstone.running.work import has_work
from flowstone.running.writer import Writer, summary_of
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


@dataclass(slots=True)
class _Taken:
    """A run that this process owns, its body at the frontier."""

    row: RunRow
    body: Body
    ledger: Ledger


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
        observe: Callable[[Sequence[Event]], None] | None = None,
        output: OutputLog | None = None,
    ) -> None:
        self.store = store
        self.owners = owners
        self.library = library
        self.clock = clock
        self.settings = settings
        self.stop = Stop()
        """Set its code and call its `wake` to make `drive` put the run down."""
        self._observe = observe or (lambda events: None)
        self._output = output or OutputLog(clock)
        self._policy = Policy(retries=settings.retries, retry_delay=_checked(settings, "retry_delay"))
        self._park_after = parse(_checked(settings, "park_after"))
        self._taken: dict[str, _Taken] = {}

    # verbs

    def start(self, workflow: str, data: Any = None, *, key: str | None = None) -> Started:
        """Create a run of `workflow` with an input of plain JSON data, owned by this process.

        Raises NotFound, LoadFailed, BadData (the input does not fit: `details` by path), TryAgain (the key is taken by a run with
        another input). Nothing is written then.
        """
        definition = self._definition(workflow)
        bind(definition, data, where="the input")
        version = self.library.version(workflow)
        return self._create(definition, data, key, Source(version.hash, workflow, version.source))

    def _create(self, definition: WorkflowDefinition, data: Any, key: str | None, source: Source) -> Started:
        user, by, owner = self.settings.user or present_user(), who(), self.owners.enlist()
        new = NewRun(new_run_id(), definition.name, source.version, key, user, owner)
        wire = {"type": "cli", "user": user, "host": by["host"], "parent_run": None, "parent_step": None}
        created = Draft(
            Kind.RUN_CREATED,
            text=body_text(
                workflow=definition.name, input=data, version=source.version, seed=new_seed(), wire=wire, key=key, fork=None
            ),
        )
        row = self.store.create(new, [created, claimed(owner, 1)], source=source, audit=AuditNote("run", json.dumps(by)))
        if row.id == new.id:
            return Started(row, True)
        first = self.store.events(row.id)[0].body()
        if row.workflow != definition.name or digest(json.dumps(first["input"])) != digest(json.dumps(data)):
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

        Raises NotFound, AlreadyAnswered, NotAllowed, BadData. The run goes on when it is driven.
        """
        row = self.store.run(run_id)
        gate = gate_meant(Ledger(self.store.events(run_id)), row, reason, "approve" if yes else "reject")
        said = who() | ({"user": by} if by else {"user": self.settings.user or present_user()})
        word = Word(yes, data, comment, said)
        row, written = self.store.post(
            run_id,
            gate.key,
            lambda run, events: decide(word, run, events, self.clock.now(), self.settings.approvers),
            audit=AuditNote("approve" if yes else "reject", json.dumps(said)),
        )
        return Answered(row, gate.key, typed_name(gate.key, gate.name), repeated=not written)

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
        passes = self._passes(row, reason)
        self._taken[run_id] = self._take(row, Cause("resume", who(), passes, takeover))
        return self._taken[run_id].row

    def _passes(self, row: RunRow, reason: str | None) -> list[str]:
        ledger = Ledger(self.store.events(row.id))
        held = set((ledger.suspension or {}).get("gates", ()))
        gates = [gate for gate in ledger.open_gates() if gate.kind == "suspend" and gate.key in held]
        if reason is None:
            return [gate.key for gate in gates]
        meant = [gate.key for gate in gates if reason in (typed_name(gate.key, gate.name), gate.key)]
        if not meant:
            names = ", ".join(typed_name(gate.key, gate.name) for gate in gates) or "none"
            raise NotFound(f'run {row.id} is not suspended at "{reason}"; open: {names}', hint=f"flow status {row.id}")
        return meant

    def life(self, row: RunRow) -> Life | None:
        """Whether the run's owner lives; None if it has none."""
        return life_of(self.owners, row)

    async def drive(self, run_id: str, *, park_after: int | None = -1, verb: str = "resume") -> RunRow:
        """Carry the run on until it ends or parks, and give its row then. While another live process has it, follow.

        `park_after` is how long the process waits for a sleep or a retry, in microseconds: 0 not at all, None without end, -1 as
        the settings say. Raises Diverged, LoadFailed, StorageFailed, LostOwnership.
        """
        limit = self._park_after if park_after == -1 else park_after
        while True:
            taken = self._taken.pop(run_id, None) or await self._take_if_free(run_id, verb)
            if taken is not None:
                await self._pass(taken, limit)
                return self.store.run(run_id)
            row = self.store.run(run_id)
            if self.stop.code is not None:
                return row
            if row.owner is None or row.status in SETTLED:
                return row
            await self.clock.wait(self.clock.now() + FOLLOW)

    async def _take_if_free(self, run_id: str, verb: str) -> _Taken | None:
        row = self.store.run(run_id)
        if row.status in SETTLED:
            return None
        if row.owner is not None and row.owner == self.owners.enlist():
            return await self._outside(lambda: self._with_body(row))
        if self.life(row) not in (None, Life.DEAD):
            return None
        if not has_work(Ledger(self.store.events(run_id)), self.clock.now()):
            return None
        with suppress(TryAgain):  # somebody else was first: follow them
            return await self._outside(lambda: self._take(row, Cause(verb, who())))
        return None

    # taking a run up, and a pass

    def _take(self, row: RunRow, cause: Cause) -> _Taken:
        """Replay to the frontier, and only if code and history fit, claim."""
        taken = self._with_body(row)
        version = self.library.version(row.workflow)
        drafts, verb = claim_drafts(self.owners, row, taken.ledger, cause, version.hash)
        now = self.clock.now()
        drafts += [closing(key, taken.ledger.operations[key].last.number, "resumed", by=cause.by, at=now) for key in cause.passes]
        index = Index().after(self.store.events(row.id)).after(drafts)
        claimed_row = self.store.claim(
            row,
            self.owners.enlist(),
            drafts,
            verb=verb,
            source=Source(version.hash, row.workflow, version.source),
            audit=AuditNote(cause.verb, json.dumps(cause.by)),
            summary=summary_of(index),
        )
        for event in self.store.events(row.id, after=taken.ledger.count - 1):
            taken.ledger.apply(event)
        return _Taken(claimed_row, taken.body, taken.ledger)

    def _with_body(self, row: RunRow) -> _Taken:
        events = self.store.events(row.id)
        ledger = Ledger(events)
        body = Body(row.id, ledger, self._program(row.workflow, ledger.created["input"]), self._log)
        try:
            body.replay()
        except Divergence as divergence:
            body.close()
            raise Diverged(
                f"run {row.id}: {divergence.message}",
                details=["nothing was run and nothing was written"],
                hint=f"undo the edit, or look for randomness, the clock or a set's order in the body; then flow resume {row.id}",
            ) from None
        return _Taken(row, body, ledger)

    def _program(self, workflow: str, data: Any) -> Program:
        definition = self._definition(workflow)
        arguments, named = bind(definition, data, where="the run's recorded input")
        return Program(
            workflow=definition,
            arguments=arguments,
            named=named,
            version=self.library.version(workflow).hash,
            find_step=self.library.step,
            policy=self._policy,
        )

    def _definition(self, workflow: str) -> WorkflowDefinition:
        definition = definition_of(self.library.load(workflow))
        if not isinstance(definition, WorkflowDefinition):
            raise LoadFailed(f"{workflow} is not a workflow")
        return definition

    async def _pass(self, taken: _Taken, park_after: int | None) -> None:
        index = Index().after(self.store.events(taken.row.id))
        writer = Writer(self.store, taken.row, taken.ledger, index, self._observe, self._output)
        try:
            await Pass(
                taken.body, writer, self.clock, self._output, self.stop, epoch=taken.row.epoch, park_after=park_after
            ).run()
        finally:
            writer.close()

    async def _outside(self, function: Callable[[], _Taken]) -> _Taken:
        result: list[_Taken] = []
        await outside_of_tasks(lambda: result.append(function()))
        return result[0]

    def _log(self, level: int, message: str) -> None:
        self._output.add(None, None, "err" if level >= 30 else "out", message + "\n")


def _checked(settings: Settings, name: str) -> Any:
    value = getattr(settings, name)
    if value == "exponential":
        return value
    try:
        parse(value)
    except FlowError as error:
        raise BadSettings(f"{name} ({settings.origins.get(name, 'default')}): {error}") from None
    return value
