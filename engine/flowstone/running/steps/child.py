"""A child run as a step of its parent: its own run with its own journal, found again by its recorded id."""

from typing import Any

from flowstone.authoring.definition import Policy, WorkflowDefinition
from flowstone.authoring.inputs import shape_of
from flowstone.authoring.requests import StepRequest
from flowstone.errors import FlowMisuse
from flowstone.journal.events import Draft, Event, Kind, Raw, body_text
from flowstone.running.functions import signature_of
from flowstone.running.steps.asked import Asked
from flowstone.running.steps.call import named_function, node_fields, node_outcome, policy_document, undo_fields
from flowstone.values.codec import digest, record, restore
from flowstone.values.duration import parse
from flowstone.values.failures import restore_failure


class AskedChild(Asked[StepRequest]):
    """A step that is a run of another workflow. It is not retried unless the call says so: the child retries its own steps."""

    __slots__ = ("_digest", "input_text", "on_error", "policy", "undo", "workflow")

    kind = "child"

    def resolve(self, workflow: WorkflowDefinition) -> None:
        """Settle policy and input, at the call. Raises ValueRefused for an argument that cannot be recorded, FlowMisuse."""
        self.workflow = workflow
        self.policy = self.request.policy.over(Policy(retries=0, retry_delay="exponential"))
        self.undo = named_function(self.request.undo, "undo")
        self.on_error = named_function(self.request.on_error, "on_error")
        self.input_text = self._input()
        self._digest = digest(self.input_text)

    def _input(self) -> str:
        shape, arguments = shape_of(self.workflow), self.request.args
        if len(arguments) > len(shape.names):
            raise FlowMisuse(f"the workflow {self.workflow.name} takes {len(shape.names)} values, {len(arguments)} are given")
        what = f'the input of child "{self.name}"'
        if shape.takes_whole:
            return record(arguments[0], shape.whole, what=what).text if arguments else "null"
        if not arguments:
            return "null"
        signature = signature_of(self.workflow.function)
        texts = [
            f'"{name}":{record(value, signature.of_argument(index + 1), what=what).text}'
            for index, (name, value) in enumerate(zip(shape.names, arguments, strict=False))
        ]
        return "{" + ",".join(texts) + "}"

    @property
    def function(self) -> str | None:
        """The name of the workflow."""
        return self.workflow.name

    @property
    def digest(self) -> str | None:
        """The digest of the child's input."""
        return self._digest

    @property
    def timeout(self) -> int | None:
        """Microseconds that an attempt may take, without what it waits for a person."""
        return None if self.policy.timeout is None else parse(self.policy.timeout)

    def opening(self, now: int) -> Draft:
        """The start mark of the first attempt."""
        return Draft(
            Kind.STEP_STARTED,
            self.key,
            1,
            body_text(
                **self.place(),
                function=self.workflow.name,
                input=Raw(self.input_text),
                digest=self._digest,
                arguments=1,
                policy=policy_document(self.policy),
                undo=self.undo,
                on_error=self.on_error,
                actor=self.request.actor,
                description=self.request.description or self.workflow.summary,
                **node_fields(self.request),
                **undo_fields(self.request, None),
            ),
        )

    def outcome(self, completion: Event) -> Any:
        """The child's output, or its failure."""
        body = completion.body()
        if completion.kind == Kind.STEP_SUCCEEDED:
            if self.request.of_graph:
                return node_outcome(body)
            return restore(body["result"], signature_of(self.workflow.function).result)
        raise restore_failure(body["error"], self.name, completion.attempt or 1)
