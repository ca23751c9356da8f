"""A step's final failure as the body sees it: the author's own class, the same live and on replay."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from flowstone import Flow, StepFailed, workflow
from flowstone.errors import UsageError
from flowstone.journal.states import Status
from support.engines import Make, failure, output, output_of


class Declined(Exception):
    def __init__(self, code: str, amount: int) -> None:
        super().__init__(f"declined with {code}")
        self.code = code
        self.amount = amount


@dataclass
class Limit(Exception):
    limit: int


async def charge() -> None:
    raise Declined("no_funds", 12)


async def same(value: Any) -> Any:
    return value


Facts = list[Any]


def facts(error: Exception) -> Facts:
    assert isinstance(error, StepFailed)
    return [
        str(error),
        type(error).__name__,
        type(error).__module__,
        [kind.__name__ for kind in type(error).__mro__],
        error.step,
        error.type,
        error.message,
        error.attempts,
        error.data,
        repr(error.args),
        vars(error).get("code"),
        vars(error).get("amount"),
    ]


def test_a_failure_is_caught_as_the_authors_own_class_and_as_step_failed(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> list[str]:
        caught = []
        try:
            await flow.do("charge", charge, retries=0)
        except Declined as error:
            caught.append(f"{error.code} {error.amount}")
        try:
            await flow.do("charge", charge, retries=0)
        except StepFailed as error:
            caught.append(error.message)
        return caught

    assert output(make(body), body) == ["no_funds 12", "declined with no_funds"]


def test_live_and_on_replay_the_failure_is_the_same_object_but_for_its_address(make: Make) -> None:
    seen: list[Facts] = []

    @workflow
    async def body(flow: Flow) -> None:
        try:
            await flow.do("charge", charge, retries=0)
        except Declined as error:
            seen.append(facts(error))
        await flow.suspend("look")

    engine = make(body)
    row = engine.run("body")
    make(body).resume(row.id)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert seen[0][:2] == ['step "charge" failed: Declined: declined with no_funds', "Declined"]


def test_a_dataclass_of_the_author_is_rebuilt_with_its_fields(make: Make) -> None:
    async def check() -> None:
        raise Limit(5)

    @workflow
    async def body(flow: Flow) -> int:
        try:
            await flow.do("check", check, retries=0)
        except Limit as error:
            return error.limit
        return 0

    assert output(make(body), body) == 5


def test_a_class_that_is_gone_at_the_replay_is_still_a_step_failure(make: Make) -> None:
    def broken() -> None:
        class Local(Exception):
            pass

        raise Local("gone")

    @workflow
    async def body(flow: Flow) -> list[str]:
        try:
            await flow.do("broken", broken, retries=0)
        except StepFailed as error:
            return [type(error).__name__, error.type.rpartition(".")[2], error.message]
        return []

    assert output(make(body), body) == ["StepFailed", "Local", "gone"]


def test_a_failure_that_leaves_the_body_fails_the_run_with_its_step_and_line(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        await flow.do("first", same, 1)
        await flow.do("charge", charge, retries=0)

    line = body.__code__.co_firstlineno + 3
    error = failure(make(body), body)
    assert (error["type"], error["message"], error["step"]) == ("Declined", "declined with no_funds", "charge")
    assert error["site"] == f"engine/test_steps_failures.py:{line}"
    assert "raise Declined" in error["trace"]


def test_a_failure_in_a_group_names_its_step_too(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(flow.do("fine", same, 1))
            group.create_task(flow.do("charge", charge, retries=0))

    error = failure(make(body), body)
    assert (error["type"], error["step"]) == ("ExceptionGroup", "charge")


def test_a_body_that_handles_the_failure_completes(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("charge", charge, retries=0)
        except Declined:
            return str(await flow.do("apologise", same, "sorry"))
        return ""

    assert output(make(body), body) == "sorry"


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_whatever_a_step_raises_is_its_failure_and_nothing_else(make: Make, kind: type[BaseException], blocking: bool) -> None:
    def block() -> None:
        raise kind()

    async def work() -> None:
        raise kind()

    @workflow
    async def body(flow: Flow) -> str:
        try:
            await flow.do("work", block if blocking else work, retries=0)
        except StepFailed as error:
            return error.type
        return ""

    assert output(make(body), body) == kind.__name__


def test_a_failed_run_has_nothing_to_resume_but_a_completed_one_is_left_as_it_is(make: Make) -> None:
    @workflow
    async def bad(flow: Flow) -> None:
        await flow.do("charge", charge, retries=0)

    @workflow
    async def good(flow: Flow) -> int:
        return 1

    engine = make(bad, good)
    failed, completed = engine.run("bad"), engine.run("good")
    with pytest.raises(UsageError, match="nothing to resume"):
        engine.engine.resume(failed.id)
    before = engine.kinds(completed.id)
    assert engine.engine.resume(completed.id).status is Status.COMPLETED
    assert engine.kinds(completed.id) == before
    assert output_of(engine, completed) == 1


def test_a_step_that_failed_in_a_branch_is_named_by_its_key(make: Make) -> None:
    @workflow
    async def body(flow: Flow) -> None:
        async def one(retries: int) -> None:
            await flow.do("charge", charge, retries=retries)

        await asyncio.gather(one(0))

    assert failure(make(body), body)["step"] == "[0]/charge"
