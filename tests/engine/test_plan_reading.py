"""A plan read from source: names and keys, structures, what the call says, and what is not known."""

import textwrap
from typing import Any

import pytest

from flowstone.errors import LoadFailed
from flowstone.journal.plan import Block, Exit, Node, Plan, plan_document, shown_document
from flowstone.journal.plan_reading import plan_of


def plan(body: str, *, around: str = "", **options: Any) -> Plan:
    inside = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return plan_of(f"{textwrap.dedent(around)}\nasync def body(flow, order):\n{inside}\n", "body", **options)


def keys(made: Plan) -> list[str | None]:
    return [entry.operation.key for entry in made.entries]


def outline(nodes: tuple[Node, ...]) -> list[Any]:
    """Nodes as nested lists: operations by name, exits by how, blocks as [kind: text, ...]."""
    made: list[Any] = []
    for node in nodes:
        if isinstance(node, Block):
            made.append([f"{node.kind}: {node.text}".rstrip(": "), *outline(node.body)])
        elif isinstance(node, Exit):
            made.append(f"<{node.how}>")
        else:
            made.append(node.name if node.kind != "unknown" else f"? {node.text}")
    return made


# names and keys


def test_a_sequence_of_literal_names_is_certain() -> None:
    made = plan("""
        await flow.do("a", f)
        await flow.do("a", f)
        await flow.sleep("nap", "1h")
        await flow.suspend("look")
        await flow.approval("ok / now")
        await flow.set_state("x", 1)
        await flow.sleep_until("noon", noon)
        await flow.shell("list", ["ls"])
    """)
    assert keys(made) == [
        "a",
        "a#1",
        "sleep:nap",
        "suspend:look",
        "approve:ok %2F now",
        "state:x",
        "sleep:noon",
        "list",
    ]
    assert made.deterministic


def test_a_body_without_operations_is_certain() -> None:
    assert plan("return order").deterministic
    assert plan("return order").entries == []


def test_an_f_string_is_a_pattern_that_makes_like_names_uncertain() -> None:
    made = plan("""
        await flow.do(f"hash {order}", f)
        await flow.do("hash 3", f)
        await flow.do("archive", f)
        await flow.do("pre" + order + f"{1}{2}", f)
        await flow.approval("hash 3")
    """)
    assert [entry.operation.name for entry in made.entries] == ["hash {…}", "hash 3", "archive", "pre{…}", "hash 3"]
    assert keys(made) == [None, None, "archive", None, "approve:hash 3"]
    assert [entry.certain for entry in made.entries] == [False, False, True, False, True]
    assert not made.deterministic


def test_a_name_that_only_the_run_knows_is_unknown_and_so_is_every_key_behind_it() -> None:
    made = plan("""
        await flow.do("before", f)
        await flow.do(order.name, f)
        await flow.do("after", f)
    """)
    assert [entry.operation.name for entry in made.entries] == ["before", None, "after"]
    assert made.entries[1].operation.text == "order.name"
    assert keys(made) == ["before", None, None]


@pytest.mark.parametrize("name", ['""', '"a\\nb"', '"\\0"', "3", "*order"])
def test_a_name_that_the_run_refuses_has_no_key(name: str) -> None:
    assert keys(plan(f"await flow.do({name}, f)")) == [None]


def test_a_literal_in_pieces_is_one_name() -> None:
    assert keys(plan("await flow.do(f'char' 'ge', f)")) == ["charge"]


def test_names_are_normalised_as_in_keys() -> None:
    assert keys(plan("await flow.do('e\\u0301', f)\nawait flow.do('\\u00e9', f)")) == ["\u00e9", "\u00e9#1"]


def test_tasks_are_branches_in_the_order_of_their_making() -> None:
    made = plan("""
        async def leaf():
            await flow.do("leaf", f)

        first = asyncio.create_task(leaf())
        await asyncio.gather(flow.do("a", f), leaf(), first, asyncio.create_task(leaf()))
        async with asyncio.TaskGroup() as group:
            group.create_task(flow.do("b", f))
            group.create_task(leaf())
        await leaf()
    """)
    assert keys(made) == ["[0]/leaf", "a", "[1]/leaf", "[3]/leaf", "b", "[5]/leaf", "leaf"]
    assert made.deterministic


