"""A sleep: the instant of waking is recorded, and waited for again after a crash."""

from flowstone.authoring.requests import SleepRequest
from flowstone.journal.events import Draft, Event, Kind, body_text
from flowstone.running.steps.asked import Asked


class AskedSleep(Asked[SleepRequest]):
    """A wait for an instant."""

    __slots__ = ()

    kind = "sleep"
    prefix = "sleep:"

    def opening(self, now: int) -> Draft:
        """Where the instant of waking is fixed: whatever the code says at a later replay, this one holds."""
        wake_at = self.request.until if self.request.until is not None else now + (self.request.duration or 0)
        return Draft(Kind.SLEEP_STARTED, self.key, 1, body_text(**self.place(), wake_at=wake_at))

    def outcome(self, completion: Event) -> None:
        """Nothing: the sleep is over."""

    def woken(self) -> Draft:
        """Its completion."""
        number = 1 if self.record is None else self.record.last.number
        return Draft(Kind.STEP_SUCCEEDED, self.key, number, body_text(result=None))
