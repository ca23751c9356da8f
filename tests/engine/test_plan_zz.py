"""What a plan says is what runs do: random bodies are read, run, and compared operation by operation."""

import asyncio
import itertools
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from flowstone import Flow, NonRetryable, StepFailed, workflow
from flowstone.journal.plan import HOLE, Entry, Plan
from flowstone.journal.plan_reading import plan_of
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway

HEAD = """
@workflow
async def body(flow: Flow, flags: list[int]) -> None:
    f = flow

    async def leaf(other=None):
        await flow.do("a", same)
        await flow.do("leaf", same)

    async def deep(given):
        if flags[0]:
            return
        await given.do("b", same)
        await asyncio.gather(leaf(), given.do("a", same), leaf())
"""
TAIL = """

async def helper(flow, again):
    await flow.do("a", same)
    for _ in range(again):
        await flow.do("c", same)


def giving(flow, name):
    return flow.do(name, same)
"""
CALLS = [
    'flow.do("a", same)',
    'f.do("b", same)',
    'flow.do(f"a{flags[1]}", same)',
    'flow.do("a1", same)',
    "hand_over(flow)",
    "leaf()",
    "deep(flow)",
    "deep(f)",
    "helper(flow, flags[2])",
    "helper(again=2, flow=flow)",
    'giving(flow, "c")',
]
ONE_LINE = [
    *(f"await {call}" for call in CALLS),
    *(f"await asyncio.create_task({call})" for call in CALLS),
    'await flow.map("a", same, [1, 2])',
    'await flow.set_state("x", 1)',
    'await flow.do("b", same, await flow.do("a", same))',
    'await flow.do("fails", breaks)',
    'flags[1] and await flow.do("c", same)',
    'await (leaf() if flags[0] else flow.do("c", same))',
    'await asyncio.gather(*(flow.do(f"g{n}", same, n) for n in flags))',
    "await asyncio.gather(*[leaf() for _ in range(flags[3])])",
    'await asyncio.gather(flow.do("a", same), asyncio.create_task(leaf()), deep(flow))',
    "later = leaf(); await later",
    'early = flow.do("b", same); await flow.do("c", same); await early',
    "await kept[0]() if (kept := [leaf]) else None",
    "await (lambda: flow.do('c', same))()",
    "await apply(leaf)",
    "f = flow if flags[0] else flow",
    "return",
    "raise ValueError",
    "flow.cancel('enough')",
    "pass",
]


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def block(draw: Any, depth: int) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = ["line"] * 4 + (["if", "for", "try", "group", "while", "match", "suppress"] if depth else [])
        kind = draw(st.sampled_from(kinds))
        flag = f"flags[{draw(st.integers(0, 3))}]"
        match kind:
            case "line":
                lines.append(draw(st.sampled_from(ONE_LINE)))
            case "if":
                lines += [f"if {flag}:", *indented(draw(block(depth - 1)))]
                if draw(st.booleans()):
                    lines += ['elif await flow.do("a", same):', *indented(draw(block(depth - 1)))]
                if draw(st.booleans()):
                    lines += ["else:", *indented(draw(block(depth - 1)))]
            case "for":
                lines += [f"for _ in range({flag}):", *indented(draw(block(depth - 1)))]
                if draw(st.booleans()):
                    lines += ["    break"]
                if draw(st.booleans()):
                    lines += ["else:", *indented(draw(block(depth - 1)))]
            case "while":
                lines += [f"turns = {flag}", "while turns:", "    turns -= 1", *indented(draw(block(depth - 1)))]
            case "try":
                lines += ["try:", *indented(draw(block(depth - 1))), "except StepFailed:", *indented(draw(block(depth - 1)))]
                if draw(st.booleans()):
                    lines += ["else:", *indented(draw(block(depth - 1)))]
                if draw(st.booleans()):
                    lines += ["finally:", '    await flow.do("c", same)']
            case "suppress":
                lines += ["with suppress(Exception):", *indented(draw(block(depth - 1)))]
            case "group":
                started = draw(st.sampled_from(['flow.do("b", same)', "leaf()", "deep(flow)"]))
                lines += [
                    "async with asyncio.TaskGroup() as tg:",
                    f"    tg.create_task({started})",
                    *indented(draw(block(depth - 1))),
                ]
            case "match":
                lines += [f"match {flag}:", "    case 0:", *("    " + line for line in indented(draw(block(depth - 1))))]
                lines += ["    case _:", *("    " + line for line in indented(draw(block(depth - 1))))]
    return lines


