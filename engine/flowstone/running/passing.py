"""Putting one pass together: pen, attempts, ticks, children and undo for a run that this process has taken."""

from contextlib import suppress
from dataclasses import dataclass, field

from flowstone.authoring.definition import Policy
from flowstone.clock import Clock
from flowstone.errors import FlowError
from flowstone.journal.ledger import Ledger
from flowstone.journal.summary import Index
from flowstone.ports import Change, Owners, RunRow, Store
from flowstone.running.advance import Pass
from flowstone.running.attempts import Attempts
from flowstone.running.bodiless import end_without_body
from flowstone.running.children import Children, ChildRuns
from flowstone.running.compensation import Names
from flowstone.running.ending import ending_again
from flowstone.running.output import OutputLog
from flowstone.running.stopping import Stop, halted
from flowstone.running.taking import Taken
from flowstone.running.ticking import Ticking
from flowstone.running.undoing import Undoing
from flowstone.running.writer import Observe, Writer, summary_of


@dataclass(frozen=True, slots=True)
class Passing:
    """Runs passes over one store."""

    store: Store
    owners: Owners
    clock: Clock
    output: OutputLog
    stop: Stop
    children: ChildRuns
    policy: Policy
    observe: Observe
    _going: dict[str, Ticking] = field(default_factory=dict)

    async def run(self, taken: Taken, names: Names, park_after: int | None) -> None:
        """One pass of a taken run: of its body, or of its undo once that has begun."""
        row = taken.row
        writer = Writer(self.store, row, taken.ledger, taken.index, self.observe, self.output)
        attempts = Attempts(row.id, row.epoch, writer, self.clock, self.output)
        ticking = Ticking(attempts, writer, self.clock, self.owners)
        undoing = Undoing(row.id, writer, attempts, ticking, self.clock, names, self.policy, self.stop, park_after)
        self.stop.wakes.append(attempts.wake.set)
        self._going[row.id] = ticking
        try:
            children = Children(row.id, self.children, self.store, writer, attempts, self.clock, park_after)
            if taken.body is None and taken.ledger.undoing is None:
                await end_without_body(writer, children, undoing)
            elif taken.body is None:
                await undoing.run(ending_again(taken.ledger))
            else:
                await Pass(
                    taken.body,
                    writer,
                    self.clock,
                    attempts,
                    ticking,
                    children,
                    undoing,
                    self.stop,
                    park_after=park_after,
                ).run()
        except BaseException:
            self._give_up(row)
            raise
        finally:
            ticking.stop()
            self.stop.wakes.remove(attempts.wake.set)
            del self._going[row.id]
            writer.close()
            self.output.forget(row.id)

    async def deliver(self, run_id: str) -> None:
        """Let the pass of that run, if this process makes one, look for mail at once."""
        ticking = self._going.get(run_id)
        if ticking is not None:
            await ticking.look()

    def _give_up(self, row: RunRow) -> None:
        """A pass that breaks off leaves its run to others: this process may live on."""
        with suppress(FlowError):  # it belongs to another process already, or the disk is gone
            events = self.store.events(row.id)
            drafts = halted(Ledger(events), "BROKEN_OFF")
            change = Change(release=True, summary=summary_of(Index().after([*events, *drafts])))
            self.store.append(row.id, row.epoch, drafts, change)
