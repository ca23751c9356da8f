"""`flow resolve --result`: checked at once against the step's annotation, and recorded as if its function had returned it."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from flowstone import Failed, Flow, NonRetryable, step, workflow
from flowstone.errors import BadData, Diverged, NotFound, TryAgain
from flowstone.journal.states import Status
from flowstone.testing.throwaway import Throwaway
from support.engines import Make, output_of


@dataclass
class Receipt:
    id: int
    total: Decimal = Decimal("1.50")


async def forever() -> Any:
    await asyncio.Event().wait()


@step(repeatable=False, timeout="20ms")
async def number() -> int:
    return await forever()


@step(repeatable=False, timeout="20ms")
async def receipt() -> Receipt:
    return await forever()


@step(repeatable=False, timeout="20ms")
async def receipts() -> list[Receipt]:
    return await forever()


@step(repeatable=False, timeout="20ms")
async def day() -> date:
    return await forever()


@step(repeatable=False, timeout="20ms")
async def nothing() -> None:
    await forever()


@step(repeatable=False, timeout="20ms")
async def anything():  # type: ignore[no-untyped-def]
    return await forever()


STEPS = {one.__name__: one for one in (number, receipt, receipts, day, nothing, anything)}
GOT: list[Any] = []


@workflow
async def asking(flow: Flow, which: str) -> str:
    got = await flow.do("ask", STEPS[which])
    GOT.append(got)
    return f"{type(got).__name__} {got}"


@step(repeatable=False, timeout="20ms")
async def tell(failed: Failed[Any]) -> int:
    return await forever()


def fails() -> None:
    raise NonRetryable("no")


@workflow
async def handling(flow: Flow) -> None:
    await flow.do("fails", fails, on_error=tell)


def unknown(make: Make, workflow: str, data: Any = None) -> tuple[Throwaway, str]:
    engine = make(asking, handling, tell, *STEPS.values())
    row = engine.run(workflow, data)
    assert row.status is Status.SUSPENDED, engine.kinds(row.id)
    return engine, row.id


FITS = [
    ("number", 41, "int 41"),
    ("receipt", {"id": 7}, "Receipt Receipt(id=7, total=Decimal('1.50'))"),
    ("receipt", {"id": 7, "total": "2.25"}, "Receipt Receipt(id=7, total=Decimal('2.25'))"),
    ("receipts", [{"id": 7}], "list [Receipt(id=7, total=Decimal('1.50'))]"),
    ("day", "2026-03-01", "date 2026-03-01"),
    ("day", {"$flow": "date", "value": "2026-03-01"}, "date 2026-03-01"),
    ("nothing", None, "NoneType None"),
    ("anything", {"id": [1, None]}, "dict {'id': [1, None]}"),
    ("anything", {"$flow": "datetime", "value": "2026-03-01T00:00:00+00:00"}, f"datetime {datetime(2026, 3, 1, tzinfo=UTC)}"),
]


@pytest.mark.parametrize(("which", "said", "given"), FITS)
def test_a_result_that_fits_reaches_the_body_as_the_annotated_type(make: Make, which: str, said: Any, given: str) -> None:
    engine, run_id = unknown(make, "asking", {"which": which})
    engine.engine.resolve(run_id, "ask", "succeeded", result=said, reason="seen")
    assert output_of(engine, engine.drive(run_id)) == given


@pytest.mark.parametrize(("which", "said", "given"), FITS)
def test_it_is_recorded_as_if_the_function_had_returned_it(make: Make, which: str, said: Any, given: str) -> None:
    engine, run_id = unknown(make, "asking", {"which": which})
    engine.engine.resolve(run_id, "ask", "succeeded", result=said, reason="seen")
    engine.drive(run_id)
    recorded = next(event.body()["result"] for event in engine.events(run_id) if event.kind == "step.succeeded")

    async def returns() -> Any:
        return GOT[-1]

    returns.__annotations__ = dict(STEPS[which].__annotations__)

    @workflow
    async def again(flow: Flow) -> None:
        await flow.do("ask", returns)

    other = make(again)
    row = other.run("again")
    assert next(event.body()["result"] for event in other.events(row.id) if event.kind == "step.succeeded") == recorded


@pytest.mark.parametrize(
    ("which", "said", "detail"),
    [
        ("number", "forty-one", "$  should be a whole number"),
        ("number", None, "$  should be a whole number"),
        ("number", {"id": 7}, "$  should be a whole number"),
        ("receipt", {"total": "2"}, "$.id  missing (whole number)"),
        ("receipt", {"id": 7, "totel": "2"}, "$.totel  not expected; did you mean total?"),
        ("receipt", 7, "$  should be an object"),
        ("receipts", [{"id": 7}, {"id": "x"}], "$[1].id  should be a whole number"),
        ("day", "soon", "$  should be a date"),
        ("nothing", 1, "$  should be null"),
        ("anything", {"$flow": "date", "value": "soon"}, "'date'"),
        ("anything", {"$flow": "nonsense"}, "'nonsense'"),
    ],
)
def test_a_result_that_does_not_fit_is_refused_by_path_and_nothing_is_written(
    make: Make, which: str, said: Any, detail: str
) -> None:
    engine, run_id = unknown(make, "asking", {"which": which})
    before = engine.kinds(run_id)
    with pytest.raises(BadData, match='does not fit step "ask"') as refusal:
        engine.engine.resolve(run_id, "ask", "succeeded", result=said, reason="seen")
    assert any(detail in line for line in refusal.value.details), refusal.value.details
    assert refusal.value.hint == f"flow resolve {run_id} ask --result FILE --reason TEXT"
    assert engine.kinds(run_id) == before
    engine.engine.resolve(run_id, "ask", "failed", reason="seen")  # it can still be said otherwise


def test_the_result_of_a_handler_is_checked_too(make: Make) -> None:
    engine, run_id = unknown(make, "handling")
    with pytest.raises(BadData):
        engine.engine.resolve(run_id, "fails:on_error", "succeeded", result="x", reason="seen")
    engine.engine.resolve(run_id, "fails:on_error", "succeeded", result=1, reason="seen")
    assert engine.drive(run_id).status is Status.FAILED


def test_a_result_for_what_is_not_unknown_is_refused_without_the_code(make: Make) -> None:
    engine, run_id = unknown(make, "asking", {"which": "number"})
    without = make(clock=engine.clock)
    with pytest.raises(NotFound, match="unknown: ask"):
        without.engine.resolve(run_id, "aks", "succeeded", result=1, reason="seen")
    engine.engine.resolve(run_id, "ask", "succeeded", result=1, reason="seen")
    engine.drive(run_id)
    with pytest.raises(TryAgain, match="is known"):
        without.engine.resolve(run_id, "ask", "succeeded", result=1, reason="seen")


def test_without_the_workflow_a_result_cannot_be_checked_and_is_refused(make: Make) -> None:
    engine, run_id = unknown(make, "asking", {"which": "number"})
    before, without = engine.kinds(run_id), make(clock=engine.clock)
    with pytest.raises(Diverged, match="is gone"):
        without.engine.resolve(run_id, "ask", "succeeded", result=1, reason="seen")
    assert engine.kinds(run_id) == before


def test_without_the_steps_function_there_is_nothing_to_check_against(make: Make) -> None:
    @workflow
    async def by_name(flow: Flow) -> Any:
        return await flow.do("ask", "number")

    engine = make(by_name, number)
    run_id = engine.run("by_name").id
    without = make(by_name, clock=engine.clock)
    without.engine.resolve(run_id, "ask", "succeeded", result="x", reason="seen")
    assert output_of(without, without.drive(run_id)) == "x"