def test_tasks_behind_a_number_of_tasks_that_is_not_known_have_no_keys() -> None:
    made = plan("""
        async def leaf():
            await flow.do("leaf", f)

        await flow.map("items", g, order)
        await asyncio.gather(leaf())
        await leaf()
    """)
    assert keys(made) == [None, None, "leaf"]


def test_arms_count_from_the_same_keys_and_leave_theirs_uncertain() -> None:
    made = plan("""
        if order:
            await flow.do("a", f)
        elif order > 2:
            await flow.do("a", f)
        else:
            await flow.do("b", f)
        await flow.do("a", f)
        await flow.do("c", f)
    """)
    assert keys(made) == ["a", "a", "b", None, "c"]
    assert [entry.certain for entry in made.entries] == [False, False, False, False, True]


# structures


def test_the_structures_of_a_body() -> None:
    made = plan("""
        for item in order:
            await flow.do("each", f)
        while await flow.do("more", f):
            await flow.do("turn", f)
        match order:
            case {"a": x} if x > 1:
                await flow.do("case", f)
            case _:
                pass
        try:
            await flow.do("tried", f)
        except (A, B) as e:
            await flow.do("caught", f)
        finally:
            await flow.do("always", f)
        await asyncio.gather(*(flow.do(f"g{n}", f) for n in order))
        await flow.race({"x": flow.do("x", f), "late": flow.sleep("late", "1h")})
        order and await flow.do("and", f)
        await (flow.do("then", f) if order else flow.do("else", f))
    """)
    assert outline(made.body) == [
        ["loop: for item in order", "each"],
        ["loop: while await flow.do('more', f)", "more", "turn"],
        ["branch", ["case: order is {'a': x} if x > 1", "case"]],
        ["branch", ["try", "tried"], ["except: (A, B)", "caught"]],
        "always",
        ["parallel: gather", ["loop: for n in order", "g{…}"]],
        ["parallel: race", "x", "late"],
        ["branch", ["if: order", "and"]],
        ["branch", ["if: order", "then"], ["else", "else"]],
    ]


def test_arguments_are_asked_for_before_the_call_that_takes_them() -> None:
    assert keys(plan('await flow.do("outer", f, await flow.do("inner", g))')) == ["inner", "outer"]


def test_handlers_that_only_raise_leave_the_plan_certain() -> None:
    made = plan("""
        try:
            await flow.do("a", f)
            await flow.do("b", f)
        except Declined as e:
            raise NotSold from e
        except Other:
            log(order)
            flow.cancel("no")
        await flow.do("c", f)
    """)
    assert outline(made.body) == ["a", "b", "c"]
    assert made.deterministic


@pytest.mark.parametrize("handled", ["pass", "return", "await flow.do('x', f); raise"])
def test_handlers_that_go_on_make_it_uncertain(handled: str) -> None:
    made = plan(f"try:\n    await flow.do('a', f)\nexcept E:\n    {handled}\nawait flow.do('b', f)")
    assert not made.deterministic


def test_what_is_suppressed_may_not_be_reached() -> None:
    made = plan("with contextlib.suppress(E):\n    await flow.do('a', f)\n    await flow.do('b', f)")
    assert [entry.certain for entry in made.entries] == [False, False]


def test_behind_an_early_return_nothing_is_certain_but_behind_a_cancel_it_is() -> None:
    cancelled = plan("if not order:\n    flow.cancel('no')\nawait flow.do('a', f)")
    assert cancelled.deterministic
    assert outline(cancelled.body) == [["branch", ["if: not order", "<cancel>"]], "a"]
    returned = plan("for one in order:\n    if one:\n        return\nawait flow.do('a', f)")
    assert keys(returned) == ["a"]
    assert not returned.deterministic


def test_code_behind_an_end_is_not_in_the_plan() -> None:
    assert keys(plan("if order:\n    raise E\nelse:\n    return\nawait flow.do('never', f)")) == []


# functions that are followed


