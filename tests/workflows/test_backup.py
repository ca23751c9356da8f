"""workflows/backup.py, through the real command: what it does, and that kill -9 at any step loses and repeats nothing."""

import hashlib
import json
import tarfile
from collections import Counter

import pytest

from .conftest import Fact, Project, started

STEPS = ["find files", "hash big.bin", "archive", "verify", "find old", "prune"]
BIG = 160_000_000
"""Bytes of a sparse file: hashing, archiving and reading it back take long enough to be killed in the middle."""


def make_source(project: Project) -> dict[str, str]:
    """A folder with a big file and small ones; the hash of each."""
    source = project.folder / "papers"
    (source / "deep").mkdir(parents=True)
    contents = {"a.txt": b"first", "deep/b.txt": b"second", "with # and : in it.txt": b"third"}
    for name, content in contents.items():
        (source / name).write_bytes(content)
    with (source / "big.bin").open("wb") as file:
        file.truncate(BIG)
    with (source / "big.bin").open("rb") as file:
        big = hashlib.file_digest(file, "sha256").hexdigest()
    return {"big.bin": big} | {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def make_old_archives(project: Project, count: int) -> list[str]:
    folder = project.folder / "archives"
    folder.mkdir(exist_ok=True)
    names = [f"papers-2020010{day}-000000-aaaaaaaaaaaa.tar.gz" for day in range(1, count + 1)]
    for name in [*names, "papers-of-others.tar.gz"]:
        (folder / name).write_bytes(b"old")
    return names


def backup(keep: int) -> list[str]:
    return ["run", "backup", "--set", "folder=papers", "--set", "archive_dir=archives", "--set", f"keep={keep}"]


def archived(project: Project) -> dict[str, str]:
    """The hashes of what the newest archive holds."""
    newest = max((project.folder / "archives").glob("papers-2*.tar.gz"))
    found = {}
    with tarfile.open(newest) as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            found[member.name] = hashlib.file_digest(content, "sha256").hexdigest()
    return found


def test_the_first_command_of_the_readme_completes_on_a_clean_clone(project):
    summary = json.loads(project.flow("run", "backup", "--input", "workflows/backup.json"))
    assert summary["files"] == len(list((project.folder / "workflows").iterdir()))
    assert summary["pruned"] == []
    assert [path.name for path in (project.folder / ".flow" / "backups").iterdir()] == [summary["archive"].rpartition("/")[2]]


def test_with_too_many_archives_it_asks_and_prunes_after_a_yes(project):
    make_source(project)
    old = make_old_archives(project, 3)
    waiting = project.json(*backup(keep=2), exits=8)
    assert [(wait["kind"], wait["reason"]) for wait in waiting["waiting"]] == [("approval", "prune")]
    assert waiting["waiting"][0]["message"] == f"delete {old[0]}, {old[1]}?"
    done = project.json("approve", "@waiting", "prune")
    assert done["output"]["pruned"] == old[:2]
    left = sorted(path.name for path in (project.folder / "archives").iterdir())
    assert left == [old[2], done["output"]["archive"].rpartition("/")[2], "papers-of-others.tar.gz"]


def test_after_a_no_all_archives_stay(project):
    make_source(project)
    old = make_old_archives(project, 2)
    project.flow(*backup(keep=1), exits=8)
    assert project.json("reject", "@waiting", "--comment", "I want them")["output"]["pruned"] == []
    assert set(old) <= {path.name for path in (project.folder / "archives").iterdir()}


def test_a_folder_that_is_not_there_fails_the_run_at_once(project):
    failed = project.json("run", "backup", "--set", "folder=nowhere", "--set", "archive_dir=archives", exits=1)
    assert (failed["error"]["type"], failed["error"]["step"]) == ("FileNotFoundError", "find files")
    assert failed["steps"][0]["attempts"] == 1


def test_an_archive_that_differs_from_what_was_hashed_fails_the_run(project):
    make_source(project)
    process = project.start(*backup(keep=3))
    project.kill_when(process, started("archive"))
    (project.folder / "papers" / "a.txt").write_bytes(b"changed in between")
    failed = project.json("resume", "@last", exits=1)
    assert (failed["error"]["type"], failed["error"]["step"]) == ("ArchiveDiffers", "verify")
    assert "differs from a.txt" in failed["error"]["message"]


def complete(project: Project, hashes: dict[str, str]) -> list[Fact]:
    """Resume, answer the gate if it is open, and check what came of it."""
    project.flow("resume", "@last", exits=8)
    done = project.json("approve", "@last", "prune")
    assert done["status"] == "completed"
    assert archived(project) == hashes
    assert not list((project.folder / "archives").glob(".*"))
    facts = project.journal()
    assert [fact.n for fact in facts] == list(range(len(facts)))
    succeeded = Counter(fact.step for fact in facts if fact.kind == "step.succeeded")
    wanted = {*STEPS, "hash a.txt", "hash deep%2Fb.txt", "hash with %23 and %3A in it.txt"}
    assert succeeded == Counter(wanted)
    attempts = Counter((fact.step, fact.attempt) for fact in facts if fact.kind == "step.started")
    assert max(attempts.values()) == 1
    return facts


@pytest.mark.parametrize("step", ["hash big.bin", "archive", "verify"])
def test_a_kill_inside_a_step_repeats_only_that_step(project, step):
    hashes = make_source(project)
    make_old_archives(project, 1)
    for _ in range(5):
        process = project.start(*backup(keep=1))
        project.kill_when(process, started(step))
        before = project.journal()
        if started(step)(before):  # else the machine was so busy that the step had ended when we struck
            break
    assert started(step)(before)
    status = project.json("status", "@last")
    assert (status["phase"], status["next"]) == ("interrupted", f"flow resume {status['id']}")
    done = {fact.step for fact in before if fact.kind == "step.succeeded"}
    facts = complete(project, hashes)
    after = facts[len(before) :]
    assert not done & {fact.step for fact in after if fact.kind == "step.started"}
    assert [(fact.kind, fact.attempt) for fact in facts if fact.step == step] == [
        ("step.started", 1),
        ("step.interrupted", 1),
        ("step.started", 2),
        ("step.succeeded", 2),
    ]


def test_one_run_killed_at_every_step_in_turn_completes(project):
    hashes = make_source(project)
    make_old_archives(project, 1)
    process = project.start(*backup(keep=1))
    for step in STEPS[:-1]:
        project.kill_when(process, lambda facts, step=step: step in {fact.step for fact in facts})
        process = project.start("resume", "@last")
    process.communicate()
    assert process.returncode == 8
    process = project.start("approve", "@last", "prune")
    project.kill_when(process, started("prune"))
    status = project.json("status", "@last")
    if status["status"] != "completed":
        project.flow("resume", "@last")
    assert archived(project) == hashes
    succeeded = Counter(fact.step for fact in project.journal() if fact.kind == "step.succeeded")
    assert set(succeeded.values()) == {1}
    agree_with_the_journal(project)


def test_what_the_commands_tell_at_every_event_is_what_the_journal_says(project):
    make_source(project)
    make_old_archives(project, 1)
    project.kill_when(project.start(*backup(keep=1)), started("archive"))
    project.flow("resume", "@last", exits=8)
    agree_with_the_journal(project)
    project.flow("approve", "@last", "prune")
    agree_with_the_journal(project)


def agree_with_the_journal(project: Project) -> None:
    """Compare `status`, `timeline` and `state --at N` for every N with a fold of our own over the file."""
    facts = project.journal()
    status = project.json("status", "@last")
    assert status["events"] == len(facts)
    assert {step["key"] for step in status["steps"]} == {fact.step for fact in facts if fact.step is not None}
    timeline = project.json("timeline", "@last")
    assert [(event["n"], event["kind"], event["step"]) for event in timeline["events"]] == [fact[:3] for fact in facts]
    begins = ("step.started", "gate.opened")
    assert {(one["step"], one["attempt"]) for one in timeline["attempts"]} == {
        (fact.step, fact.attempt) for fact in facts if fact.kind in begins
    }
    results: dict[str, object] = {}
    steps: set[str] = set()
    moves = {"run.suspended": "suspended", "run.resumed": "running", "run.completed": "completed"}
    run_status = "running"
    for fact in facts:
        run_status = moves.get(fact.kind, run_status)
        if fact.step is not None:
            steps.add(fact.step)
        if fact.kind == "step.succeeded" and fact.step is not None:
            results[fact.step] = fact.body["result"]
        state = project.json("state", "@last", "--at", str(fact.n))
        assert (state["event"], state["status"], set(state["steps"])) == (fact.n, run_status, steps)
        assert {key: value for key, value in state["results"].items() if not key.startswith("approve:")} == results
