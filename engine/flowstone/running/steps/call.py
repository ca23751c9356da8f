"""A function step: its input as recorded, its policy, and what its completion gives the body."""

import functools
import inspect
import json
from collections.abc import Callable
from typing import Any

from flowstone.authoring.definition import SAYS_NOTHING, Policy
from flowstone.authoring.requests import NodeOutcome, StepRequest
from flowstone.errors import FlowMisuse, NotFound
from flowstone.journal.events import Draft, Event, Kind, Raw, body_text
from flowstone.running.functions import StepFunction, describe_function
from flowstone.running.steps.asked import Asked
from flowstone.values.codec import UNANNOTATED, Recorded, digest, record, restore
from flowstone.values.duration import parse
from flowstone.values.failures import restore_failure


class AskedStep(Asked[StepRequest]):
    """A step that calls a function. `step` is None while the function behind a registered name cannot be found."""

    __slots__ = ("_digest", "_inputs", "fresh", "input_text", "on_error", "policy", "step", "undo")

    kind = "step"

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self.step: StepFunction | None = None
        self.fresh: Recorded | None = None
        """The result of an attempt made in this pass, read back already."""

    def resolve(self, find: Callable[[str], Callable[..., Any]], base: Policy) -> None:
        """Find the function, settle the policy (call over definition over `base`) and record the input, all at the call.

        Raises ValueRefused for an argument that cannot be recorded, FlowMisuse for what is no step.
        """
        function = self.request.function
        if isinstance(function, str):
            try:
                self.step = describe_function(find(function))
            except NotFound:
                self.step = None
        else:
            self.step = describe_function(function)
        self.policy = self.request.policy.over(self.step.policy if self.step else SAYS_NOTHING).over(base)
        self.undo = named_function(self.request.undo, "undo")
        self.on_error = named_function(self.request.on_error, "on_error")
        self._record_input()

    def _record_input(self) -> None:
        self._digest: str | None = None
        if self.step is None:  # nobody knows how its input is recorded, and it is not started
            self._inputs, self.input_text = [], "null"
            return
        recorded = [
            record(value, self._annotation(index), what=f'argument {index + 1} of step "{self.name}"')
            for index, value in enumerate(self.request.args)
        ]
        self._inputs = [one.text for one in recorded]
        if not recorded:
            self.input_text = "null"
        elif len(recorded) == 1:
            self.input_text = recorded[0].text
        else:
            self.input_text = "[" + ",".join(one.text for one in recorded) + "]"
        self._digest = digest(self.input_text)

    def _annotation(self, index: int) -> Any:
        return self.step.signature.of_argument(index) if self.step else UNANNOTATED

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The input as recorded, read anew each time: an attempt may change what it is given."""
        return tuple(restore(json.loads(text), self._annotation(index)) for index, text in enumerate(self._inputs))

    @property
    def function(self) -> str | None:
        """The recorded name of the function."""
        if self.step is None:
            return str(self.request.function)
        return self.step.name

    @property
    def digest(self) -> str | None:
        """The digest of the recorded arguments."""
        return self._digest

    @property
    def of_graph(self) -> bool:
        """Whether a node of a graph asks for it."""
        return self.request.of_graph

    @property
    def timeout(self) -> int | None:
        """Microseconds that an attempt may take."""
        return None if self.policy.timeout is None else parse(self.policy.timeout)

    def opening(self, now: int) -> Draft:
        """The start mark of the first attempt."""
        return Draft(
            Kind.STEP_STARTED,
            self.key,
            1,
            body_text(
                **self.place(),
                function=self.function,
                input=Raw(self.input_text),
                digest=self._digest,
                arguments=len(self._inputs),
                policy=policy_document(self.policy),
                undo=self.undo,
                on_error=self.on_error,
                actor=self.request.actor,
                description=self.request.description or (self.step.description if self.step else ""),
                **node_fields(self.request),
                **undo_fields(self.request, self.step.home if self.step else None),
            ),
        )

    def outcome(self, completion: Event) -> Any:
        """The result, or the step's failure raised as the author's own exception class where that is loaded."""
        if completion.kind == Kind.STEP_SUCCEEDED:
            if self.request.of_graph:
                return node_outcome(completion.body())
            if self.fresh is not None:
                return self.fresh.value
            annotation = self.step.signature.result if self.step else UNANNOTATED
            return restore(completion.body()["result"], annotation)
        body = completion.body()
        raise restore_failure(body["error"], self.name, completion.attempt or 1)


def undo_fields(request: StepRequest, home: str | None) -> dict[str, Any]:
    """Where the undo's function, and that of the step itself (`home`), are defined: files may have functions of one name."""
    return {} if request.undo is None else {"homes": {"function": home, "undo": describe_function(request.undo).home}}


def node_fields(request: StepRequest) -> dict[str, Any]:
    """The field by which a step of a graph names its node."""
    return {"node": request.name} if request.of_graph else {}


def node_outcome(succeeded: dict[str, Any]) -> NodeOutcome:
    """What a node of a graph gets from the body of its step.succeeded."""
    return NodeOutcome(succeeded["result"], succeeded.get("branch"), succeeded.get("state") or {})


def policy_document(policy: Policy) -> dict[str, Any]:
    """A policy as recorded with a step; durations in microseconds."""
    retries = policy.retries or 0
    return {
        "retries": retries,
        "max_attempts": retries + 1,
        "retry_delay": _delay_text(policy),
        "timeout": None if policy.timeout is None else parse(policy.timeout),
        "repeatable": policy.repeatable,
    }


def named_function(function: Callable[..., Any] | None, option: str) -> str | None:
    """The name by which an undo or a handler is recorded: it must be found again without the body."""
    if function is None:
        return None
    name = describe_function(function).name
    if "<" in name or (option == "undo" and (isinstance(function, functools.partial) or inspect.ismethod(function))):
        raise FlowMisuse(
            f"{option}={name}: it is run from the journal, without the body, so it must be found by its name",
            hint="give a function defined at the top of a module",
        )
    return name


def _delay_text(policy: Policy) -> str | int:
    delay = policy.retry_delay
    return "exponential" if delay is None or delay == "exponential" else parse(delay)
