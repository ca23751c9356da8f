"""Values from anywhere: what a store takes it gives back the same, and no text from data is obeyed by a terminal."""

from collections.abc import Callable, Iterator
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crash import judge
from crash.warm import Warm
from flowstone import Flow, workflow
from flowstone.testing.throwaway import Throwaway

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**60), max_value=10**60),
    st.floats(),
    st.text(),
    st.binary(),
    st.decimals(),
    st.uuids(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-5, minutes=-30))])),
    st.times(),
    st.timedeltas(),
    st.builds(Path, st.sampled_from(["a", "/a/b", "☃ ?#%"])),
)
keys = st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.dates(), st.tuples(st.integers(), st.text()))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.sets(st.one_of(st.integers(), st.text(), st.dates()), max_size=4),
        st.frozensets(st.one_of(st.binary(), st.uuids()), max_size=4),
    ),
    max_leaves=12,
)


def drawn(value: Any) -> Any:
    """A value as something to compare: types too, NaN equal to itself, -0.0 not to 0.0, sets without order."""
    match value:
        case dict():
            return "dict", [(drawn(key), drawn(item)) for key, item in value.items()]
        case list() | tuple():
            return type(value).__name__, [drawn(item) for item in value]
        case set() | frozenset():
            return type(value).__name__, sorted(map(repr, value))
        case _:
            return type(value).__name__, repr(value)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=values)
def test_a_value_comes_back_the_same_or_is_refused_by_its_path(tmp_path: Path, value: Any) -> None:
    seen: list[Any] = []

    @workflow
    async def body(flow: Flow) -> Any:
        seen.append(await flow.do("give", lambda: value))
        await flow.suspend("look")
        return seen[-1]

    engine, again = Throwaway(tmp_path, body), Throwaway(tmp_path, body)
    try:
        row = engine.run("body")
        if row.status == "failed":
            assert "$" in str(row.error), row.error
            return
        again.resume(row.id)
        assert [drawn(one) for one in seen] == [drawn(value)] * 2
        judge.consistent(again.store.run(row.id), list(again.events(row.id)))
    finally:
        engine.close()
        again.close()


# texts that terminals obey

NASTY = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x9b31m\x9d0;t\x9c",
    "\r\nok completed\x08\x08",
    "\u202ereversed\u2066",
    "\u200b\ufeff\u2028",
    "[red]markup[/red] [/] [link=http://evil.example]x[/link] :thumbs_up:",
    "'; drop table runs; --",
    "{0} %s %n ${HOME} $(id) `id`",
    "<script>alert(1)</script>&amp;",
    "\x01\x7f",
    "日本語 👩‍💻 e\u0301",
]
HOSTILE = " ".join(NASTY)
WORKFLOWS = f"""
from flowstone import Flow, workflow

BAD = {HOSTILE!r}

def tell(value: str) -> str:
    print(BAD, flush=True)
    return BAD + value

def breaks() -> None:
    raise OSError(BAD)

@workflow(description=BAD, tags=["[red]x[/red]"])
async def hostile(flow: Flow, text: str) -> dict:
    await flow.set_state("[red]state[/red]", BAD)
    flow.log.warning(BAD)
    await flow.do("step [red]\\u202e[/red] <b>", tell, text, description=BAD)
    await flow.approval("gate [red]\\u202e[/red]", message=BAD)
    await flow.do("break [/] \\u202e", breaks, no_retry=(OSError,))

@workflow
async def given_up(flow: Flow, text: str) -> None:
    await flow.suspend("until [blink]\\u202e")

@workflow
async def gives(flow: Flow, text: str) -> dict:
    return {{"text": text, BAD: [BAD]}}
"""

RUN = ("@last:hostile",)
LOOKING: list[tuple[str, ...]] = [
    ("runs",),
    ("list",),
    ("show", "hostile"),
    ("audit",),
    ("check",),
    ("doctor",),
    ("config",),
    ("status", *RUN),
    ("timeline", *RUN),
    ("timeline", *RUN, "--events"),
    ("state", *RUN),
    ("state", *RUN, "--at", "3", "--diff", "0"),
    ("diff", "@last:hostile@2", "@last:hostile"),
    ("logs", *RUN),
    ("output", "@last:gives"),
    ("output", *RUN),
    ("export", *RUN),
    ("audit", *RUN),
    ("watch", *RUN),
    ("wait", *RUN),
    ("check", *RUN),
    ("status", HOSTILE),
    ("run", HOSTILE),
    ("show", HOSTILE),
    ("approve", "@last:hostile", HOSTILE),
    ("state", *RUN, "--at", HOSTILE),
    ("output", *RUN, HOSTILE),
    ("run", "hostile", "--set-str", f"{HOSTILE}=x"),
    ("--db", f"{HOSTILE}/x", "runs"),
    ("--dir", HOSTILE, "list"),
    (HOSTILE,),
]
"""Every verb that tells something, and hostile arguments."""
OBEYED = [
    *(chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))),
    "\u202e",
    "\u2066",
    "\u200b",
    "\ufeff",
    "\u2028",
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """A project full of hostile texts: `hostile(*words)` runs a command in it."""
    root = tmp_path_factory.mktemp("hostile")
    (root / "workflows").mkdir()
    (root / "workflows" / "work.py").write_text(WORKFLOWS)
    warm = Warm(tmp_path_factory.mktemp("outputs"))

    def flow(*words: str) -> Any:
        return warm.flow(root, *words, env={"FLOW_USER": HOSTILE})

    told = [
        flow("run", "gives", "--set-str", f"text={HOSTILE}"),
        flow("run", "given_up", "--set-str", "text=x", "--key", HOSTILE),
        flow("cancel", "@last", "--reason", HOSTILE),
        flow("run", "hostile", "--set-str", f"text={HOSTILE}", "--key", f"{HOSTILE}2"),
        flow("approve", "@last", "gate [red]\u202e[/red]", "--comment", HOSTILE, "--by", HOSTILE),
    ]
    assert [one.code for one in told] == [0, 8, 0, 8, 1], [one.err for one in told]
    for one in told:
        harmless(one)
    yield flow
    warm.close()


def harmless(ended: Any) -> None:
    """Nothing that a terminal obeys is in what a command said, and it was no bug."""
    assert ended.code != 70, ended.err
    assert "Traceback" not in ended.err
    for text in (ended.out, ended.err):
        found = [char for char in OBEYED if char in text]
        assert not found, (found, text)


@pytest.mark.parametrize("json", [False, True], ids=["text", "json"])
def test_no_command_tells_a_terminal_what_to_do(hostile: Callable[..., Any], json: bool) -> None:
    said = 0
    for words in LOOKING:
        ended = hostile(*words, *(["--json"] if json else []))
        said += len(ended.out + ended.err)
        try:
            harmless(ended)
        except AssertionError as error:
            raise AssertionError(f"flow {' '.join(words)[:60]!r}: {error}") from None
    assert said > 10_000
