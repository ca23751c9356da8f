"""Edits under parked runs: a harmless one strands no run, a harmful one is refused with the place, and nothing is touched."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flowstone.errors import Diverged
from flowstone.journal.states import Status
from support.edits import Edits

SHOP = '''"""A shop."""
import asyncio
from flowstone import Flow, workflow


def reserve(total: int) -> str:
    return f"stock of {total}"


async def charge(stock: str) -> str:
    return f"paid {stock}"


async def pack(stock: str) -> str:
    return f"packed {stock}"


@workflow
async def shop(flow: Flow, total: int = 1) -> str:
    stock = await flow.do("reserve", reserve, total)
    receipt = await flow.do("charge", charge, stock)
    await flow.suspend("look")
    return f"{stock}, {receipt}"


@workflow
async def beside(flow: Flow) -> list[str]:
    async def ship() -> str:
        stock = await flow.do("stock", reserve, 1)
        return await flow.do("pack", pack, stock)

    async def sign() -> str:
        await flow.suspend("sign")
        return "signed"

    return list(await asyncio.gather(ship(), sign()))


@workflow
async def unrelated(flow: Flow) -> None:
    await flow.do("something", reserve, 1)
'''


@pytest.fixture
def edits(tmp_path: Path) -> Iterator[Edits]:
    made = Edits(tmp_path, SHOP)
    yield made
    made.close()


RESERVE = '    stock = await flow.do("reserve"'
LOOK = '    await flow.suspend("look")'

HARMLESS = {
    "a comment": [(RESERVE, f"    # first of all\n{RESERVE}")],
    "reformatting": [
        ('flow.do("reserve", reserve, total)', "flow.do(\n        'reserve',\n        reserve,\n        total,\n    )")
    ],
    "a docstring": [(RESERVE, f'    """Sell."""\n{RESERVE}')],
    "another workflow of the file": [('"something", reserve, 1', '"something else", reserve, 2')],
    "the body of a step": [('return f"stock of {total}"', 'return f"other stock of {total}"')],
    "a step after the frontier": [(LOOK, f'{LOOK}\n    await flow.do("pack", pack, stock)')],
    "a renamed local variable": [("    receipt = await", "    paid = await"), ("{receipt}", "{paid}")],
}
NEW_VERSION = {"a step after the frontier", "a renamed local variable"}


@pytest.mark.parametrize("edit", HARMLESS)
def test_a_parked_run_survives(edits: Edits, edit: str) -> None:
    first = edits.engine()
    row = first.run("shop", {"total": 3})
    assert row.status is Status.SUSPENDED
    edits.edit(*HARMLESS[edit])
    again = edits.engine()
    found = again.engine.checked(row.id)
    assert found.refusal is None
    assert (found.version != found.recorded) == (edit in NEW_VERSION)
    assert again.resume(row.id).status is Status.COMPLETED
    assert again.ledger(row.id).output == "stock of 3, paid stock of 3"
    assert ("run.migrated" in again.kinds(row.id)) == (edit in NEW_VERSION)
    started = [kind for kind in again.kinds(row.id) if kind.startswith("step.started")]
    extra = ["step.started pack~1"] if edit == "a step after the frontier" else []
    assert started == ["step.started reserve~1", "step.started charge~1", *extra]


HARMFUL = {
    "a renamed finished step": (
        "shop",
        [('"charge", charge', '"take money", charge')],
        'step 2: the journal has "charge" (charge), the code asks for "take money" (charge)',
        '"take money"',
        '"charge" was renamed to "take money"',
    ),
    "two finished steps swapped": (
        "shop",
        [
            ('    stock = await flow.do("reserve", reserve, total)\n', ""),
            (
                '    receipt = await flow.do("charge", charge, stock)\n',
                '    receipt = await flow.do("charge", charge, "x")\n    stock = await flow.do("reserve", reserve, total)\n',
            ),
        ],
        'step 1: the journal has "reserve" (reserve), the code asks for "charge" (charge)',
        '"charge"',
        '"reserve" was removed, or swapped with "charge"',
    ),
    "a step inserted before the frontier": (
        "shop",
        [("    receipt = await", '    await flow.do("pack", pack, stock)\n    receipt = await')],
        'step 2: the journal has "charge" (charge), the code asks for "pack" (pack)',
        '"pack"',
        '"pack" was inserted before "charge"',
    ),
    "a step removed before the frontier": (
        "shop",
        [
            ('    receipt = await flow.do("charge", charge, stock)\n', ""),
            (', {receipt}"', '"'),
        ],
        'step 2: the journal has "charge" (charge), the code asks for "look" (suspend)',
        '"look"',
        '"charge" was removed, or swapped with "look"',
    ),
    "a step inserted in a branch while another waits": (
        "beside",
        [("        return await flow.do(", '        await flow.do("charge", charge, stock)\n        return await flow.do(')],
        'the journal has "pack" (pack), the code asks for "charge" (charge)',
        '"charge", charge, stock)\n        return',
        '"charge" was inserted before "pack"',
    ),
    "a step removed in a branch while another waits": (
        "beside",
        [('return await flow.do("pack", pack, stock)', "return stock")],
        'the journal has "pack" (pack) (asked for at workflows/work.py:',
        None,
        '"pack" was removed, or what leads to it has changed',
    ),
    "another function under the same name": (
        "shop",
        [('"charge", charge', '"charge", pack')],
        'step 2: the journal has "charge" (charge), the code asks for "charge" (pack)',
        '"charge", pack',
        'another function runs under the name "charge"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", HARMFUL)
def test_a_harmful_edit_is_refused_and_nothing_is_touched(edits: Edits, edit: str) -> None:
    workflow, changes, sentence, place, cause = HARMFUL[edit]
    row = edits.engine().run(workflow)
    assert row.status is Status.SUSPENDED
    before = edits.rows()
    asked_line = edits.line_of('"pack", pack')
    edits.edit(*changes)
    again = edits.engine()
    for verb in (again.engine.check, again.engine.resume):
        with pytest.raises(Diverged) as refused:
            verb(row.id)
        assert sentence in refused.value.message
        line = asked_line if place is None else edits.line_of(place)
        assert f"workflows/work.py:{line}" in refused.value.message
        assert f"likely cause: {cause}" in refused.value.details
    assert edits.rows() == before
    edits.edit()
    assert edits.engine().resume(row.id).status is Status.COMPLETED
    assert edits.rows()[0] != before[0]


def test_a_run_of_a_workflow_that_is_gone_is_refused_until_it_is_back(edits: Edits) -> None:
    row = edits.engine().run("shop")
    before = edits.rows()
    edits.edit(("async def shop(", "async def store("))
    again = edits.engine()
    for verb in (again.engine.check, again.engine.resume):
        with pytest.raises(Diverged, match="the workflow shop is gone") as refused:
            verb(row.id)
        assert any('"reserve" was asked for at workflows/work.py:20' in detail for detail in refused.value.details)
    assert edits.rows() == before
    edits.edit()
    assert edits.engine().resume(row.id).status is Status.COMPLETED


def test_an_input_that_no_longer_fits_is_refused_until_it_does(edits: Edits) -> None:
    row = edits.engine().run("shop", {"total": 3})
    before = edits.rows()
    edits.edit(("total: int = 1", "limit: int = 1"), ("reserve, total)", "reserve, limit)"))
    again = edits.engine()
    for verb in (again.engine.check, again.engine.resume):
        with pytest.raises(Diverged, match="its recorded input no longer fits shop") as refused:
            verb(row.id)
        assert any("total" in detail for detail in refused.value.details)
        assert "shop is defined at workflows/work.py:18" in refused.value.details
    assert edits.rows() == before
    edits.edit()
    assert edits.engine().resume(row.id).status is Status.COMPLETED


def test_a_patch_goes_the_old_way_for_old_runs_and_the_new_way_for_fresh_ones(edits: Edits) -> None:
    old = edits.engine().run("shop")
    patched = (
        "    receipt = await",
        '    if flow.patched("pack first"):\n        await flow.do("pack", pack, stock)\n    receipt = await',
    )
    edits.edit(patched)
    engine = edits.engine()
    fresh = engine.run("shop")
    assert engine.engine.checked(old.id).patches == {"pack first": False}
    assert engine.engine.checked(fresh.id).patches == {"pack first": True}
    assert engine.ledger(fresh.id).state == {}, "the mark of a patch is no state of the author's"
    assert engine.resume(old.id).status is Status.COMPLETED
    assert not any(" pack" in kind for kind in engine.kinds(old.id))
    assert any(" pack" in kind for kind in engine.kinds(fresh.id))
    # No open run needs the old way: the question can go, and the runs that went the new way still fit.
    edits.edit(("    receipt = await", '    await flow.do("pack", pack, stock)\n    receipt = await'))
    assert edits.engine().resume(fresh.id).status is Status.COMPLETED


def test_patches_may_follow_each_other_and_go_one_at_a_time(edits: Edits) -> None:
    def body(*patches: str) -> tuple[str, str]:
        return "    receipt = await", "".join(f"    {patch}\n" for patch in patches) + "    receipt = await"

    def ask(name: str) -> str:
        return f'assert flow.patched("{name}")'

    edits.edit(body(ask("one"), ask("two"), ask("three")))
    row = edits.engine().run("shop")
    for patches in (
        [ask("one"), ask("two"), ask("three")],
        [ask("two"), ask("three")],
        [ask("one"), ask("three")],
        [ask("two")],
        [],
    ):
        edits.edit(body(*patches))
        edits.engine().engine.check(row.id)
    edits.edit(body('assert not flow.patched("newer")', ask("one"), ask("three")))
    assert edits.engine().resume(row.id).status is Status.COMPLETED


def test_a_patch_reached_after_the_frontier_goes_the_new_way(edits: Edits) -> None:
    row = edits.engine().run("shop")
    edits.edit(
        ('    await flow.suspend("look")', '    await flow.suspend("look")\n    if flow.patched("late"):\n        return "new"')
    )
    engine = edits.engine()
    engine.resume(row.id)
    assert engine.ledger(row.id).output == "new"


BESIDE = """
import asyncio
from flowstone import BlockingFlow, Flow, workflow


async def give(name: str) -> str:
    return name


@workflow
async def fresh(flow: Flow) -> list[bool]:
    async def branch(name: str) -> bool:
        await flow.do("step", give, name)
        asked = flow.patched("new")
        await flow.do("then", give, name)
        return asked

    found = list(await asyncio.gather(*[branch(name) for name in "abcdef"]))
    await flow.suspend("look")
    return found


@workflow
def blocking(flow: BlockingFlow) -> list[bool]:
    flow.do("step", give, "a")
    found = [flow.patched("new"), flow.patched("other")]
    flow.suspend("look")
    return found
"""


@pytest.mark.parametrize("workflow", ["fresh", "blocking"])
def test_a_fresh_run_goes_the_new_way_in_every_branch_whatever_ends_together(edits: Edits, workflow: str) -> None:
    edits.write(BESIDE)
    row = edits.engine().run(workflow)
    again = edits.engine()
    assert set(again.engine.checked(row.id).patches.values()) == {True}
    assert again.resume(row.id).status is Status.COMPLETED
    assert set(again.ledger(row.id).output) == {True}
