"""The plan as it is drawn: numbered lines that fit, a chart in which names stay text."""

import io
import json
import re

import pytest

from flowstone.journal.plan_reading import plan_of
from flowstone_cli.clean import cells
from flowstone_cli.render import plan
from flowstone_cli.render.mermaid import escaped, mermaid
from flowstone_cli.terminal import Stream

SOURCE = """
@workflow
async def child(flow): ...

async def order(flow, order):
    await flow.do("validate", validate, order)
    await flow.do("reserve_stock", reserve, order, retries=3, retry_delay="100ms", undo=release_stock)
    if order.cached:
        return order.cached
    await flow.do("fraud_check", child, order)
    await flow.map("quotes", quote, order.carriers)
    answer = await flow.approval("manager", expiry="3d", approvers="not-initiator")
    if not answer.approved:
        flow.cancel("no")
    try:
        await flow.do("charge_card", charge, order, retries=3, undo=refund)
    except Declined:
        await flow.do("notify", notify)
        return None
    async def ship(n):
        await flow.do(f"pick {n}", pick)
        await flow.do("pack", pack)
    await asyncio.gather(ship(1), flow.do("mail", mail))
    await flow.race({"yes": flow.suspend("ok"), "late": flow.sleep("late", "1h")})
    if results.charge_card.ok:
        await flow.do("ship", ship_it)
    elif order.total > limits.a_very_long_name[order.currency].upper_bound:
        await helpers.deploy(flow, order)
    else:
        await flow.do(NAME, f)
"""
EVIL = [
    '"]; click A "javascript:alert(1)',
    "%%{init: {'theme': 'x'}}%%",
    "`md` **b** <script>&amp;#quot;",
    "a\nflowchart LR\nb --> c",
    "\x1b[31m \u202e end",
    "日本語 {…}",
]


def window(width: int, *, terminal: bool = True, ascii_only: bool = False) -> Stream:
    return Stream(io.StringIO(), "stdout", terminal=terminal, color=False, width=width, ascii=ascii_only)


def drawn(source: str = SOURCE, width: int = 100) -> str:
    return plan.people(plan_of(source, "order"), window(width))


def test_the_plan_is_numbered_with_policy_undo_gates_and_conditions() -> None:
    assert (
        drawn()
        == """\
 1  validate
 2  reserve_stock                retries 3, 100ms apart  undo: release_stock
    done here if order.cached
 3  fraud_check                  child workflow
 4  quotes                       parallel, one per item of order.carriers
 5  approve: manager             gate, expires 3d, not the starter
    cancelled here if not answer.approved
 6  charge_card                  retries 3               undo: refund
    on Declined
 7    notify
      then done
    parallel
 8    mail
      ship:
 9      pick {…}
10      pack
    the first to end wins
11    suspend: ok                gate, until flow resume
12    sleep: late                sleeps 1h
13  ship                         only if results.charge_card.ok
14  helpers.deploy(flow, order)  what it asks for is not known, otherwise, only if order.total >
                                 limits.a_very_long_name[o…
15  {NAME}                       otherwise
"""
    )


@pytest.mark.parametrize("ascii_only", [False, True])
def test_it_fits_every_window_and_keeps_its_numbers(ascii_only: bool) -> None:
    made = plan_of(SOURCE, "order")
    for width in range(20, 241):
        text = plan.people(made, window(width, ascii_only=ascii_only))
        for line in text.splitlines():
            assert cells(line) <= width, (width, line)
            assert line == line.rstrip()
        assert re.findall(r"(?m)^ ?(\d+)  ", text) == [str(number) for number in range(1, 16)]


def test_a_pipe_gets_one_line_an_operation_with_its_key() -> None:
    lines = [line.split("\t") for line in plan.piped(plan_of(SOURCE, "order")).splitlines()]
    assert lines[0] == ["plan", "validate", "validate", "step", "validate", "certain", "-", "6"]
    assert lines[7] == ["plan", "mail", "mail", "step", "mail", "possible", "gather", "23"]
    assert {len(line) for line in lines} == {8}


