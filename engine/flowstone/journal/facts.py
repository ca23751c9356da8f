"""What readers need to know of a run's row: the attributes that they read, whatever type has them."""

from typing import Protocol

from flowstone.journal.states import Status


class RunFacts(Protocol):
    """A run's row as readers see it. Instants are microseconds UTC."""

    @property
    def id(self) -> str:
        """The whole id."""
        ...

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        ...

    @property
    def status(self) -> Status:
        """What the row says."""
        ...

    @property
    def version(self) -> str:
        """The version of the workflow that the run is under."""
        ...

    @property
    def key(self) -> str | None:
        """The author's key of the run."""
        ...

    @property
    def user(self) -> str:
        """Who started it."""
        ...

    @property
    def parent_run(self) -> str | None:
        """The run whose step this run is."""
        ...

    @property
    def created_at(self) -> int:
        """When it was created."""
        ...

    @property
    def updated_at(self) -> int:
        """When its last event was written."""
        ...

    @property
    def finished_at(self) -> int | None:
        """When it ended, if it has."""
        ...

    @property
    def owner(self) -> str | None:
        """The id of the process that executes it."""
        ...

    @property
    def events(self) -> int:
        """How many events its journal holds."""
        ...

    @property
    def mail(self) -> int:
        """How many of them are mail."""
        ...

    @property
    def waiting(self) -> str:
        """What it waits for, as `summary.Index.waiting` wrote it."""
        ...

    @property
    def steps(self) -> int:
        """How many operations have been started."""
        ...

    @property
    def done(self) -> int:
        """How many of them have succeeded."""
        ...

    @property
    def current_step(self) -> str | None:
        """The key of the operation that was started last."""
        ...

    @property
    def error(self) -> str | None:
        """JSON object of the run's error, if it failed; of who cancelled it and the reason (its message), if it was cancelled."""
        ...
