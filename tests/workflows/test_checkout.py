"""The checkout saga: whatever happens to it, reservations, charges and refunds balance."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.processes import Folder, wait_until

from .conftest import Project, started

CHECKOUT = ["run", "checkout", "--input", "workflows/checkout.json"]
KINDS = ("reserved", "released", "charged", "refunded", "desk")


def entries(folder: Path) -> Counter[str]:
    shop = folder / ".flow" / "shop"
    return Counter({kind: len(list((shop / kind).glob("*.json"))) for kind in KINDS if (shop / kind).exists()})


def require_balance(folder: Path, status: str) -> None:
    """Sold exactly once, or all that was done is undone, entry by entry."""
    shop = folder / ".flow" / "shop"
    names = {kind: {path.name for path in (shop / kind).glob("*.json")} for kind in KINDS}
    if status == "completed":
        assert (len(names["reserved"]), len(names["charged"])) == (1, 1)
        assert not names["released"]
        assert not names["refunded"]
    else:
        assert names["released"] == names["reserved"]
        assert names["refunded"] == names["charged"]
        assert len(names["reserved"]) <= 1


@pytest.fixture
def order(project: Project) -> dict[str, Any]:
    return json.loads((project.folder / "workflows" / "checkout.json").read_text())


def test_it_sells_once(project: Project) -> None:
    done = project.json(*CHECKOUT)
    charged = [path.stem for path in (project.folder / ".flow" / "shop" / "charged").iterdir()]
    assert done["output"] == {"order": "A-1", "receipt": charged[0]}
    require_balance(project.folder, "completed")


def test_a_declined_card_is_told_to_the_desk_and_the_stock_is_released(project: Project) -> None:
    failed = project.json(*CHECKOUT, "--set", "card=stolen", exits=1)
    assert (failed["error"]["type"], failed["error"]["step"]) == ("CardDeclined", "charge card")
    assert entries(project.folder) == Counter(reserved=1, released=1, desk=1)
    order_of_events = [fact.step for fact in project.journal() if fact.kind == "step.succeeded"]
    assert order_of_events == ["open shop", "reserve stock", "charge card:on_error", "reserve stock:undo"]


def test_a_large_order_needs_the_yes_of_somebody_else(project: Project) -> None:
    project.flow(*CHECKOUT, "--set", "total=900", exits=8)
    project.flow("approve", "@last", "large order", exits=77)
    done = project.json("approve", "@last", "large order", "--by", "ben", "--set", "limit=1000")
    assert done["status"] == "completed"
    require_balance(project.folder, "completed")


def test_a_large_order_that_is_rejected_is_cancelled_and_released(project: Project) -> None:
    project.flow(*CHECKOUT, "--set", "total=900", exits=8)
    cancelled = project.json("reject", "@last", "large order", "--by", "ben", exits=3)
    assert cancelled["status"] == "cancelled"
    assert entries(project.folder) == Counter(reserved=1, released=1)


def test_a_cancel_while_it_cools_off_refunds_and_releases(project: Project) -> None:
    process = project.start(*CHECKOUT, "--set", "cool_off=1h", "--wait")
    wait_until(lambda: any(fact.kind == "sleep.started" for fact in project.journal()))
    project.flow("cancel", "@last", "--reason", "customer called")
    assert process.wait(60) == 3
    process.communicate()
    undone = [fact.step for fact in project.journal() if fact.kind == "step.succeeded" and (fact.step or "").endswith(":undo")]
    assert undone == ["charge card:undo", "reserve stock:undo"]
    require_balance(project.folder, "cancelled")


@pytest.mark.parametrize("step", ["open shop", "reserve stock", "charge card"])
def test_a_kill_at_any_step_is_mended_by_resume(project: Project, step: str) -> None:
    process = project.start(*CHECKOUT)
    project.kill_when(process, started(step))
    if project.json("status", "@last")["status"] != "completed":
        project.flow("resume", "@last")
    require_balance(project.folder, "completed")


@pytest.mark.parametrize("card", ["good", "stolen"])
@pytest.mark.parametrize("then", ["resume", "cancel"])
def test_a_death_at_any_event_leaves_nothing_unbalanced(tmp_path: Path, order: dict[str, Any], then: str, card: str) -> None:
    order = {**order, "cool_off": "10ms", "card": card}
    for death in range(2, 100):
        folder = Folder(tmp_path / str(death))
        folder.root.mkdir()
        shutil.copytree(Path(__file__).parents[2] / "workflows", folder.root / "workflows")
        died = folder.act("run", "checkout", death, order)
        [run] = folder.runs()
        if died.code == 0 or folder.status(run) != "running":
            require_balance(folder.root, folder.status(run))
            break
        done = folder.act(then, run)
        own_end = {"good": "completed", "stolen": "failed"}[card]
        status = folder.status(run)
        assert done.out.split() == [run, status], done
        assert status in ({own_end} if then == "resume" else {"cancelled", own_end})  # it may have come to its end before
        require_balance(folder.root, status)
    assert death > 10


@pytest.mark.parametrize("events_each", [5, 6])
def test_deaths_while_undoing_refund_once(tmp_path: Path, order: dict[str, Any], events_each: int) -> None:
    folder = Folder(tmp_path)
    shutil.copytree(Path(__file__).parents[2] / "workflows", tmp_path / "workflows", dirs_exist_ok=True)
    folder.act("run", "checkout", 9, {**order, "cool_off": "1h"})
    [run] = folder.runs()
    deaths = 0
    while folder.status(run) == "running":
        verb = "cancel" if deaths == 0 else "resume"
        deaths += folder.act(verb, run, len(folder.events(run)) + events_each).code == -9
    assert deaths > 1
    assert folder.status(run) == "cancelled"
    require_balance(tmp_path, "cancelled")