def test_the_chart_leads_from_the_name_to_the_ends() -> None:
    text = mermaid(plan_of(SOURCE, "order"))
    assert text.startswith('flowchart TD\n    n0(["order"])\n')
    assert '{"order.cached"}' in text
    assert re.search(r'-->\|"yes"\| end_done\n', text)
    assert text.endswith('end_done(["done"])\n    end_cancelled(["cancelled"])\n')
    nodes = re.findall(r"(?m)^    (n\d+|end_\w+)[^ \w]", text)
    assert len(nodes) == len(set(nodes))
    targets = set(re.findall(r"-->(?:\|[^|]*\|)? (\w+)", text))
    assert targets == set(nodes) - {"n0"}


@pytest.mark.parametrize("evil", EVIL)
def test_what_an_author_writes_stays_text_in_a_chart(evil: str) -> None:
    taken = f"    if x == {evil!r}:\n        await flow.do({evil!r}, f)\n        return\n"
    source = f"async def order(flow, x):\n{taken}    await flow.do('z', f)\n"
    text = mermaid(plan_of(source, "order"))
    line = re.compile(r'    \w+(\W{1,2}"[\w _.,:=+…#;-]*"\W{1,2}| -->(\|"[\w _.,:=+…#;-]*"\|)? \w+)')
    first, *others = text.splitlines()
    assert first == "flowchart TD"
    assert all(line.fullmatch(one) for one in others), text
    assert "%%" not in text
    assert "\x1b" not in drawn(source)


def test_an_entity_stands_for_every_sign_that_means_something() -> None:
    assert escaped('a"b') == "a#34;b"
    assert escaped("#quot;") == "#35;quot#59;"
    assert escaped("order 7, à la carte") == "order 7, à la carte"


@pytest.mark.parametrize("around", ["", "if x == {n}:", "for y in x:"])
def test_a_long_chart_is_folded(around: str) -> None:
    lines = []
    for n in range(600):
        head = around.format(n=n)
        lines += [f"    {head}", f"        await flow.do('step {n}', f)"] if head else [f"    await flow.do('step {n}', f)"]
    text = mermaid(plan_of("async def order(flow, x):\n" + "\n".join(lines), "order"))
    assert len(re.findall(r"(?m)^    n\d+[^\d ]", text)) <= 200
    assert re.search(r'"… \d+ more"', text)


def test_show_has_the_plan_in_each_of_its_forms(shared) -> None:
    terminal = shared.terminal("show", "gated", NO_COLOR="1").out
    assert "1 step, version " in terminal
    assert " 1  approve: manager  gate, expires 2d\n" in terminal
    document = json.loads(shared.flow("show", "gated", "--json").out)
    assert document["deterministic"] is True
    assert [(one["key"], one["expiry"]) for one in document["plan"]] == [("approve:manager", "2d")]
    assert "\nplan\tapprove:manager\tmanager\tapproval\t" in shared.flow("show", "gated").out
    assert shared.flow("show", "gated", "--graph", "mermaid").out.startswith("flowchart TD\n")


def test_a_chart_is_refused_in_another_form_than_mermaid(shared) -> None:
    for arguments in (("--graph", "dot"), ("--graph", "mermaid", "--json"), ("--graph", "mermaid", "--schema")):
        refused = shared.flow("show", "gated", *arguments)
        assert (refused.code, refused.out) == (2, "")


def test_a_name_that_only_the_run_knows_is_drawn_in_ascii_too(project):
    (project.root / "workflows" / "boxes.py").write_text(
        """
from flowstone import Flow, workflow

def pack() -> None: ...

@workflow
async def boxes(flow: Flow, count: int) -> None:
    for number in range(count):
        await flow.do(f"pack {number}", pack)
"""
    )
    shown = project.terminal("show", "boxes", "--ascii", NO_COLOR="1").out
    assert "pack {~}" in shown
    assert shown.isascii()
    assert "pack {…}" in project.terminal("show", "boxes", NO_COLOR="1").out
