"""workflows/release.py, through the real command: a gate between two processes, answered once, expired, raced."""

import hashlib
import json
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from .conftest import PATIENCE, Project, environment, started, wait_until

ROUNDS = 50
RELEASE = ["run", "release", "--input", "workflows/release.json"]


def kinds(project: Project) -> Counter[str]:
    return Counter(fact.kind for fact in project.journal())


def test_it_waits_at_the_gate_and_publishes_after_a_yes(project):
    waiting = project.json(*RELEASE, exits=8)
    assert waiting["phase"] == "waiting"
    assert waiting["next"] == f"flow approve {waiting['id']} publish"
    assert not (project.folder / ".flow" / "releases").exists()
    done = project.json("approve", "@waiting", "publish", "--set", "notes=first one", "--by", "ben")
    published = project.folder / ".flow" / "releases" / "workflows-1.0.zip"
    assert done["output"] == {
        "published": str(published),
        "sha256": hashlib.sha256(published.read_bytes()).hexdigest(),
        "approved_by": "ben",
        "notes": "first one",
    }
    sums = published.with_name("SHA256SUMS").read_text()
    assert sums == f"{done['output']['sha256']}  workflows-1.0.zip\n"


def test_a_second_version_is_added_to_the_checksums_and_the_same_one_again_replaces_its_line(project):
    for version in ("1.0", "1.1", "1.1"):
        project.flow(*RELEASE, "--set-str", f"version={version}", exits=8)
        project.flow("approve", "@waiting", "publish")
    lines = (project.folder / ".flow" / "releases" / "SHA256SUMS").read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["workflows-1.0.zip", "workflows-1.1.zip"]


def test_an_answer_counts_once(project):
    project.flow(*RELEASE, exits=8)
    first = project.json("approve", "@last", "publish")
    before = project.journal()
    again = project.json("approve", "@last", "publish")
    assert (again["id"], again["status"]) == (first["id"], "completed")
    assert project.journal() == before
    project.flow("reject", "@last", "publish", "--comment", "too late", exits=75)
    assert project.journal() == before


def test_a_no_cancels_the_run_and_publishes_nothing(project):
    project.flow(*RELEASE, exits=8)
    cancelled = project.json("reject", "@waiting", "publish", "--comment", "not on a Friday", exits=3)
    assert cancelled["status"] == "cancelled"
    assert kinds(project)["run.cancelled"] == 1
    assert not (project.folder / ".flow" / "releases").exists()


def test_an_answer_that_does_not_fit_is_refused_before_anything_is_written(project):
    project.flow(*RELEASE, exits=8)
    before = project.journal()
    project.flow("approve", "@waiting", "publish", "--set", "notez=typo", exits=65)
    project.flow("approve", "@waiting", "publish", "--set", "notes=7", exits=65)
    assert project.journal() == before


def test_what_does_not_compile_never_reaches_the_gate_and_is_not_retried(project):
    (project.folder / "workflows" / "unused.py").write_text("def broken(:\n")
    failed = project.json(*RELEASE, exits=1)
    assert (failed["error"]["type"], failed["error"]["step"]) == ("Broken", "test")
    assert "unused.py" in failed["error"]["message"]
    assert kinds(project)["step.failed"] == 1


def test_an_expiry_shows_without_any_process_and_resume_acts_on_it(project):
    project.flow(*RELEASE, "--set", "answer_within=300ms", exits=8)
    before = project.journal()
    wait_until(lambda: "expired" in project.on_terminal("status", "@last"), every=0.05)
    status = project.json("status", "@last")
    assert (status["phase"], status["next"]) == ("waiting", f"flow resume {status['id']}")
    project.flow("approve", "@last", "publish", exits=75)
    assert project.journal() == before
    project.flow("resume", "@last", exits=3)
    closed = [fact.body["outcome"] for fact in project.journal() if fact.kind == "gate.closed"]
    assert closed == ["expired"]


@pytest.mark.parametrize("step", ["build", "test", "publish"])
def test_a_kill_at_any_step_is_mended_by_resume(project, step):
    process = project.start(*RELEASE)
    if step == "publish":
        process.communicate(timeout=PATIENCE)
        process = project.start("approve", "@waiting", "publish")
    project.kill_when(process, started(step))
    status = project.json("status", "@last")
    if status["status"] != "completed":
        project.flow("resume", "@last", exits=0 if step == "publish" else 8)
    if step != "publish":
        project.flow("approve", "@last", "publish")
    succeeded = Counter(fact.step for fact in project.journal() if fact.kind == "step.succeeded")
    assert succeeded == Counter(["build", "test", "publish"])


APPROVER = textwrap.dedent(
    """
    import sqlite3, sys
    import flowstone_cli.answering, flowstone.engine, jsonschema
    from flowstone_cli.app import run

    opened = "select run_id from journal where kind = 'gate.opened'"
    rows = []
    while not rows:
        try:
            rows = sqlite3.connect("file:.flow/flow.db?mode=ro", uri=True).execute(opened).fetchall()
        except sqlite3.OperationalError:
            pass  # the file is just being made
    sys.exit(run(["approve", rows[0][0], "publish", "--json"]))
    """
)
"""All is imported beforehand, so that the answer comes soon after the gate has opened."""

GATE = textwrap.dedent(
    """
    import asyncio, time
    from flowstone import Flow, workflow

    @workflow
    async def ask(flow: Flow, ms: float) -> str:
        answer, _ = await asyncio.gather(flow.approval("publish"), flow.do("work", time.sleep, ms / 1000))
        return await flow.do("publish", lambda: answer.status)
    """
)
"""The owner parks when the work is done: `ms` after the gate has opened."""


def test_no_answer_is_lost_to_an_owner_that_is_parking(project):
    (project.folder / "workflows" / "ask.py").write_text(GATE)
    parked = Counter[bool]()
    ms, change = 60.0, 30.0
    for _ in range(ROUNDS):
        approver = subprocess.Popen(
            [sys.executable, "-c", APPROVER],
            cwd=project.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        owner = project.start("run", "ask", "--set", f"ms={ms}")
        _, owner_err = owner.communicate(timeout=PATIENCE)
        out, err = approver.communicate(timeout=PATIENCE)
        assert approver.returncode == 0, err
        assert owner.returncode in (0, 8), owner_err
        assert json.loads(out)["output"] == "approved", owner_err + err
        facts = project.journal()
        counted = Counter(fact.kind for fact in facts)
        assert (counted["gate.answered"], counted["gate.closed"], counted["run.completed"]) == (1, 1, 1)
        assert sorted((fact.step, fact.attempt) for fact in facts if fact.kind == "step.started") == [("publish", 1), ("work", 1)]
        # The owner parked before the answer came: let it stay longer next time, else shorter. So the two meet ever more closely.
        before = owner.returncode == 8
        parked[before] += 1
        ms = max(0.0, ms + change if before else ms - change)
        change = max(1.0, change * 0.8)
        for path in project.db.parent.glob("flow.db*"):
            if path.is_file():
                path.unlink()
    assert set(parked) == {True, False}, f"answer and parking never met: {parked}"
