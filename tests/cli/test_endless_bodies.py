"""A body that never lets go is named by its line, and the second signal ends the process; the run is then as it was."""

import signal

import pytest

from support.acting import Scene, until
from support.acting import scene as make_scene

BODIES = {
    "does nothing": """
@workflow
async def endless(flow: Flow) -> None:
    await flow.do("first", hit, "first")
    while True: pass  # here
""",
    "asks what is refused": """
@workflow
async def endless(flow: Flow) -> None:
    await flow.do("first", hit, "first")
    while True:
        try:
            await flow.do("x", hit, object())  # here
        except Exception:
            pass
""",
    "in a thread": """
@workflow
def endless(flow: BlockingFlow) -> None:
    flow.do("first", hit, "first")
    while True: pass  # here
""",
}
BEFORE = """
from flowstone import BlockingFlow, Flow, workflow

def hit(tag):
    with open("ledger", "a") as file:
        file.write(tag + "\\n")
"""


@pytest.fixture
def scene(project) -> Scene:
    return make_scene(project)


@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_never_lets_go_is_named_and_the_second_signal_ends_its_process(scene, body):
    source = BEFORE + BODIES[body]
    (scene.root / "workflows" / "endless.py").write_text(source)
    line = source[: source.index("# here")].count("\n") + 1
    process, run = scene.run_to("first", "endless")
    told: list[str] = []
    until(lambda: told.append(process.stderr.readline()) or "holds up" in told[-1], "the warning")
    assert f"the workflow's body holds up everything else at workflows/endless.py:{line}" in told[-1]
    process.send_signal(signal.SIGINT)
    until(lambda: "stopping" in process.stderr.readline(), "the first signal is heard")
    process.send_signal(signal.SIGINT)
    code, out, _ = scene.ended(process)
    assert (code, out) == (130, "")
    document = scene.flow("status", run, "--json").document
    assert (document["phase"], document["next"], scene.hits("first")) == ("interrupted", f"flow resume {run}", 1)
