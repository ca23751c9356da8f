"""A command that dies, or meets a disk that fails, at any of its writes: nothing acknowledged is lost, nothing is done twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.harness import FAULTS, Scene, attack, refusal
from crash.shapes import MAIN, SHAPES
from crash.warm import Warm

EVERY = {"KILL": 2, "EIO": 8, "ENOSPC": 8}
"""One point in so many, a different one at each shape; `every_write.py --all` meets all of them."""


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
    met = list(attack(scene, (kind,), every=EVERY[kind], first=MAIN.index(name)))
    assert [str(violation) for _, _, violation in met if violation is not None] == []
    assert sum(came for _, came, _ in met) > 0.9 * len(met) > 5
