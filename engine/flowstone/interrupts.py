"""What unwinds a body without being a failure of it: `BaseException`s, so that `except Exception` cannot eat them.

The driver keeps the first one that travels, whatever the body does with it (DESIGN.md section 6).
"""


class Interrupt(BaseException):
    """Base of all that leaves a body without failing it."""


class RunCancelled(Interrupt):
    """`flow.cancel(reason)` was called, or the run's cancellation was handed out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PassOver(Interrupt):
    """The pass has ended; every call on `flow` from then on raises this, records nothing and starts nothing."""


class Divergence(Interrupt):
    """The code asked for something else than the journal has; carries the sentence for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Misuse(Interrupt):
    """A call on `flow` that can never work; carries the sentence, and stops the pass even when swallowed."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
