"""A run as one JSON document, journal included: made from a store, read again anywhere (`flow export`, replay of histories)."""

from collections.abc import Mapping, Sequence
from typing import Any

from flowstone.clock import to_rfc3339
from flowstone.errors import BadData
from flowstone.journal.events import Event, body_text

SCHEMA = "flow.export/1"


def export_document(run: Mapping[str, Any], events: Sequence[Event], source: str | None) -> dict[str, Any]:
    """The document. `run` is the run's flow.run/1; `source` the text of its body under its version."""
    return {
        "schema": SCHEMA,
        "run": dict(run),
        "source": source,
        "journal": [
            {
                "n": event.n,
                "at": to_rfc3339(event.at),
                "at_us": event.at,
                "kind": event.kind,
                "step": event.step,
                "attempt": event.attempt,
                "body": event.body(),
            }
            for event in events
        ],
    }


def exported_events(document: Any) -> list[Event]:
    """The journal in an exported document. Raises BadData for any other document."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BadData(f"this is no exported run: its schema is not {SCHEMA}", hint="flow export RUN --format json")
    try:
        return [
            Event(entry["n"], entry["at_us"], entry["kind"], entry["step"], entry["attempt"], body_text(**entry["body"]))
            for entry in document["journal"]
        ]
    except (KeyError, TypeError) as error:
        raise BadData(f"the exported run is damaged: {error}") from None
