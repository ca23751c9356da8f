"""One call of `flow`: its options, settings, streams, and on first use its store and what hangs on it.

Not here: the engine, which only acting commands import (acting.py).
"""

import os
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from flowstone.clock import SystemClock
from flowstone.errors import Damaged, FlowError, NotFound, UsageError
from flowstone_cli.clean import one_line
from flowstone_cli.options import Options
from flowstone_cli.terminal import ReaderGone, Stream, stream
from flowstone_cli.typed import again

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from flowstone.journal.events import Event
    from flowstone.journal.secrets import Secrets
    from flowstone.journal.timeline import Span
    from flowstone.ports import RunRow
    from flowstone.settings import Settings
    from flowstone.storage.sqlite.owners import OwnerFiles
    from flowstone.storage.sqlite.store import SqliteStore
    from flowstone_cli.render.rows import Lane
    from flowstone_cli.view import RunView

MOST_CHILDREN = 300
"""Child runs that are read; a fan-out of more shows only how long each of the others took."""
Mode = Literal["read", "write", "create"]


class Session:
    """What the commands of one process share; everything is made when it is first asked for."""

    def __init__(self, options: Options, arguments: list[str]) -> None:
        self.options = options
        self.arguments = arguments
        self.clock = SystemClock()
        self.started_at = self.clock.now()
        self._store: SqliteStore | None = None
        self._prefix: int | None = None
        self._found: list[str] = []
        self.notify = self.say
        """How a thread tells something in between."""

    @cached_property
    def settings(self) -> "Settings":
        """The settings seen from the working directory, flags first. Its warnings are told once."""
        from flowstone.settings import load

        given = {"db": self.options.db, "dir": self.options.dir, "color": self.options.color}
        settings = load(Path.cwd(), flags=given)
        for warning in settings.warnings:
            self.say(f"warning: {warning}")
        return settings

    @property
    def color(self) -> str:
        """What decides about colour: the flag, else the settings, else auto."""
        if self.options.color is not None:
            return self.options.color
        try:
            return self.settings.color
        except FlowError:  # a bad flow.toml is told in black and white
            return "auto"

    @cached_property
    def out(self) -> Stream:
        """stdout, for the answer."""
        return stream(sys.stdout, "stdout", color=self.color, env=self.environment())

    @cached_property
    def err(self) -> Stream:
        """stderr, for talk."""
        return stream(sys.stderr, "stderr", color=self.options.color or "auto", env=self.environment())

    def environment(self) -> dict[str, str]:
        """What decides about drawing beside the flags: `--ascii` is FLOW_ASCII for this call."""
        return {**os.environ, "FLOW_ASCII": "1"} if self.options.ascii else dict(os.environ)

    def store(self, mode: Mode = "read") -> "SqliteStore":
        """The store, opened in the mode of the first call."""
        if self._store is None:
            from flowstone.storage.sqlite.store import SqliteStore

            if mode != "read" and not self.options.unsafe_fs:
                from flowstone.storage.sqlite.diagnosis import refuse_network, refuse_open_folder

                refuse_network(self.settings.db)
                refuse_open_folder(self.settings.db)
            self._store = SqliteStore(self.settings.db, self.clock, mode=mode, notice=lambda text: self.notify(text))
            if mode != "read":
                self._warn_if_open()
        return self._store

    def _warn_if_open(self) -> None:
        from flowstone.storage.sqlite.diagnosis import open_to_others

        found = open_to_others(self.settings.db)
        if found is not None:
            self.say(f"warning: {found.message}: {found.hint}")

    @property
    def is_fresh(self) -> bool:
        """Whether this is a project in which nothing has been run: its own database is not there yet."""
        return self.settings.origins["db"] == "default" and not self.settings.db.exists()

    @cached_property
    def owners(self) -> "OwnerFiles":
        """Who owns runs in this database."""
        from flowstone.storage.sqlite.owners import OwnerFiles

        return OwnerFiles(self.settings.db)

    def life(self, row: "RunRow") -> str | None:
        """What is known of the life of a run's owner: alive, dead, unknown; None without an owner."""
        return None if row.owner is None else self.owners.life(row.owner).value

    def phase(self, row: "RunRow") -> str:
        """What a run is doing, in one word."""
        from flowstone.journal.phase import phase_of

        return phase_of(row, self.life(row)).value

    def find(self, form: str, mode: Mode = "read") -> "RunRow":
        """The run that RUN stands for; says on stderr which one it is unless that is plain."""
        from flowstone_cli import run_forms

        reader = run_forms.Reader(self.store(mode), self.life, self.clock.now())
        try:
            choice = run_forms.find(form, reader)
        except NotFound as error:
            if error.hint is not None and error.hint.startswith(run_forms.ONE_OF_THEM):  # with the verb and options typed
                error.hint = again(self.arguments, instead={form: error.hint.removeprefix(run_forms.ONE_OF_THEM)})
            raise
        self._found.append(choice.row.id)
        if choice.echo:
            row = choice.row
            self.say(f"{form} is {self.short(row.id)} {row.workflow}, {run_forms.in_words(row, reader)}")
        return choice.row

    def follow(self, run_id: str) -> "Iterator[RunRow]":
        """The run's row: now, then whenever something may have changed, until nobody executes the run; that one too."""
        from threading import Event

        pause, store = Event(), self.store()
        while True:
            row = store.run(run_id)
            goes_on = row.owner is not None and self.life(row) != "dead"
            yield row
            if not goes_on:
                return
            for _ in range(10):  # an owner that dies writes nothing: it is looked at once a second
                pause.wait(0.1)
                if store.changed():
                    break

    @cached_property
    def secrets(self) -> "Secrets | None":
        """What hides values that look like secrets; None with --reveal."""
        from flowstone.journal.secrets import Secrets

        return None if self.options.reveal else Secrets(self.settings.secrets)

    def events(self, run_id: str, *, after: int = -1) -> "list[Event]":
        """A run's events as they may be shown: values that look like secrets are hidden."""
        found = self.store().events(run_id, after=after)
        return found if self.secrets is None else self.secrets.events(found)

    def view(self, row: "RunRow", stream: Stream, *, reveal: bool = False) -> "RunView":
        """All that a drawing of the run on that stream reads. `reveal`: with all values as they are."""
        from flowstone_cli.view import RunView

        events = self.store().events(row.id) if reveal else self.events(row.id)
        owner = None if row.owner is None else self.owners.facts(row.owner)
        return RunView(
            row=row,
            events=events,
            life=self.life(row),
            now=self.clock.now(),
            owner_pid=None if owner is None else owner.pid,
            seen_at=None if owner is None else owner.seen_at,
            id=self.short(row.id, stream),
            root=self.settings.root,
            source=lambda: self.store().source(row.version),
            kin=lambda found: [span for lane in self.lanes(found).values() for span in lane.spans],
            child=lambda run_id: self._child_view(run_id, stream),
            verbose=self.options.verbose > 0,
        )

    def _child_view(self, run_id: str, stream: Stream) -> "RunView | None":
        """The view of a child; None if it is not in this database, or makes no sense: its parent can be told all the same."""
        try:
            return self.view(self.store().run(run_id), stream)
        except (NotFound, Damaged):
            return None

    @property
    def left_out(self) -> "Sequence[FlowError]":
        """Why runs are not in the lists that were read: their rows make no sense."""
        return [] if self._store is None else list(self._store.left_out.values())

    def damage_behind(self, error: Exception) -> FlowError | None:
        """The damage that an error comes from which is none of ours, in one of the journals that were read; None: it is a bug."""
        if self._store is None:
            return None
        from flowstone.journal.damage import refuse_damaged

        try:
            refuse_damaged(self._store, list(self._store.read), error)
        except FlowError as damaged:
            return damaged
        return None

    def lanes(self, found: "Iterable[Span]") -> "dict[str, Lane]":
        """The child runs of these spans by their ids, and theirs in turn, as far as they are here; at most so many."""
        from flowstone.journal.damage import blaming
        from flowstone.journal.phase import phase_of
        from flowstone.journal.timeline import spans
        from flowstone_cli.render.rows import Lane

        made: dict[str, Lane] = {}
        wanted = [span.child for span in found if span.child]
        while wanted and len(made) < MOST_CHILDREN:
            child = wanted.pop(0)
            if child in made:
                continue
            try:
                row = self.store().run(child)
                with blaming(self.store(), child):
                    found_there = spans(self.store().events(child))
            except NotFound:
                continue
            except Damaged as damaged:  # the run whose child it is can be told all the same
                self.say(f"warning: {damaged.message}")
                continue
            made[child] = Lane(found_there, phase_of(row, self.life(row)), row.finished_at is not None)
            wanted += [span.child for span in made[child].spans if span.child]
        return made

    def short(self, run_id: str, stream: Stream | None = None) -> str:
        """An id as it is shown on a stream (default: stderr): short for people, whole in a pipe."""
        if not (stream or self.err).terminal or self._store is None:
            return run_id
        if self._prefix is None:
            try:
                self._prefix = self._store.prefix_length()
            except FlowError:  # a store that has failed must not keep its failure from being told
                return run_id
        return run_id[: self._prefix]

    def shortened(self, text: str) -> str:
        """A sentence for stderr with the ids of this command's runs as they are shown there."""
        for run_id in self._found:
            text = text.replace(run_id, self.short(run_id))
        return text

    def say(self, text: str) -> None:
        """One line on stderr, unless -q; a stderr that takes nothing changes nothing."""
        if not self.options.quiet:
            from flowstone_cli.render.text import told

            self.tell(told(self.err, one_line(text)))

    def ask(self, question: str, refusal: str, hint: str) -> None:
        """Return if a person at the terminal says yes. Raises UsageError if not, or if there is nobody to be asked."""
        import os

        if not (self.err.terminal and sys.stdin is not None and sys.stdin.isatty()) or os.environ.get("CI"):
            raise UsageError(refusal, hint=hint)
        self.tell(f"{one_line(question)} [y/N] ")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise UsageError("nothing was done", hint=hint)

    def who(self) -> str:
        """Who acts, as it is audited: JSON text."""
        import json

        from flowstone.identity import present_user, who

        return json.dumps(who() | {"user": self.settings.user or present_user()})

    def tell(self, text: str) -> None:
        """Clean text on stderr, also under -q."""
        try:
            self.err.write(text)
        except (FlowError, ReaderGone):
            return

    def close(self) -> None:
        """Close what was opened."""
        if self._store is not None:
            self._store.close()
