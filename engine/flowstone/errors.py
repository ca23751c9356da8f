"""Every error that Flowstone raises on its own account: a kind, a sentence with the values, a hint that can be typed.

FlowError
├─ UsageError            usage         the command or call itself is wrong; nothing was touched
├─ BadData               bad_data      input, answer or value is not JSON or does not fit
│  └─ ValueRefused                     a value cannot be recorded
├─ NotFound              not_found     no such run, step, gate, workflow or file
├─ LoadFailed            cannot_load   a workflow's module cannot be imported
├─ CannotCreate          cannot_create a file that a person named for output cannot be made
├─ StorageFailed         storage       disk, database or file system
├─ Damaged               storage       what is recorded of one run makes no sense; the store and the others are whole
├─ TryAgain              try_again     locked, owned by another process, or already answered
│  ├─ Locked                           another process writes to the database
│  ├─ RunOwned                         a live process executes the run
│  ├─ LostOwnership                    another process took the run over
│  └─ AlreadyAnswered                  the gate has its answer
├─ Diverged              refused       recorded history and code disagree
├─ NotAllowed            not_allowed   approver policy, read-only database
├─ BadSettings           config        flow.toml or [tool.flow]
└─ FlowMisuse            misuse        an author's call that can never work

What authors raise and catch stands apart (they are the workflow's own failures): NonRetryable here, StepFailed and
NotApproved where they are made.
"""

from collections.abc import Sequence


class FlowError(Exception):
    """An error with a `kind` that the command line turns into an exit code, and a `hint`, a command that can be typed."""

    kind = "internal"

    def __init__(self, message: str, *, hint: str | None = None, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = tuple(details)


class UsageError(FlowError):
    """The command or call itself is wrong; nothing was touched."""

    kind = "usage"


class BadData(FlowError):
    """An input, an answer or a value is not JSON or does not fit; `details` holds one line per violation, by path."""

    kind = "bad_data"


class ValueRefused(BadData):
    """A value cannot be recorded; the message names the path (`$.items[3].client: Client`) and the cure."""


class NotFound(FlowError):
    """No such run, step, gate, workflow or file; also an ambiguous prefix, with the candidates in `details`."""

    kind = "not_found"


class LoadFailed(FlowError):
    """A workflow file cannot be imported, or two files define one name."""

    kind = "cannot_load"


class CannotCreate(FlowError):
    """A file that a person named for output cannot be made; nothing was changed."""

    kind = "cannot_create"


class StorageFailed(FlowError):
    """Disk, database or file system failed; everything recorded before is intact.

    `unsaved` is the JSON text of a result that could not be recorded, if there was one.
    """

    kind = "storage"
    unsaved: str | None = None


class Damaged(FlowError):
    """What is recorded of the run `run` makes no sense; the store itself works, and the other runs are as they were."""

    kind = "storage"

    def __init__(self, run: str, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.run = run


class TryAgain(FlowError):
    """Not now: the database is locked, the run is owned, the gate is answered."""

    kind = "try_again"


class Locked(TryAgain):
    """Another process writes to the database."""


class RunOwned(TryAgain):
    """A live process executes the run."""


class LostOwnership(TryAgain):
    """Another process took the run over: this one must stop at once and write nothing more."""


class AlreadyAnswered(TryAgain):
    """The gate's round has its one answer already."""


class Diverged(FlowError):
    """Recorded history and code disagree; nothing was written and nothing was run."""

    kind = "refused"


class NotAllowed(FlowError):
    """The approver policy says no, or the database is read-only."""

    kind = "not_allowed"


class BadSettings(FlowError):
    """flow.toml or [tool.flow] holds an unknown key or a value that does not fit."""

    kind = "config"


class FlowMisuse(FlowError):
    """A call on `flow` that can never work, such as one made inside a step; raised at once where it is made."""

    kind = "misuse"


class NonRetryable(Exception):
    """Raised by a step's author: this failure will not heal, do not retry."""