def test_functions_of_the_file_that_are_given_the_flow_are_followed() -> None:
    made = plan(
        """
        await prepare(1, flow)
        await prepare(2, fl=flow)
        other(order)
        quick(flow, "q")
        """,
        around="""
        async def prepare(n, fl):
            await fl.do("prepare", f)
            await deeper(fl)

        async def deeper(flow):
            if cached:
                return
            await flow.do("deep", f)

        def quick(flow, name):
            return flow.do("quick", f)

        def other(order):
            return order.do("not ours", f)
        """,
    )
    assert keys(made) == ["prepare", "deep", "prepare#1", None, "quick"]
    assert [entry.certain for entry in made.entries] == [True, False, True, False, True]


def test_a_function_that_calls_itself_is_marked() -> None:
    made = plan(
        "await again(flow, 3)",
        around="""
        async def again(flow, n):
            await flow.do("turn", f)
            if n:
                await again(flow, n - 1)
        """,
    )
    assert outline(made.body) == [
        ["call: again", "turn", ["branch", ["if: n", "? again again, from within itself"]]],
    ]


def test_aliases_of_the_flow_and_of_its_verbs_are_the_flow() -> None:
    made = plan("""
        f2 = flow
        do, g2 = flow.do, f2
        await do("a", f)
        await g2.do("b", f)
        await getattr(flow, "do")("c", f)
        if (h := flow):
            await h.do("d", f)
    """)
    assert keys(made) == ["a", "b", "c", "d"]


def test_a_name_that_hides_the_flow_is_not_the_flow() -> None:
    made = plan("""
        rows = [flow.do("x", f) for flow in order]
        def inner(flow):
            return flow.do("y", f)
        inner(order)
        flow = order
        flow.do("z", f)
    """)
    assert keys(made) == []


@pytest.mark.parametrize(
    "body",
    [
        "await deploy(flow, order)",
        "await getattr(flow, order)('x', f)",
        "context = Context(flow)",
        "self.flow = flow",
        "steps = [flow.do]",
        "return flow",
        "functools.partial(flow.do, 'a')",
        "await flow.expect_eventually('x', f)",
        "class Inner:\n    async def go(self):\n        await flow.do('a', f)",
        "if order:\n    fl = flow\nelse:\n    fl = order\nawait fl.do('a', f)",
        "global fl\nfl = flow",
    ],
)
def test_where_the_flow_cannot_be_followed_the_plan_says_so(body: str) -> None:
    made = plan(f"{body}\nawait flow.do('later', f)")
    kinds = [entry.operation.kind for entry in made.entries]
    assert "unknown" in kinds
    assert not made.deterministic
    assert "later" not in keys(made)


def test_code_that_is_given_away_is_there_and_uncertain() -> None:
    made = plan("""
        async def leaf():
            await flow.do("leaf", f)
        await retry(lambda: flow.do("tried", f))
        await each(order, leaf)
        await flow.do("leaf", f)
        await flow.do("free", f)
    """)
    assert outline(made.body) == [["later: lambda", "tried"], ["later: leaf", "leaf"], "leaf", "free"]
    assert keys(made) == [None, None, None, "free"]


def test_a_coroutine_that_is_kept_is_read_where_it_is_awaited() -> None:
    made = plan("""
        async def leaf(name):
            await flow.do("leaf", f)
        kept = leaf(1)
        await flow.do("a", f)
        await kept
        if order:
            kept = leaf(2)
            await kept
        for _ in order:
            await kept
            kept = leaf(3)
    """)
    assert outline(made.body) == [
        "a",
        ["call: leaf", "leaf"],
        ["branch", ["if: order", ["call: leaf", "leaf"]]],
        ["loop: for _ in order", "? kept", ["later: leaf", "leaf"]],
    ]


def test_a_name_that_is_bound_again_in_an_arm_may_be_either() -> None:
    made = plan("""
        if order:
            async def leaf():
                await flow.do("one", f)
        else:
            async def leaf():
                await flow.do("two", f)
        await leaf()
    """)
    assert outline(made.body) == ["? leaf()"]


def test_what_is_given_away_in_an_arm_stays_uncertain_behind_it() -> None:
    made = plan("""
        async def leaf():
            await flow.do("a", f)
        if order:
            await each(leaf)
        await flow.do("a", f)
    """)
    assert keys(made) == [None, None]


