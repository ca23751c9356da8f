"""The types that authors see: the cases in typing_cases.py hold under mypy --strict."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "typing_cases.py"


def test_what_a_type_checker_infers_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(ROOT / "engine"))
    out, err, code = api.run(
        ["--strict", "--explicit-package-bases", "--config-file=", f"--cache-dir={tmp_path}", "--python-version=3.11", str(CASES)]
    )
    assert code == 0, out + err


def test_the_cases_are_there() -> None:
    text = CASES.read_text()
    assert text.count("assert_type(") > 30
    assert text.count("# type: ignore[") > 10


def test_the_oldest_python_that_is_promised_is_the_one_that_is_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
