"""Values that are not to be shown: fields whose names look like secrets are masked in what is read from a journal."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from flowstone.journal.events import Event, Kind, body_text

MASK = "•••"
LOOKS_SECRET = ("*password*", "*token*", "*secret*", "authorization")
"""Patterns of names, whatever their case: `*` is any text."""
_VALUES = ("input", "result", "output", "value", "data", "notes")
"""Fields of an event's body that hold an author's values; all else is ours, and schemas stay readable."""


class Secrets:
    """Which names are secret, and their masking. `more`: further patterns."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        patterns = [pattern.casefold() for pattern in (*LOOKS_SECRET, *more)]
        self._form = re.compile("|".join(".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns), re.DOTALL)
        # A text without the longest piece of any pattern needs no closer look; most have none.
        self._pieces = tuple(dict.fromkeys(max(pattern.split("*"), key=len) for pattern in patterns))

    def hides(self, name: str) -> bool:
        """Whether a field of that name is secret."""
        return self._form.fullmatch(name.casefold()) is not None

    def masked(self, value: Any) -> Any:
        """A JSON value with what stands under secret names replaced, at any depth; null stays, so that one sees it is missing."""
        if isinstance(value, dict):
            return {name: MASK if one is not None and self.hides(name) else self.masked(one) for name, one in value.items()}
        return [self.masked(one) for one in value] if isinstance(value, list) else value

    def events(self, events: Sequence[Event]) -> list[Event]:
        """The events with the values in their bodies masked; also a state, and a plain result of a step, of a secret name."""
        hidden = [event.step for event in events if event.kind == Kind.STEP_STARTED and self._may_hide(event.step or "")]
        named = {step for step in hidden if step is not None and self.hides(step)}
        return [
            self._event(event, event.step in named) if event.step in named or self._may_hide(event.text) else event
            for event in events
        ]

    def _may_hide(self, text: str) -> bool:
        text = text.casefold()
        return any(piece in text for piece in self._pieces)

    def _event(self, event: Event, named: bool) -> Event:
        body = event.body()
        for field in _VALUES:
            if field in body:
                body[field] = self.masked(body[field])
        if isinstance(body.get("error"), dict) and "data" in body["error"]:
            body["error"]["data"] = self.masked(body["error"]["data"])
        if event.kind == Kind.STATE_SET and self.hides(str(body.get("state"))) and body.get("value") is not None:
            body["value"] = MASK
        if named and isinstance(body.get("result"), str | int | float):
            body["result"] = MASK
        return event._replace(text=body_text(**body))
