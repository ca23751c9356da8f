"""The code of runs: a workflow's definition, source and arguments, as a library has them."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flowstone.authoring.definition import Policy, WorkflowDefinition, definition_of
from flowstone.authoring.inputs import bind, recorded
from flowstone.authoring.requests import Site
from flowstone.errors import BadData, FlowError, LoadFailed, NotFound
from flowstone.journal.plan import plan_document
from flowstone.ports import Library, Source
from flowstone.running.body import Program


@dataclass(frozen=True, slots=True)
class Programs:
    """Makes programs of the workflows in `library`; `policy` holds for steps that say nothing themselves."""

    library: Library
    policy: Policy

    def definition(self, workflow: str) -> WorkflowDefinition:
        """The definition of a workflow. Raises NotFound, LoadFailed."""
        definition = definition_of(self.library.load(workflow))
        if not isinstance(definition, WorkflowDefinition):
            raise LoadFailed(f"{workflow} is not a workflow", hint="flow list")
        return definition

    def startable(self, workflow: str) -> WorkflowDefinition:
        """The definition of a workflow that is to be started. Raises LoadFailed also for a step that it cannot tell apart."""
        definition = self.definition(workflow)
        self.library.require_single_steps(workflow)
        return definition

    def given(self, workflow: str, data: Any) -> Any:
        """An input that a person gives as it is recorded. Raises BadData."""
        return recorded(self.definition(workflow), data)

    def source(self, workflow: str) -> Source:
        """The source of a workflow's body, with its version."""
        version = self.library.version(workflow)
        return Source(version.hash, workflow, version.source)

    def plan(self, workflow: str) -> dict[str, Any]:
        """What run.created and run.migrated keep of a workflow's plan. That a plan cannot be read stops no run."""
        try:
            plan = self.library.plan(workflow)
        except (FlowError, SyntaxError, RecursionError):
            return {"plan": [], "deterministic": None}
        return {"plan": plan_document(plan), "deterministic": plan.deterministic}

    def program(self, workflow: str, data: Any, *, where: str) -> Program:
        """The program of a run with the input `data`. Raises NotFound, LoadFailed, BadData (`where` names the input in it)."""
        definition = self.definition(workflow)
        try:
            arguments, named = bind(definition, data, where=where)
        except BadData as unfit:
            code = inspect.unwrap(definition.function).__code__
            place = f"{workflow} is defined at {Site(code.co_filename, code.co_firstlineno)}"
            raise BadData(unfit.message, details=[*unfit.details, place], hint=unfit.hint) from None
        return Program(
            workflow=definition,
            arguments=arguments,
            named=named,
            source=self.source(workflow),
            find_step=self.library.step,
            find_workflow=self._find_workflow,
            policy=self.policy,
        )

    def function_of(self, name: str) -> Callable[..., Any] | None:
        """The function of the workflow or step of that name; None while it cannot be found."""
        workflow = self._find_workflow(name)
        if workflow is not None:
            return workflow.function
        try:
            step: Callable[..., Any] = self.library.step(name)
        except NotFound:
            return None
        return step

    def _find_workflow(self, function: Any) -> WorkflowDefinition | None:
        """The workflow that a function or a name given to `flow.do` is, if it is one."""
        if isinstance(function, str):
            return self.definition(function) if function in self.library.names() else None
        found = definition_of(function)
        return found if isinstance(found, WorkflowDefinition) else None
