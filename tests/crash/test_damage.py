"""A journal or a row that is nonsense, its checksum right: 74 and a sentence that names it, and no other run is stopped."""

import json
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from random import Random

import pytest

from crash import judge
from crash.damage import VERBS, Ground, ground, tried
from crash.warm import Warm
from flowstone.errors import Damaged
from flowstone.journal.damage import blaming, damage_in
from flowstone.journal.events import Event, Kind
from flowstone.journal.shapes import wrong_in

SEED = int.from_bytes(os.urandom(2), "big")
TRIED = 150


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    warm = Warm(tmp_path_factory.mktemp("outputs"))
    yield warm
    warm.close()


@pytest.fixture(scope="module")
def made(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return ground(warm, tmp_path_factory.mktemp("ground") / "project")


def test_whatever_is_damaged_every_verb_tells_it_in_a_sentence(warm: Warm, made: Ground, tmp_path: Path) -> None:
    print(f"seed {SEED}")
    cases = Random(SEED).sample(list(product(made.damages(), VERBS)), TRIED)
    wrong = {f"{case.what} | {' '.join(verb)}": tried(warm, made, case, verb, tmp_path / "project") for case, verb in cases}
    assert {what: told for what, told in wrong.items() if told is not None} == {}


def test_every_recorded_journal_makes_sense_and_every_kind_has_its_shape(made: Ground) -> None:
    assert [damage_in(events) for _, events in made.runs] == [None] * len(made.runs)
    kinds = {event.kind for _, events in made.runs for event in events}
    assert kinds >= {kind.value for kind in Kind} - {Kind.STEP_SCHEDULED, Kind.GATE_REFUSED}
    for kind in Kind:
        assert "is no kind" not in (wrong_in(Event(0, 0, kind.value, "s", 1, "[]")) or "")


# one damaged run among others

WORKFLOWS = """
import os
from flowstone import Flow, workflow

def note(tag: str) -> str:
    with open(os.path.expanduser("~/effects"), "a") as file:
        file.write(tag + "\\n")
    return tag

@workflow
async def naps(flow: Flow) -> str:
    await flow.do("a", note, "a")
    await flow.sleep("nap", "1s")
    return await flow.do("b", note, "b")

@workflow
async def asks(flow: Flow) -> str:
    await flow.do("a", note, "a")
    await flow.approval("ok")
    return await flow.do("b", note, "b")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "work.py").write_text(WORKFLOWS)
    return root


def change(root: Path, run: str, kind: str, body: str) -> int:
    """Replace the body of the first event of that kind, with its checksum; its number."""
    with closing(sqlite3.connect(judge.database(root), isolation_level=None)) as connection:
        [(n,)] = connection.execute("select min(n) from journal where run_id = ? and kind = ?", (run, kind)).fetchall()
        statement = "update journal set body = ?, crc = ? where run_id = ? and n = ?"
        connection.execute(statement, (body, zlib.crc32(body.encode()), run, n))
    return int(n)


def kinds(root: Path, run: str) -> list[str]:
    with closing(sqlite3.connect(judge.database(root))) as connection:
        return [kind for (kind,) in connection.execute("select kind from journal where run_id = ? order by n", (run,))]


def until_due(warm: Warm, root: Path, runs: set[str]) -> None:
    """Wait until a sweep would take these runs up."""
    deadline = time.monotonic() + 60
    while not runs <= {one["id"] for one in json.loads(warm.flow(root, "recover", "--dry-run", "--json").out)["runs"]}:
        assert time.monotonic() < deadline, "they do not become due"


@pytest.mark.parametrize("kind", ["step.started", "step.succeeded", "sleep.started", "run.created", "run.claimed"])
@pytest.mark.parametrize("sweep", [("recover",), ("worker", "--once")])
def test_a_damaged_run_is_named_and_left_as_it_is_while_the_others_go_on(
    warm: Warm, root: Path, kind: str, sweep: tuple[str, ...]
) -> None:
    for _ in range(3):
        assert warm.flow(root, "run", "naps", "--no-wait").code == 8
    ids = [row.id for row, _ in judge.read(root)]
    damaged, before = ids[1], kinds(root, ids[1])
    n = change(root, damaged, kind, '{"x":5}')
    for words in (("status", damaged), ("resume", damaged), ("cancel", damaged), ("state", damaged)):
        ended = warm.flow(root, *words)
        if ended.code == 74:
            assert f"event {n} ({kind}) of run {damaged} is damaged: " in ended.err
            assert "try: flow doctor" in ended.err
    assert warm.flow(root, "resume", damaged).code == 74
    until_due(warm, root, {ids[0], ids[2]})
    swept = warm.flow(root, *sweep)
    assert damaged in swept.err + swept.out
    assert "damaged" in swept.err + swept.out
    if sweep == ("recover",):
        assert swept.code == 74
    assert (root / "effects").read_text().split() == ["a", "a", "a", "b", "b"]
    listed = warm.flow(root, "runs", "--json")
    assert listed.code == 0
    assert {one["id"]: one["status"] for one in json.loads(listed.out)["runs"]} == {
        ids[0]: "completed",
        damaged: "running",
        ids[2]: "completed",
    }
    assert not {"run.failed", "run.completed", "run.cancelled"} & set(kinds(root, damaged))
    assert kinds(root, damaged)[: len(before)] == before


@pytest.mark.parametrize(
    ("column", "value"), [("status", "weird"), ("waiting", "{"), ("waiting", '[{"kind":5}]'), ("done", -1), ("error", "[]")]
)
def test_a_damaged_row_is_named_left_out_of_lists_and_made_anew_by_the_doctor(
    warm: Warm, root: Path, column: str, value: object
) -> None:
    for _ in range(3):
        assert warm.flow(root, "run", "asks").code == 8
    ids = [row.id for row, _ in judge.read(root)]
    with closing(sqlite3.connect(judge.database(root), isolation_level=None)) as connection:
        connection.execute(f"update runs set {column} = ? where id = ?", (value, ids[1]))
    sentence = f"error: the row of run {ids[1]} is damaged: "
    for words in (("status", ids[1]), ("approve", ids[1], "ok"), ("export", ids[1]), ("cancel", ids[1])):
        ended = warm.flow(root, *words)
        assert (ended.code, ended.out) == (74, ""), words
        assert sentence in ended.err
        assert "try: flow doctor --repair" in ended.err
    listed = warm.flow(root, "runs")
    assert listed.code == 74
    assert sorted(line.split("\t")[0] for line in listed.out.splitlines()) == sorted([ids[0], ids[2]])
    assert sentence in listed.err
    assert warm.flow(root, "approve", ids[0], "ok").code == 0
    assert warm.flow(root, "recover").code in (0, 74)
    assert warm.flow(root, "doctor").code == 78
    mended = warm.flow(root, "doctor", "--repair")
    assert mended.code == 0
    assert f"run {ids[1]}: made anew" in mended.out
    assert warm.flow(root, "approve", ids[1], "ok").code == 0
    assert warm.flow(root, "runs").code == 0
    assert warm.flow(root, "doctor").code == 0


def test_what_goes_wrong_although_the_journal_makes_sense_stays_a_bug(made: Ground) -> None:
    class Journals:
        def run(self, run_id: str) -> None: ...

        def events(self, run_id: str) -> list[Event]:
            return next(events for row, events in made.runs if row.id == run_id)

    run = made.runs[0][0].id
    with pytest.raises(KeyError), blaming(Journals(), run):
        raise KeyError("ours")

    class Broken(Journals):
        def events(self, run_id: str) -> list[Event]:
            first, *rest = super().events(run_id)
            return [first._replace(text="[]"), *rest]

    with pytest.raises(Damaged, match=re.escape(f"event 0 (run.created) of run {run} is damaged")), blaming(Broken(), run):
        raise KeyError("theirs")
