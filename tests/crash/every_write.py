"""Kills, EIO and ENOSPC at every write of every shape: `python tests/crash/every_write.py [--all | SHAPE …]`. Prints figures."""

import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from crash.harness import Scene, attack, refusal
from crash.shapes import MAIN, SHAPES
from crash.warm import Warm


def main(names: list[str]) -> int:
    """Attack the shapes; the number of violations."""
    if why := refusal():
        print(why)
        return 1
    broken = faults = 0
    with tempfile.TemporaryDirectory() as folder:
        warm = Warm(Path(folder))
        for number, name in enumerate(names):
            begun, met, missed, worse = time.monotonic(), 0, 0, 0
            scene = Scene(warm, Path(folder) / str(number), SHAPES[name])
            for _fault, came, violation in attack(scene):
                met, missed = met + came, missed + (not came)
                if violation is not None:
                    worse += 1
                    print(f"{name}: {violation}", flush=True)
            print(
                f"{name:20} {met:5} faults, {worse} violations, {missed} did not come about, {time.monotonic() - begun:.0f} s",
                flush=True,
            )
            faults, broken = faults + met, broken + worse
        warm.close()
    print(f"{faults} faults, {broken} violations")
    return min(broken, 1)


if __name__ == "__main__":
    asked = sys.argv[1:]
    sys.exit(main(list(SHAPES) if asked == ["--all"] else asked or list(MAIN)))
