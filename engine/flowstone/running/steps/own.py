"""The engine's own steps: `KEY:undo` and `KEY:on_error`. Durable and retried like any other, but no operation of the body."""

from collections.abc import Callable
from typing import Any

from flowstone.authoring.definition import Policy
from flowstone.journal.events import Draft, Kind, body_text
from flowstone.journal.operations import Operation
from flowstone.running.functions import StepFunction
from flowstone.running.steps.call import policy_document
from flowstone.values.codec import Recorded
from flowstone.values.duration import parse


class OwnStep:
    """A step that the engine runs on behalf of the step `of`. `kind` is "undo" or "on_error"."""

    def __init__(
        self,
        kind: str,
        of: Operation,
        step: StepFunction,
        argument: Callable[[], Any],
        base: Policy,
        record: Operation | None,
        **fields: Any,
    ) -> None:
        self.kind = kind
        self.key = f"{of.key}:{kind}"
        self.predecessor: str | None = of.key
        self.of_graph = False
        self.step: StepFunction | None = step
        self.policy = step.policy.over(base)
        self.record = record
        self.fresh: Recorded | None = None
        self._of = of
        self._argument = argument
        self._fields = fields

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the function is called with; made by each attempt, whose failure it is if a recorded value no longer fits."""
        return (self._argument(),)

    @property
    def timeout(self) -> int | None:
        """Microseconds that an attempt may take."""
        return None if self.policy.timeout is None else parse(self.policy.timeout)

    def opening(self, now: int) -> Draft:
        """The start mark of the first attempt."""
        assert self.step is not None
        return Draft(
            Kind.STEP_STARTED,
            self.key,
            1,
            body_text(
                kind=self.kind,
                name=self._of.name,
                function=self.step.name,
                input=None,
                predecessor=self.predecessor,
                policy=policy_document(self.policy),
                description=self.step.description,
                site=self._of.opened.get("site"),
                **{"compensates" if self.kind == "undo" else "handles": self._of.key},
                **self._fields,
            ),
        )
