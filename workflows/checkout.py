"""Sell one order as a saga: what was done is undone if a later step fails or the run is cancelled.

flow run checkout --input workflows/checkout.json
flow cancel @last --reason "customer called"        while it cools off: the charge is refunded, the stock released

What it shows: `undo=`, `on_error=`, a gate that somebody else must answer, a sleep. Each step writes an entry named by its
invocation id into a folder, so that a second attempt finds what the first one did, and nothing is sold or refunded twice.
"""

import json
from decimal import Decimal
from pathlib import Path

from pydantic import BaseModel

from flowstone import Done, Failed, Flow, NonRetryable, current_step, step, workflow


class Order(BaseModel):
    """The input. `shop` is a folder of entries; a relative path counts from where `flow run` was typed."""

    id: str
    total: Decimal
    card: str = "good"
    shop: Path
    sign_off_above: Decimal = Decimal(500)
    cool_off: str = "10m"


class SignOff(BaseModel):
    """What comes with a yes to a large order."""

    limit: int = 0


class Receipt(BaseModel):
    """A charge."""

    id: str
    amount: Decimal


class Confirmation(BaseModel):
    """The output."""

    order: str
    receipt: str


class CardDeclined(NonRetryable):
    """The bank said no; asking again does not help."""


def open_shop(shop: Path) -> Path:
    """The folder with a path that holds wherever the run goes on."""
    shop.mkdir(parents=True, exist_ok=True)
    return shop.resolve()


def reserve(shop: Path, order: Order) -> str:
    """Take the goods from the shelf."""
    return _enter(shop, "reserved", current_step().invocation_id, order=order.id)


def release(done: Done[str, Path, Order]) -> None:
    """Put them back. Where nobody knows whether they were taken, the entry tells."""
    shop, order = done.args
    if _has(shop, "reserved", done.invocation_id):
        _enter(shop, "released", done.invocation_id, order=order.id)


@step(retries=3, retry_delay="2s")
def charge(shop: Path, order: Order) -> Receipt:
    """Charge the card."""
    if order.card != "good":
        raise CardDeclined(f"the card of order {order.id} is {order.card}")
    receipt = _enter(shop, "charged", current_step().invocation_id, order=order.id, amount=str(order.total))
    return Receipt(id=receipt, amount=order.total)


@step
def refund(done: Done[Receipt, Path, Order]) -> None:
    """Give the money back, if it was taken."""
    shop, order = done.args
    if _has(shop, "charged", done.invocation_id):
        _enter(shop, "refunded", done.invocation_id, order=order.id, amount=str(order.total))


def tell_the_desk(failed: Failed[Path, Order]) -> None:
    """Leave a note for people before the stock is released."""
    shop, order = failed.args
    _enter(shop, "desk", order.id, step=failed.step, problem=str(failed.error))


@workflow
async def checkout(flow: Flow, order: Order) -> Confirmation:
    """Sell one order."""
    shop = await flow.do("open shop", open_shop, order.shop)
    await flow.do("reserve stock", reserve, shop, order, undo=release)
    if order.total > order.sign_off_above:
        answer = await flow.approval("large order", schema=SignOff, expiry="2d", approvers="not-initiator")
        if not answer.approved:
            flow.cancel(f"the large order was {answer.status}")
    receipt = await flow.do("charge card", charge, shop, order, undo=refund, on_error=tell_the_desk)
    await flow.sleep("cool off", order.cool_off)
    return Confirmation(order=order.id, receipt=receipt.id)


def _enter(shop: Path, kind: str, name: str, **facts: str) -> str:
    """Write an entry, whole or not at all; the same entry again changes nothing."""
    entry = shop / kind / f"{name}.json"
    entry.parent.mkdir(exist_ok=True)
    partial = entry.with_suffix(".partial")
    partial.write_text(json.dumps(facts))
    partial.replace(entry)
    return name


def _has(shop: Path, kind: str, name: str) -> bool:
    return (shop / kind / f"{name}.json").exists()
