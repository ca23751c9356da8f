"""A named value of the run's state: one event, which is its completion too."""

from typing import Any

from flowstone.authoring.requests import StateRequest
from flowstone.journal.events import Draft, Event, Kind, Raw, body_text
from flowstone.running.steps.asked import Asked
from flowstone.values.codec import digest, record


class AskedState(Asked[StateRequest]):
    """A change of the run's state."""

    __slots__ = ("_text",)

    kind = "state"
    prefix = "state:"

    def __init__(self, request: StateRequest, *place: Any) -> None:
        super().__init__(request, *place)
        self._text = record(request.value, what=f'state "{self.name}"').text

    def opening(self, now: int) -> Draft:
        """The one event of the operation."""
        body = body_text(**self.place(), state=self.name, value=Raw(self._text), digest=self.digest)
        return Draft(Kind.STATE_SET, self.key, 1, body)

    @property
    def digest(self) -> str | None:
        """The digest of the recorded value."""
        return digest(self._text)

    def outcome(self, completion: Event) -> None:
        """Nothing: the value stands in the run's state."""
