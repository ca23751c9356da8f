"""A command that dies, or meets a disk that fails, at any of its writes: nothing acknowledged is lost, nothing is done twice."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.harness import FAULTS, Scene, attack, refusal
from crash.shapes import MAIN, SHAPES
from crash.warm import Warm

EVERY = {"KILL": 6, "EIO": 16, "ENOSPC": 16}
"""One point in so many, others each time; `every_write.py --all` meets all of them."""
SEED = int.from_bytes(os.urandom(2), "big")


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Warm]:
    if why := refusal():
        pytest.skip(why)
    warm = Warm(tmp_path)
    yield warm
    warm.close()


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("name", MAIN)
def test_a_fault_at_a_write_loses_nothing_that_was_acknowledged(warm: Warm, tmp_path: Path, name: str, kind: str) -> None:
    scene = Scene(warm, tmp_path / "scene", SHAPES[name])
    print(f"seed {SEED}")
    met = list(attack(scene, (kind,), every=EVERY[kind], first=SEED % EVERY[kind]))
    assert [str(violation) for _, _, violation in met if violation is not None] == []
    assert sum(came for _, came, _ in met) > 0.8 * len(met) > 3
