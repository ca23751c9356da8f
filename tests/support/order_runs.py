"""The runs of the drawings M3 and M6, as journals built by hand: an order with a child, a fan-out, a long gate and an undo."""

from dataclasses import dataclass
from pathlib import Path

from flowstone.journal.phase import phase_of
from flowstone.journal.timeline import spans
from flowstone_cli.render.rows import Lane
from flowstone_cli.view import RunView
from support.journal_builder import MILLISECOND, SECOND, START, Journal

CHILD = "m3w8tazq0d5n"
DAYS = 51 * 3600 * SECOND


def order() -> Journal:
    """Two tries on reserve_stock, a child run, a fan-out of three, an approval of two days, three failed tries, undo."""
    ms = MILLISECOND
    journal = Journal({"order_id": "A-1001"}, workflow="order_fulfilment").claimed()
    journal.ran("validate", us=12 * ms)
    journal.step("reserve_stock").after(40 * ms).step_failed("reserve_stock", next_in=100 * ms).after(100 * ms)
    journal.step("reserve_stock", 2).after(38 * ms).succeeded("reserve_stock", attempt=2)
    journal.step("fraud_check", kind="child").add("child.started", "fraud_check", 1, child=CHILD)
    journal.after(182 * ms).succeeded("fraud_check")
    for number in range(3):
        journal.step(f"quotes[{number}]")
    journal.after(70 * ms).succeeded("quotes[2]").after(20 * ms).succeeded("quotes[0]").after(30 * ms).succeeded("quotes[1]")
    journal.gate("manager", expiry=3 * 86_400 * SECOND).suspended(gates=("approve:manager",)).after(DAYS)
    journal.answered("approve:manager", comment="within budget").claimed("owner-2", 2).resumed("approve")
    journal.closed("approve:manager", comment="within budget")
    for attempt, took, pause in ((1, 200, 240), (2, 220, 400), (3, 170, None)):
        journal.step("charge_card", attempt).after(took * ms)
        journal.step_failed(
            "charge_card", attempt, next_in=None if pause is None else pause * ms, type="CardDeclined", message="no funds"
        )
        journal.after((pause or 0) * ms)
    return journal.undo("reserve_stock").after(31 * ms).succeeded("reserve_stock:undo").failed("charge_card")


def fraud_check() -> Journal:
    """The child run of `order`."""
    journal = Journal(workflow="fraud_check", at=START + 190 * MILLISECOND).claimed()
    return journal.ran("score", us=108 * MILLISECOND).ran("decide", us=68 * MILLISECOND).completed()


def catalog(items: int, *, failing: int | None = None) -> Journal:
    """A fan-out of many; every item takes 100 ms, four at a time, one twice as long."""
    journal = Journal(workflow="import_catalog").claimed()
    journal.position = 1
    body = {"kind": "step", "name": "fetch", "function": "f", "input": None, "digest": "d", "policy": {}, "branch": ""}
    for first in range(0, items, 4):
        keys = [f"fetch[{number:04}]" for number in range(first, min(first + 4, items))]
        for key in keys:
            journal.position += 1
            journal.add("step.started", key, 1, **{**body, "position": journal.position})
        journal.after((200 if first == 8 else 100) * MILLISECOND)
        for key in keys:
            if failing is not None and key == f"fetch[{failing:04}]":
                journal.step_failed(key, type="SSLError")
            else:
                journal.succeeded(key)
    return journal


def seen(journal: Journal, *, life: str | None = None, id: str = "k7f2qd", now: int | None = None) -> RunView:
    """A run as the command line sees it."""
    row = journal.row(workflow=journal.events[0].body()["workflow"])
    return RunView(row, journal.events, life, journal.at if now is None else now, None, None, id, Path())  # type: ignore[arg-type]


def lane(journal: Journal, life: str | None = None) -> Lane:
    """A child run as the drawing sees it."""
    row = journal.row()
    return Lane(spans(journal.events), phase_of(row, life), row.finished_at is not None)


@dataclass(frozen=True)
class Order:
    """What a drawing of the order needs."""

    view: RunView
    children: dict[str, Lane]


def order_seen() -> Order:
    """The order and its child."""
    return Order(seen(order()), {CHILD: lane(fraud_check())})
