"""Many commands at once on one database: each does its work, and what they tell agrees."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from crash import judge
from crash.races import project, race
from crash.shapes import SOURCE
from crash.warm import Warm

SEED = int.from_bytes(os.urandom(2), "big")
ROUNDS = 20
AT_ONCE = 20


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Warm]:
    warm = Warm(tmp_path)
    yield warm
    warm.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "work.py").write_text(SOURCE)
    (root / "effects").touch()
    return root


def test_twenty_runs_at_once_complete_while_others_look(warm: Warm, root: Path) -> None:
    running = [warm.start(root, "run", "three") for _ in range(AT_ONCE)]
    looks = []
    while not all(command.over.is_set() for command in running):
        looks += [warm.flow(root, "status", "@last").code, warm.flow(root, "runs").code]
    ended = [command.wait() for command in running]
    assert [(one.code, one.out) for one in ended] == [(0, '"c"\n')] * AT_ONCE, [one.err for one in ended if one.code]
    assert set(looks) <= {0, 66}  # 66: there is no run yet
    runs = judge.read(root)
    for row, events in runs:
        judge.consistent(row, events)
        assert row.status == "completed"
    effects = judge.effects_of(root)
    assert len(runs) == AT_ONCE
    assert len(effects) == len({id for _, id in effects}) == 3 * AT_ONCE


def test_of_twenty_with_one_key_one_executes_and_all_tell_of_the_same_run(warm: Warm, root: Path) -> None:
    commands = [warm.start(root, "run", "three", "--key", "same", "--json") for _ in range(AT_ONCE)]
    ended = [command.wait() for command in commands]
    assert {one.code for one in ended} <= {0, 8}, [one.err for one in ended]
    assert len({json.loads(one.out)["id"] for one in ended}) == 1
    assert [tag for tag, _ in judge.effects_of(root)] == ["a", "b", "c"]
    assert warm.flow(root, "run", "three", "--key", "same")[:2] == (0, '"c"\n')


def test_answers_that_race_the_deadline_have_one_outcome_and_the_codes_agree(warm: Warm, tmp_path: Path) -> None:
    print(f"seed {SEED}")
    root, random = project(tmp_path / "gated"), Random(SEED)
    assert len([race(warm, root, random) for _ in range(ROUNDS)]) == ROUNDS
