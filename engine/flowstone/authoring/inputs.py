"""A run's input: which shape a body's parameters ask for, and its arguments made from recorded data (DESIGN.md section 3)."""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from shlex import quote
from typing import Any, is_typeddict

from flowstone.authoring.definition import WorkflowDefinition
from flowstone.errors import BadData, FlowMisuse
from flowstone.values.codec import UNANNOTATED, exactly, fits, schema_of


@dataclasses.dataclass(frozen=True, slots=True)
class InputShape:
    """How a body takes its input: not at all, as one value, or field by field."""

    whole: Any = None
    """The annotation of the only parameter, when that is the whole input."""
    takes_whole: bool = False
    fields: Any = None
    """A model with a field per parameter, else."""
    names: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of the input; None if there is none or anything goes."""
        if self.takes_whole:
            return schema_of(self.whole)
        return schema_of(self.fields) if self.names else None


@functools.lru_cache(maxsize=256)  # making a model takes longer than a short run
def shape_of(definition: WorkflowDefinition) -> InputShape:
    """The shape of a workflow's input. Raises FlowMisuse for parameters that an input cannot fill."""
    function = definition.function
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if not parameters:
        return InputShape()
    hints = _hints(function)
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            said = f"the workflow {definition.name} takes {parameter}: its input has named fields only"
            raise FlowMisuse(said, hint="name each parameter, or take one that is the whole input")
    if len(parameters) == 1:
        annotation = hints.get(parameters[0].name, UNANNOTATED)
        if is_whole(annotation):
            return InputShape(whole=annotation, takes_whole=True, names=(parameters[0].name,))
    import pydantic

    fields: dict[str, Any] = {
        parameter.name: (
            hints.get(parameter.name, Any),
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in parameters
    }
    model = pydantic.create_model(
        definition.name, __config__=pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields
    )
    return InputShape(fields=model, names=tuple(fields))


def recorded(definition: WorkflowDefinition, data: Any) -> Any:
    """The input as it is recorded: numbers that a float rounds are text where a Decimal is expected. Raises BadData."""
    shape = shape_of(definition)
    return exactly(data, shape.whole if shape.takes_whole else shape.fields or UNANNOTATED, what="the input")


def bind(definition: WorkflowDefinition, data: Any, *, where: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the body for an input of plain JSON data. Raises BadData with every violation by path."""
    shape = shape_of(definition)
    if shape.takes_whole:
        parameter = list(inspect.signature(definition.function).parameters.values())[1]
        if data is None and parameter.default is not parameter.empty:
            return (), {}
        return (fits(data, shape.whole, where=where),), {}
    if not shape.names:
        if data not in (None, {}):
            raise BadData(f"{definition.name} takes no input", hint=f"flow run {quote(definition.name)}")
        return (), {}
    model = fits({} if data is None else data, shape.fields, where=where)
    return (), {name: getattr(model, name) for name in shape.names}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise FlowMisuse(
            f"an annotation of the workflow {function.__name__} cannot be read: {error}",
            hint="annotations must name what exists when the module has been imported",
        ) from error


def is_whole(annotation: Any) -> bool:
    """Whether a parameter with that annotation takes an object as it is, so that it is not given field by field."""
    if annotation in (UNANNOTATED, Any, dict):
        return True
    origin = typing.get_origin(annotation)
    if origin is dict:
        return True
    if not isinstance(annotation, type):
        return False
    if dataclasses.is_dataclass(annotation) or is_typeddict(annotation) or issubclass(annotation, dict):
        return True
    return hasattr(annotation, "model_fields")
