"""A fan-out over 2,000 elements: what an element costs does not grow."""

from flowstone import graph, ref, trigger
from support.counting import calls_of
from support.engines import Make, output_of

ITEMS = 2000


async def double(n: int) -> int:
    return 2 * n


def total(xs: list[int]) -> int:
    return sum(xs)


MANY = graph(
    "many",
    nodes={
        "each": {"run": double, "for_each": trigger(), "limit": 50, "next": "sum"},
        "sum": {"run": total, "input": ref("each")},
    },
)


def test_a_large_fan_out_ends_with_all_its_results(make: Make) -> None:
    engine = make(MANY)
    row = engine.run("many", list(range(ITEMS)))
    assert output_of(engine, row) == {"sum": ITEMS * (ITEMS - 1)}
    assert row.events == 2 * ITEMS + 5


def test_an_element_costs_the_same_among_many_as_among_few(make: Make) -> None:
    """Counted in calls: ten times the elements take at most eleven times the calls."""
    engine = make(MANY)
    engine.run("many", list(range(10)))
    few = calls_of(lambda: engine.run("many", list(range(100))))
    many = calls_of(lambda: engine.run("many", list(range(1000))))
    assert many < 11 * few
