"""When a process that vanished last lived, and so when an attempt ended that it left: nobody wrote that down."""

from flowstone.journal.events import Event


def seen_at(interrupted: Event, written_at: int) -> int | None:
    """When a process that vanished was last known to live, by run.interrupted, else by its last event; None if it was stopped."""
    body = interrupted.body()
    if body.get("code") != "VANISHED":
        return None
    seen: int | None = body.get("seen_at")
    return written_at if seen is None else seen


def cut_off_at(start_at: int, found_at: int, seen_at: int | None) -> int:
    """When an attempt ended that was cut off: when its process was last known to live if after the start, else when found."""
    return found_at if seen_at is None or seen_at <= start_at else seen_at
