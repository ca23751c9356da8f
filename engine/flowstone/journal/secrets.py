"""Values that are not to be shown: fields whose names look like secrets are masked in what is read from a journal."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from flowstone.journal.events import Event, Kind, body_text

MASK = "•••"
LOOKS_SECRET = (
    "*password*",
    "*passwd*",
    "*passphrase*",
    "*pwd*",
    "*token*",
    "*secret*",
    "*credential*",
    "*cookie*",
    "*bearer*",
    "*api_key*",
    "*access_key*",
    "*private_key*",
    "authorization",
    "proxy_authorization",
)
"""Patterns of names, whatever their case: `*` is any text, `_` also a dash, a dot, a blank or nothing (`apiKey`)."""
_COUNTS = re.compile(r".*tokens.*|.*token[_ .-]?(count|limit|budget|usage|number|total|price|cost|rate)s?", re.DOTALL)
"""Names of what is counted in tokens: under them numbers are shown, texts are not."""
_VALUES = ("input", "result", "output", "value", "data", "notes")
"""Fields of an event's body that hold an author's values; all else is ours, and schemas stay readable."""


class Secrets:
    """Which names are secret, and their masking. `more`: further patterns."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        ours = [(pattern, r"[_ .-]?") for pattern in LOOKS_SECRET]
        patterns = ours + [(pattern.casefold(), "_") for pattern in more]
        self._form = re.compile("|".join(_expression(*pattern) for pattern in patterns), re.DOTALL)
        # A text without the longest piece of any pattern needs no closer look; most have none.
        self._pieces = tuple(dict.fromkeys(max(re.split(r"[*_]", pattern), key=len) for pattern, _ in patterns))

    def hides(self, name: str) -> bool:
        """Whether a field of that name is secret."""
        return self._form.fullmatch(name.casefold()) is not None

    def masked(self, value: Any) -> Any:
        """A JSON value with what stands under secret names replaced, at any depth; null stays, so that one sees it is missing."""
        if isinstance(value, dict):
            return {name: self._under(name, one) for name, one in value.items()}
        return [self.masked(one) for one in value] if isinstance(value, list) else value

    def _under(self, name: str, value: Any) -> Any:
        """What is shown of the value of that name."""
        if value is None:
            return None
        if not self.hides(name):
            return self.masked(value)
        return _counted(value) if _COUNTS.fullmatch(name.casefold()) else MASK

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
        if event.kind == Kind.STATE_SET:
            body["value"] = self._under(str(body.get("state")), body.get("value"))
        if named and isinstance(body.get("result"), str | int | float):
            body["result"] = self._under(event.step or "", body["result"])
        return event._replace(text=body_text(**body))


def _expression(pattern: str, gap: str) -> str:
    return ".*".join(gap.join(map(re.escape, part.split("_"))) for part in pattern.split("*"))


def _counted(value: Any) -> Any:
    """Numbers as they are, at any depth, and all else masked."""
    if isinstance(value, dict):
        return {name: _counted(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_counted(one) for one in value]
    return value if value is None or isinstance(value, int | float) else MASK
