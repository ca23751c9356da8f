"""Shared by the tests of the engine: throw-away engines that are closed when the test ends."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flowstone.testing.throwaway import Throwaway
from support.engines import Make


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make an engine on the test's database; a second one on it is what another process would be."""
    made: list[Throwaway] = []

    def make(*functions: Callable[..., Any], **options: Any) -> Throwaway:
        made.append(Throwaway(tmp_path, *functions, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
