"""The workflows whose every write is attacked: what is typed before, what is attacked, and what the world must look like at last.

Each step notes `TAG INVOCATION_ID` in the file `effects` when it has its effect: the ledger, which the engine does not know.
"""

from dataclasses import dataclass, field

SOURCE = """
import asyncio, os
from pathlib import Path
from flowstone import Flow, current_step, graph, ref, step, workflow

def note(tag: str, line: str) -> None:
    written = f"{tag} {line}\\n".encode()
    end = os.open("effects", os.O_WRONLY | os.O_APPEND)
    try:
        os.writev(end, [written])  # a call that nothing else makes: see harness.EFFECT
    finally:
        os.close(end)

def hit(tag: str) -> str:
    note(tag, current_step().invocation_id)
    return tag

async def hit_async(tag: str) -> str:
    return hit(tag)

def unhit(done) -> None:
    note(f"undo-{done.step}", current_step().invocation_id)

def flaky(tag: str) -> str:
    again = f"{tag} " in Path("effects").read_text()
    hit(tag)
    if not again:
        raise ConnectionError("not yet")
    return tag

def breaks(tag: str) -> str:
    hit(tag)
    if not Path("fixed").exists():
        raise ValueError("broken")
    return tag

def dies(tag: str) -> str:
    hit(tag)
    if not Path("fixed").exists():
        os.kill(os.getpid(), 9)
    return tag

@workflow
async def three(flow: Flow) -> str:
    await flow.do("a", hit, "a")
    await flow.do("b", hit_async, "b")
    return await flow.do("c", hit, "c")

@workflow
async def retry(flow: Flow) -> str:
    await flow.do("a", flaky, "a", retries=5, retry_delay="1ms")
    return await flow.do("b", hit, "b")

@workflow
async def sleep(flow: Flow) -> str:
    await flow.do("a", hit, "a")
    await flow.sleep("nap", "1ms")
    return await flow.do("b", hit, "b")

@workflow
async def gate(flow: Flow) -> str:
    await flow.do("a", hit, "a")
    answer = await flow.approval("ok")
    return await flow.do("b", hit, "b" if answer.approved else "no")

@workflow
async def pause(flow: Flow) -> str:
    await flow.do("a", hit, "a")
    await flow.suspend("monday")
    return await flow.do("b", hit, "b")

@workflow
async def saga(flow: Flow) -> None:
    await flow.do("a", hit, "a", undo=unhit)
    await flow.do("b", hit, "b", undo=unhit)
    await flow.do("boom", breaks, "boom")

@workflow
async def gated_saga(flow: Flow) -> None:
    await flow.do("a", hit, "a", undo=unhit)
    await flow.approval("ok")

@workflow
async def inner(flow: Flow) -> str:
    return await flow.do("inside", hit, "inside")

@workflow
async def child(flow: Flow) -> str:
    await flow.do("a", hit, "a")
    await flow.do("kid", inner)
    return await flow.do("b", hit, "b")

@workflow(name="map")
async def map_(flow: Flow) -> list:
    found = await flow.map("items", hit, ["x", "y", "z"])
    await flow.do("b", hit, "b")
    return found

@workflow
async def together(flow: Flow) -> list:
    await flow.set_state("stage", "begun")
    found = await asyncio.gather(*[flow.do(tag, hit_async, tag) for tag in ("x", "y", "z")])
    await flow.do("b", hit, "b")
    return found

@workflow
async def crashed(flow: Flow) -> str:
    await flow.do("a", hit, "a")
    await flow.do("die", dies, "die")
    return await flow.do("b", hit, "b")

@workflow
async def broken(flow: Flow) -> str:
    await flow.do("a", hit, "a")
    await flow.do("boom", breaks, "boom")
    return await flow.do("b", hit, "b")

nodes = graph(
    "nodes",
    nodes={
        "a": {"run": hit, "input": "a", "next": ["x", "y"]},
        "x": {"run": hit, "input": "x", "next": "b"},
        "y": {"run": hit, "input": "y", "next": "b"},
        "b": {"run": hit, "input": "b"},
    },
    output=ref("b"),
)
"""


@dataclass(frozen=True)
class Shape:
    """One command at work, and how its run must end."""

    words: tuple[str, ...]
    """What is attacked."""
    effects: dict[str, int]
    """How often each effect is had without a fault."""
    before: tuple[tuple[str, ...], ...] = (("run", "three"),)
    """What was typed before: a run of another workflow, which makes the database, or more."""
    chain: tuple[str, ...] = ()
    """Effects of which each needs the recorded result of the one before: after a later one, an earlier one is never had again."""
    status: str = "completed"
    output: str = ""
    """What stdout shows if the command itself comes to the end."""
    fixed: bool = False
    """Whether what was broken is repaired between what was typed before and the attack."""
    answers: tuple[tuple[str, ...], ...] = field(default=())
    """What a person types when the run waits."""


def _run(name: str, *chain: str, **more: object) -> Shape:
    effects = dict.fromkeys(chain, 1)
    return Shape(**{"words": ("run", name), "effects": effects, "chain": chain, "output": f'"{chain[-1]}"\n', **more})  # type: ignore[arg-type]


OK = ("approve", "@last", "ok")
SHAPES: dict[str, Shape] = {
    "three steps": _run("three", "a", "b", "c"),
    "new database": _run("three", "a", "b", "c", before=()),
    "retry": _run("retry", "a", "b", effects={"a": 2, "b": 1}),
    "sleep": _run("sleep", "a", "b"),
    "gate": _run("gate", "a", "b", answers=(OK,)),
    "approve": _run("gate", "a", "b", words=OK, before=(("run", "gate"),), answers=(OK,), output=""),
    "suspend": _run(
        "pause", "a", "b", words=("resume", "@last"), before=(("run", "pause"),), answers=(("resume", "@last"),), output=""
    ),
    "saga": _run("saga", "a", "b", "boom", "undo-b", "undo-a", status="failed", output=""),
    "cancel": _run(
        "gated_saga",
        "a",
        "undo-a",
        words=("cancel", "@last", "--reason", "enough"),
        before=(("run", "gated_saga"),),
        status="cancelled",
        output="",
        answers=(("cancel", "@last", "--reason", "enough"),),
    ),
    "child": _run("child", "a", "inside", "b"),
    "map": Shape(("run", "map"), {"x": 1, "y": 1, "z": 1, "b": 1}, chain=("x", "b"), output='["x","y","z"]\n'),
    "together": Shape(("run", "together"), {"x": 1, "y": 1, "z": 1, "b": 1}, chain=("z", "b"), output='["x","y","z"]\n'),
    "graph": Shape(("run", "nodes"), {"a": 1, "x": 1, "y": 1, "b": 1}, chain=("a", "x", "b"), output='"b"\n'),
    "recover": _run(
        "crashed",
        "a",
        "die",
        "b",
        words=("recover",),
        before=(("run", "crashed"),),
        fixed=True,
        answers=(("resume", "@last"),),  # a sweep is patient with a run that has killed its process before
        output="",
        effects={"a": 1, "die": 2, "b": 1},
    ),
    "retry a failed run": _run(
        "broken",
        "a",
        "boom",
        "b",
        words=("retry", "@last"),
        before=(("run", "broken"),),
        fixed=True,
        output="",
        effects={"a": 1, "boom": 2, "b": 1},
        answers=(("retry", "@last"),),
    ),
}
MAIN = ("three steps", "approve", "saga")
"""Those in the test command."""
