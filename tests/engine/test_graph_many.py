"""A fan-out over 2,000 elements: what an element costs does not grow."""

from time import process_time

from flowstone import graph, ref, trigger
from flowstone.journal.events import Event
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of

ITEMS = 2000


async def double(n: int) -> int:
    return 2 * n


def total(xs: list[int]) -> int:
    return sum(xs)


def test_an_element_costs_the_same_at_the_end_as_at_the_beginning(make: Make) -> None:
    made = graph(
        "many",
        nodes={
            "each": {"run": double, "for_each": trigger(), "limit": 50, "next": "sum"},
            "sum": {"run": total, "input": ref("each")},
        },
    )
    engine: Throwaway = make(made)
    times: list[float] = []

    def note(events: list[Event]) -> None:
        times.extend(process_time() for event in events if event.kind == "step.succeeded")

    engine.observers.append(note)  # type: ignore[arg-type]
    row = engine.run("many", list(range(ITEMS)))
    assert output_of(engine, row) == {"sum": ITEMS * (ITEMS - 1)}
    assert row.events == 2 * ITEMS + 5
    quarter = ITEMS // 4
    first, last = times[quarter] - times[0], times[ITEMS - 1] - times[ITEMS - 1 - quarter]
    assert last < 2.5 * first
