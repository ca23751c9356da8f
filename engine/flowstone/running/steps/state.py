"""A named value of the run's state: one event, which is its completion too."""

from flowstone.authoring.requests import StateRequest
from flowstone.journal.events import Draft, Event, Kind, Raw, body_text
from flowstone.running.steps.asked import Asked
from flowstone.values.codec import digest, record


class AskedState(Asked[StateRequest]):
    """A change of the run's state."""

    __slots__ = ()

    kind = "state"
    prefix = "state:"

    def opening(self, now: int) -> Draft:
        """The one event of the operation."""
        text = self.text()
        return Draft(
            Kind.STATE_SET,
            self.key,
            1,
            body_text(**self.place(), state=self.request.name, value=Raw(text), digest=digest(text)),
        )

    def text(self) -> str:
        """The value as recorded. Raises ValueRefused."""
        return record(self.request.value, what=f'state "{self.name}"').text

    def outcome(self, completion: Event) -> None:
        """Nothing: the value stands in the run's state."""
