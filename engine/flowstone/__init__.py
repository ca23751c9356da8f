"""Flowstone: durable workflows in plain Python. The front door for authors; nothing inside imports it.

Names are resolved on first use, so that commands which only read do not import what bodies need.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowstone.authoring.answers import Answer as Answer
    from flowstone.authoring.answers import NotApproved as NotApproved
    from flowstone.authoring.blocking import BlockingFlow as BlockingFlow
    from flowstone.authoring.current import current_step as current_step
    from flowstone.authoring.definition import Done as Done
    from flowstone.authoring.definition import Failed as Failed
    from flowstone.authoring.definition import step as step
    from flowstone.authoring.definition import workflow as workflow
    from flowstone.authoring.fan_out import MapResult as MapResult
    from flowstone.authoring.fan_out import Winner as Winner
    from flowstone.authoring.flow import Flow as Flow
    from flowstone.authoring.shell import ShellFailed as ShellFailed
    from flowstone.authoring.shell import ShellResult as ShellResult
    from flowstone.errors import NonRetryable as NonRetryable
    from flowstone.errors import ValueRefused as ValueRefused
    from flowstone.graph.definition import Graph as Graph
    from flowstone.graph.definition import graph as graph
    from flowstone.graph.references import item as item
    from flowstone.graph.references import ref as ref
    from flowstone.graph.references import template as template
    from flowstone.graph.references import trigger as trigger
    from flowstone.interrupts import RunCancelled as RunCancelled
    from flowstone.values.failures import StepFailed as StepFailed

_HOMES = {
    "Answer": "flowstone.authoring.answers",
    "BlockingFlow": "flowstone.authoring.blocking",
    "Done": "flowstone.authoring.definition",
    "Failed": "flowstone.authoring.definition",
    "Flow": "flowstone.authoring.flow",
    "Graph": "flowstone.graph.definition",
    "MapResult": "flowstone.authoring.fan_out",
    "ShellFailed": "flowstone.authoring.shell",
    "ShellResult": "flowstone.authoring.shell",
    "Winner": "flowstone.authoring.fan_out",
    "NonRetryable": "flowstone.errors",
    "NotApproved": "flowstone.authoring.answers",
    "RunCancelled": "flowstone.interrupts",
    "StepFailed": "flowstone.values.failures",
    "ValueRefused": "flowstone.errors",
    "current_step": "flowstone.authoring.current",
    "graph": "flowstone.graph.definition",
    "item": "flowstone.graph.references",
    "ref": "flowstone.graph.references",
    "step": "flowstone.authoring.definition",
    "template": "flowstone.graph.references",
    "trigger": "flowstone.graph.references",
    "workflow": "flowstone.authoring.definition",
}

__all__ = [
    "Answer",
    "BlockingFlow",
    "Done",
    "Failed",
    "Flow",
    "Graph",
    "MapResult",
    "NonRetryable",
    "NotApproved",
    "RunCancelled",
    "ShellFailed",
    "ShellResult",
    "StepFailed",
    "ValueRefused",
    "Winner",
    "current_step",
    "graph",
    "item",
    "ref",
    "step",
    "template",
    "trigger",
    "workflow",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'flowstone' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


class _FrontDoor(ModuleType):
    """Keeps `flowstone.graph` the authors' function: the import of the room of that name would put its module there."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "graph" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor
