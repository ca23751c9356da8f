"""Cancelling a run whose code is gone or fits no more: without the body, from the journal alone."""

from flowstone.ports import Change
from flowstone.running.children import Children
from flowstone.running.ending import cancelled
from flowstone.running.undoing import Undoing
from flowstone.running.writer import Writer


async def end_without_body(writer: Writer, children: Children, undoing: Undoing) -> None:
    """Cancel the children, undo what was done, and write the end. Returns early while a child still undoes: its end is mail."""
    request = writer.ledger.cancelling
    assert request is not None
    ending = cancelled(request["reason"], request)
    await children.cancel_all(ending.reason)
    while ending.undoes and children.undoing():
        if await writer.append_alone([], Change(release=True, seen_mail=writer.ledger.mail)):
            return
        await writer.catch_up()
    await undoing.end(ending)
