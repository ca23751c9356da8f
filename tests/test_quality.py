"""The tree is in order: ruff, mypy and the import rules, as tests, so that `pytest` alone is the test command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECKS = {
    "ruff check": [sys.executable, "-m", "ruff", "check", "--no-cache", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "--no-cache", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "mypy of the examples": [sys.executable, "-m", "mypy", *sorted(str(path) for path in (ROOT / "workflows").glob("*.py"))],
    "lint-imports": [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_tree_passes(name):
    paths = os.pathsep.join(str(ROOT / part) for part in ("engine", "cli"))
    environment = {**os.environ, "PYTHONPATH": paths}  # this tree's packages, whatever is installed
    done = subprocess.run(CHECKS[name], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