def same(*_: Any) -> Any:
    return True


def breaks() -> None:
    raise NonRetryable("broken")


async def hand_over(flow: Flow) -> None:
    """Not in the source that the plan is read from."""
    await flow.do("a", same)


async def apply(function: Any) -> Any:
    return await function()


def run_of(source: str, flags: list[int]) -> tuple[bool, list[tuple[str, str, int]]]:
    """Whether the run completed; key, name and line of each operation that it asked for."""
    space: dict[str, Any] = {
        "asyncio": asyncio,
        "workflow": workflow,
        "Flow": Flow,
        "same": same,
        "breaks": breaks,
        "apply": apply,
        "hand_over": hand_over,
        "suppress": suppress,
        "StepFailed": StepFailed,
    }
    exec(compile(source, "random_body.py", "exec"), space)
    with tempfile.TemporaryDirectory() as folder:
        engine = Throwaway(Path(folder), space["body"])
        row = engine.run("body", {"flags": flags})
        ledger = engine.ledger(row.id)
        asked = [
            (one.key, one.name, int(one.opened["site"].rpartition(":")[2]) if one.opened.get("site") else 0)
            for one in ledger.operations.values()
            if one.of_body
        ]
        engine.close()
    assert row.status is not Status.SUSPENDED, ledger.suspension
    return row.status is Status.COMPLETED, asked


def may_be(entry: Entry, name: str) -> bool:
    """Whether an operation of that name may be the entry's."""
    planned = entry.operation
    if planned.name is None:
        return True
    if planned.kind == "map":
        return name.startswith(planned.name + "[")
    head, hole, rest = planned.name.partition(HOLE)
    return name.startswith(head) and name.endswith(rest) if hole else name == head


def agrees(plan: Plan, completed: bool, asked: list[tuple[str, str, int]]) -> None:
    entries = plan.entries
    for key, name, line in asked:
        meant = [one for one in entries if may_be(one, name) and (one.operation.line == line or not line)]
        unknown = [one for one in entries if one.operation.kind == "unknown"]
        assert meant or unknown, f"{key} at line {line} is not in the plan"
        keys = {one.operation.key for one in meant}
        assert not meant or None in keys or key in keys, f"{key} at line {line}: the plan says {keys}"
    if completed:
        certain = {one.operation.key for one in entries if one.certain}
        recorded = {key for key, _, _ in asked}
        assert certain <= recorded, f"certain, and not asked for: {certain - recorded}"
        if plan.deterministic:
            assert recorded == certain


@pytest.mark.filterwarnings("ignore")  # a run that is cancelled while it makes its arguments never awaits them
@hypothesis.given(lines=block(2), flags=st.lists(st.integers(0, 2), min_size=4, max_size=4))
@hypothesis.settings(max_examples=3000, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
def test_a_plan_says_what_a_run_does(lines: list[str], flags: list[int]) -> None:
    source = HEAD + "".join(f"    {line}\n" for line in lines) + TAIL
    hypothesis.note("".join(f"{number:3} {line}\n" for number, line in enumerate(source.split("\n"), 1)))
    plan = plan_of(source, "body")
    hypothesis.note("\n".join(str(one) for one in plan.entries))
    agrees(plan, *run_of(source, flags))


def test_each_of_the_random_bodies_lines_alone_agrees_with_its_run() -> None:
    for line, flags in itertools.product(ONE_LINE, ([0, 0, 0, 0], [2, 1, 1, 2])):
        source = f"{HEAD}    {line}\n{TAIL}"
        agrees(plan_of(source, "body"), *run_of(source, flags))
