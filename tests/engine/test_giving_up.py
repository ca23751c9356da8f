"""A pass that breaks off leaves its run to others, though its process lives on; and what a sweep makes of such runs."""

import asyncio

import pytest

from flowstone import BlockingFlow, Flow, workflow
from flowstone.clock import MICROSECONDS
from flowstone.journal.phase import Phase, phase_of
from flowstone.journal.states import Status
from support.engines import Make, to_the_end


def one() -> int:
    return 1


@workflow
def two_steps(flow: BlockingFlow) -> int:
    return flow.do("first", one) + flow.do("second", one)


@workflow
async def beside(flow: Flow) -> list[object]:
    return await asyncio.gather(flow.do("step", one), flow.approval("ok"))


def broken_off(make: Make, body: object, when: str) -> tuple[object, str]:
    """An engine of whose run a pass broke off, and the run."""
    engine = make(body)

    def break_off(events: object) -> None:
        if any(event.kind == when for event in events):
            engine.observers.remove(break_off)
            raise RuntimeError("a bug of ours")

    engine.observers.append(break_off)
    run_id = engine.engine.start(body.__name__).row.id
    with pytest.raises(RuntimeError):
        engine.drive(run_id)
    return engine, run_id


@pytest.mark.parametrize(("body", "when"), [(two_steps, "step.succeeded"), (beside, "step.started")])
def test_a_pass_that_breaks_off_gives_its_run_up(make: Make, body: object, when: str) -> None:
    engine, run_id = broken_off(make, body, when)
    row = engine.store.run(run_id)
    assert (row.status, row.owner, phase_of(row, None)) == (Status.RUNNING, None, Phase.INTERRUPTED)
    assert engine.kinds(run_id)[-1] == "run.interrupted"
    assert [due.id for due in engine.engine.due(10)] == [run_id]


def test_a_run_that_was_given_up_goes_on(make: Make) -> None:
    engine, run_id = broken_off(make, two_steps, "step.succeeded")
    assert to_the_end(engine, run_id).status is Status.COMPLETED


def test_a_run_that_lost_its_process_beside_an_open_gate_is_due(make: Make) -> None:
    engine = make(beside)
    run_id = engine.engine.start("beside").row.id
    engine.drive(run_id)
    assert make(beside).engine.due(10) == []
    engine.engine.resume(run_id)
    engine.vanish()
    assert [row.id for row in make(beside).engine.due(10)] == [run_id]


def test_a_run_that_dies_again_is_left_alone_for_a_while(make: Make) -> None:
    first = make(two_steps)
    run_id = first.engine.start("two_steps").row.id
    first.vanish()
    second = make(two_steps)
    second.engine.resume(run_id)
    second.vanish()
    third = make(two_steps)
    now = third.store.run(run_id).updated_at
    third.clock.move_to(now + 29 * MICROSECONDS)
    assert third.engine.due(10) == []
    third.clock.move_to(now + 31 * MICROSECONDS)
    assert [row.id for row in third.engine.due(10)] == [run_id]
