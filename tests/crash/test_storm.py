"""Many processes on one database, killed and stopped at random, the clock set meanwhile: no run is executed twice at once, none
is lost, all end.
"""

import os
from pathlib import Path

from crash.storm import rage

SEED = int.from_bytes(os.urandom(2), "big")
KILLS = 40


def test_no_storm_of_kills_makes_executions_overlap_or_loses_a_run(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    storm = rage(tmp_path / "project", tmp_path, KILLS, SEED)
    assert storm.killed >= KILLS
    assert storm.commands["run"] > 5
    print(storm.figures())
    assert storm.clock is None or storm.stepped > 5
