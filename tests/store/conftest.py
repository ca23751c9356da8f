"""Shared by the tests of stores: where the file lies, and programs run in processes of their own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_CONTRACTS = ("store_contract", "store_keeping_contract", "store_reading_contract")
pytest.register_assert_rewrite(*(f"flowstone.testing.{name}" for name in _CONTRACTS))

ENGINE = Path(__file__).parents[2] / "engine"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test's database lies."""
    return tmp_path / "flow.db"


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a Python program with arguments in a process of its own, with pipes; killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: object, prefix: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*prefix, sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ENGINE)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


Answer = Callable[..., str]


@pytest.fixture
def answer(start: Start) -> Answer:
    """Run a program to its end and give what it printed; fails the test if it failed."""

    def answer(program: str, *arguments: object, prefix: tuple[str, ...] = ()) -> str:
        process = start(program, *arguments, prefix=prefix)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return out

    return answer
