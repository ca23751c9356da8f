"""A power loss at any instant leaves every acknowledged result on the disk, and a file that goes on."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from crash.power_loss import Record, lose_power, recorded, refusal
from crash.warm import Warm

SEED = 20261129
STATES = 200


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    if why := refusal():
        pytest.skip(why)
    return recorded(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Warm]:
    warm = Warm(tmp_path)
    yield warm
    warm.close()


def test_no_power_loss_takes_back_what_was_told(record: Record, tmp_path: Path, warm: Warm) -> None:
    assert lose_power(record, tmp_path, STATES, Random(SEED), warm) == []


def test_without_the_syncs_power_losses_would_take_results_back(record: Record, tmp_path: Path) -> None:
    deaf = replace(record, deeds=[deed for deed in record.deeds if deed.op != "F"])
    assert lose_power(deaf, tmp_path, 40, Random(SEED), None)
