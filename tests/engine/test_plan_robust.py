"""Any body that Python accepts has a plan, soon."""

import ast
import asyncio
import email._header_value_parser
import inspect
import textwrap
import warnings
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from flowstone.journal import plan_expressions, plan_reading
from flowstone.journal.plan import plan_document
from flowstone.journal.plan_blocks import MOST_OPERATIONS
from flowstone.journal.plan_reading import plan_in, plan_of
from flowstone.journal.versions import definitions

ATOMS = ["flow", "x", "f", "'a'", "3", "flow.do", "flow.now()", "inner", "None", "flow.do('a', f)", "flow.race({})", "inner()"]
WRAPS = [
    "{0}({1})",
    "flow.do({0}, {1}, *{0}, **{1})",
    "flow.map({0}, {1})",
    "({0}, *{1})",
    "{{{0}: {1}, **{1}}}",
    "[{0} for x in {1} if {0}]",
    "{{{0}: {1} for flow in {0}}}",
    "({0} for f, *x in {1} for x in {0})",
    "lambda x, flow={0}: {1}",
    "lambda: {0}",
    "({0} if {1} else {0})",
    "({0} and {1} or {0})",
    "({0} < {1} < {0})",
    "{0}.attr",
    "{0}[{1}:{0}]",
    "f'{{({0})!r:>{{{1}}}}}'",
    "(y := {0})",
    "(await {0})",
    "(yield {0})",
    "getattr({0}, {1})",
    "getattr(flow, 'do')({0}, {1})",
    "asyncio.gather({0}, *{1})",
    "create_task({0})",
    "-{0} + {1}",
    "flow.approval(reason={0}, schema={1})",
]
STATEMENTS = [
    "{0}",
    "return",
    "raise {0} from {1}",
    "x = {0}",
    "flow = {0}",
    "x, (flow, *y) = {0}, {1}",
    "x: int = {0}",
    "x: int",
    "x += {0}",
    "x.y[{0}] = {1}",
    "del x",
    "assert {0}, {1}",
    "import flow",
    "from a.b import inner as f",
    "global z",
    "pass",
    "flow.cancel({0})",
]
OPENINGS = [
    "if {0}:",
    "while {0}:",
    "for x in {0}:",
    "async for flow, x in {0}:",
    "with {0} as x, {1}:",
    "async with asyncio.TaskGroup() as tg:",
    "async def inner(x=None, *flow, y={0}):",
    "def inner(flow, /, x=None):",
    "class C({0}, metaclass={1}):",
    "with suppress({0}):",
]

small = st.deferred(
    lambda: st.sampled_from(ATOMS) | st.builds(lambda form, a, b: form.format(a, b), st.sampled_from(WRAPS), small, small)
)


@st.composite
def block(draw: Any, depth: int) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        first, second = draw(small), draw(small)
        if depth and draw(st.booleans()):
            lines.append(draw(st.sampled_from(OPENINGS)).format(first, second))
            lines += ["    " + line for line in draw(block(depth - 1))]
            if draw(st.booleans()):
                lines += ["try:", f"    {first}", f"except {second} as flow:", *("    " + one for one in draw(block(depth - 1)))]
            if draw(st.booleans()):
                lines += [f"match {first}:", "    case {'a': x, **flow} | [x, flow] if y:", f"        {second}"]
        else:
            lines.append(draw(st.sampled_from(STATEMENTS)).format(first, second))
    return lines


@hypothesis.given(lines=block(3))
@hypothesis.settings(max_examples=150, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
def test_random_bodies_have_plans(lines: list[str]) -> None:
    source = "async def body(flow, x):\n    inner = f = None\n" + "".join(f"    {line}\n" for line in lines)
    try:
        ast.parse(source)
    except SyntaxError:
        hypothesis.reject()
    plan_document(plan_of(source, "body"))


@pytest.mark.parametrize(
    "module", [inspect, asyncio.tasks, ast, textwrap, email._header_value_parser, plan_reading, plan_expressions]
)
def test_functions_that_were_not_written_as_bodies_have_plans(module: Any) -> None:
    with warnings.catch_warnings(action="ignore"):
        found = [*definitions(ast.parse(inspect.getsource(module)))]
    for node, name in found:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            plan_document(plan_in(found, name, node.lineno))


def body_of(*lines: str) -> str:
    return "async def body(flow, x):\n" + "".join(f"    {line}\n" for line in lines)


def test_a_sum_of_a_thousand_terms_is_read_over() -> None:
    terms = " + ".join(["x"] * 900)
    made = plan_of(body_of(f"y = {terms}", "await flow.do('a', f)"), "body")
    assert [entry.operation.key for entry in made.entries] == ["a"]


def test_an_expression_that_is_too_deep_is_unknown_if_the_flow_is_in_it() -> None:
    terms = " + ".join(["x"] * 900)
    made = plan_of(body_of(f"y = flow.do('a', f, {terms}) + {terms}"), "body")
    assert [entry.operation.kind for entry in made.entries][-1] in ("step", "unknown")


def test_a_long_chain_of_elif_is_one_branch() -> None:
    chain = [line for n in range(300) for line in (f"{'el' if n else ''}if x == {n}:", f"    await flow.do('step {n}', f)")]
    made = plan_of(body_of(*chain), "body")
    assert len(made.entries) == 300
    assert len(made.body) == 1


def test_functions_that_double_at_each_level_end_soon_and_say_that_they_were_cut() -> None:
    levels = "".join(f"async def f{n}(flow):\n    await f{n + 1}(flow)\n    await f{n + 1}(flow)\n\n" for n in range(25))
    last = "async def f25(flow):\n    await flow.do('leaf', f)\n\n"
    made = plan_of(levels + last + body_of("await f0(flow)"), "body")
    assert any(entry.operation.kind == "unknown" for entry in made.entries)
    assert not made.deterministic
    assert len(made.entries) <= MOST_OPERATIONS + 1


def test_a_very_long_body_is_cut_and_says_so() -> None:
    made = plan_of(body_of(*(f"await flow.do('step {n}', f)" for n in range(MOST_OPERATIONS + 50))), "body")
    assert len(made.entries) == MOST_OPERATIONS + 1
    assert made.entries[-1].operation.text == "more than 1,000 operations"
    assert not made.deterministic


@pytest.mark.parametrize("head", ["def body():", "def body(*all):", "async def body(*, flow):", "def body(flow, /): yield flow"])
def test_unusual_signatures_have_plans(head: str) -> None:
    plan_of(f"{head}\n    all[0].do('a', f)\n" if not head.endswith("flow") else head, "body")