def test_the_function_of_a_step_is_no_part_of_the_body() -> None:
    made = plan("""
        def local():
            return flow.do("wrong", f)
        await flow.do("a", local, undo=local, on_error=local)
        await flow.map("m", local, order, key=local)
    """)
    assert [entry.operation.name for entry in made.entries] == ["a", "m"]


def test_looking_at_the_flow_is_no_escape() -> None:
    made = plan("""
        assert isinstance(flow, Flow)
        flow.log.info("x")
        print(flow.now(), flow.run_id, flow.state["x"], flow.random.random(), flow.uuid("n"))
        await flow.do("a", f, flow.input)
    """)
    assert made.deterministic


# what a call says


def test_a_call_tells_its_policy_its_undo_and_its_gate() -> None:
    made = plan(
        """
        await flow.do("charge", charge, order, retries=1, undo=refund, on_error=tell, description="Take the money")
        await flow.approval("large", schema=SignOff, expiry=order.limit, approvers="owner")
        await flow.map("quotes", rates.quote, order.carriers)
        await flow.shell("pack", ["tar", "-c"], timeout="5m")
        await flow.do("by name", "other_step")
        await flow.do("own", child, order)
        await flow.do("far", shop.order)
        """,
        around="""
        @step(name="charge the card", retries=3, retry_delay="2s")
        async def charge(order): ...

        @workflow
        async def child(flow): ...
        """,
        workflows={"order"},
    )
    charge, large, quotes, pack, by_name, own, far = [entry.operation for entry in made.entries]
    assert (charge.function, charge.retries, charge.retry_delay, charge.undo) == ("charge the card", "1", "2s", "refund")
    assert (charge.on_error, charge.description) == ("tell", "Take the money")
    assert (large.answer, large.expiry, large.approvers) == ("SignOff", "order.limit", "owner")
    assert (quotes.kind, quotes.function, quotes.items, quotes.key) == ("map", "rates.quote", "order.carriers", None)
    assert (pack.kind, pack.function, pack.timeout) == ("shell", "tar", "5m")
    assert (by_name.kind, by_name.function) == ("step", "other_step")
    assert (own.kind, far.kind) == ("child", "child")


def test_a_blocking_body_is_read_in_the_same_way() -> None:
    source = """
def body(flow: BlockingFlow, items):
    first = flow.do("a", f)
    for item in items:
        flow.do(f"b{item}", f)
    flow.collect("c", f, items)
    return flow.approval(reason="d").approved
"""
    made = plan_of(source, "body")
    assert [(entry.operation.kind, entry.operation.key) for entry in made.entries] == [
        ("step", "a"),
        ("step", None),
        ("map", None),
        ("approval", "approve:d"),
    ]


def test_the_documents_have_their_fields() -> None:
    made = plan('if order:\n    await asyncio.gather(flow.do("a", f, retries=2))')
    assert plan_document(made) == [
        {
            "key": "a",
            "name": "a",
            "kind": "step",
            "function": "f",
            "certain": False,
            "in": [{"kind": "if", "text": "order"}, {"kind": "parallel", "text": "gather"}],
        }
    ]
    (shown,) = shown_document(made)
    assert shown | plan_document(made)[0] == shown
    assert (shown["retries"], shown["undo"], shown["line"]) == ("2", None, 4)


# which function is meant


def test_the_function_is_found_as_its_version_is() -> None:
    source = (
        "def t():\n    async def body(flow):\n        await flow.do('a', f)\n\nasync def body(flow):\n    await flow.do('b', f)\n"
    )
    assert keys(plan_of(source, "t.<locals>.body")) == ["a"]
    assert keys(plan_of(source, "body")) == ["b"]
    assert keys(plan_of(source, "body", 2)) == ["a"]
    with pytest.raises(LoadFailed, match="no function nobody"):
        plan_of(source, "nobody")
    with pytest.raises(SyntaxError):
        plan_of("def (", "body")


def test_a_variable_has_a_plan_of_one_unknown() -> None:
    made = plan_of("onboarding = graph('onboarding', nodes={})", "onboarding")
    assert [entry.operation.kind for entry in made.entries] == ["unknown"]
    assert not made.deterministic
