"""A database on a network file system is refused before anything is written there."""

from pathlib import Path

import pytest

from flowstone.storage.sqlite.diagnosis import NETWORK, network_refusal, refuse_network


@pytest.mark.parametrize("kind", sorted(NETWORK))
def test_a_network_file_system_is_refused_with_the_way_round(kind: str) -> None:
    refusal = network_refusal(kind, Path("/mnt/flow.db"))
    assert refusal is not None
    assert f"/mnt/flow.db is on {kind}" in refusal.message
    assert refusal.hint is not None
    assert "--unsafe-fs" in refusal.hint


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "apfs", "tmpfs", "overlay", None])
def test_a_local_one_is_not(kind: str | None) -> None:
    assert network_refusal(kind, Path("flow.db")) is None


def test_the_place_of_a_database_that_is_not_there_yet_is_judged(tmp_path: Path) -> None:
    refuse_network(tmp_path / "not" / "there" / "flow.db")
