"""What an annotation is made of: its fields by the names that JSON uses, what lies inside a container, how people call it."""

import dataclasses
import sys
import types
import typing
from collections.abc import Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

import typing_extensions
from pydantic import AliasChoices, AliasPath, BaseModel, RootModel
from pydantic.fields import FieldInfo

UNIONS = (Union, types.UnionType)

WORDS: dict[type, str] = {
    bool: "true or false",
    str: "text",
    bytes: "text",
    PurePath: "path",
    int: "whole number",
    float: "number",
    Decimal: "number",
    datetime: "date and time",
    date: "date",
    time: "time",
    timedelta: "duration",
    list: "list",
    tuple: "list",
    set: "list",
    frozenset: "list",
    dict: "object",
    type(None): "null",
}


def shown(annotation: Any) -> str:
    """An annotation as its author wrote it, nearly."""
    if annotation is None:
        return "None"
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__.rsplit("<locals>.", 1)[-1]
    return str(annotation).replace("typing.", "")


def bare(annotation: Any) -> Any:
    """The annotation without Annotated, Optional, NewType, type alias and the wrapping of a root model."""
    while True:
        if get_origin(annotation) in (Annotated, typing_extensions.Required, typing_extensions.NotRequired):
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in UNIONS:
            rest = [arg for arg in get_args(annotation) if arg is not type(None)]
            if len(rest) != 1:
                return annotation
            annotation = rest[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif isinstance(annotation, typing_extensions.TypeAliasType):
            annotation = annotation.__value__
        elif isinstance(annotation, type) and issubclass(annotation, RootModel):
            annotation = annotation.model_fields["root"].annotation
        else:
            return annotation


def fields_of(annotation: Any) -> dict[str, Any] | None:
    """Annotations by each name that JSON may use; None if any name is welcome or the annotation has no fields."""
    kind = bare(annotation)
    kind = get_origin(kind) or kind
    if not isinstance(kind, type):
        return None
    if issubclass(kind, BaseModel):
        return (
            None if kind.model_config.get("extra") == "allow" else _named(bare(annotation).model_fields, dict(kind.model_config))
        )
    if hasattr(kind, "__pydantic_fields__"):
        config = dict(getattr(kind, "__pydantic_config__", None) or {})
        return None if config.get("extra") == "allow" else _named(kind.__pydantic_fields__, config)
    if dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return {field.name: hints.get(field.name, Any) for field in dataclasses.fields(kind) if field.init}
    if typing_extensions.is_typeddict(kind):
        return _hints(kind)
    return None


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return typing_extensions.get_type_hints(kind, include_extras=True)
    except Exception:
        return dict.fromkeys(kind.__annotations__, Any)


def _named(fields: Mapping[str, FieldInfo], config: dict[str, Any]) -> dict[str, Any] | None:
    if config.get("extra") == "allow":
        return None
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    found: dict[str, Any] = {}
    for name, field in fields.items():
        alias = field.validation_alias or field.alias
        for choice in alias.choices if isinstance(alias, AliasChoices) else [alias]:
            if isinstance(choice, AliasPath):
                found[str(choice.path[0])] = Any
            elif choice is not None:
                found[choice] = field.annotation
        if alias is None or by_name:
            found[name] = field.annotation
    return found


def inside(annotation: Any, key: str | int) -> Any:
    """The annotation of what lies at a key of an object or an index of a list; Any where that is not simple to say."""
    if isinstance(key, str) and (fields := fields_of(annotation)) is not None:
        return fields.get(key, Any)
    kind = bare(annotation)
    origin, args = get_origin(kind), get_args(kind)
    if not isinstance(origin, type) or not args:
        return Any
    if isinstance(key, str):
        return args[1] if issubclass(origin, Mapping) and len(args) == 2 else Any
    if issubclass(origin, tuple) and args[-1] is not Ellipsis:
        return args[key] if key < len(args) else Any
    return args[0] if issubclass(origin, Sequence | Set) else Any


def word(annotation: Any) -> str:
    """What people call a value of this annotation: `text`, `number`, `one of: a, b`."""
    kind = bare(annotation)
    if kind is None:
        return "null"
    if get_origin(kind) in UNIONS:
        return " or ".join(dict.fromkeys(word(arg) for arg in get_args(kind) if arg is not type(None)))
    if get_origin(kind) is Literal:
        return "one of: " + ", ".join(str(choice) for choice in get_args(kind))
    kind = get_origin(kind) or kind
    if not isinstance(kind, type):
        return "any value"
    if issubclass(kind, Enum):
        return "one of: " + ", ".join(str(choice.value) for choice in kind)
    if fields_of(kind) is not None or issubclass(kind, BaseModel | Mapping):
        return "object"
    if issubclass(kind, Sequence | Set) and not issubclass(kind, str | bytes):
        return "list"
    for known, called in WORDS.items():
        if issubclass(kind, known):
            return called
    return "any value" if kind is object else kind.__name__


def portable(annotation: Any) -> Any:
    """The annotation with each typing.TypedDict made anew by typing_extensions where pydantic insists on that (before 3.12)."""
    if sys.version_info >= (3, 12):
        return annotation
    if type(annotation) is typing._TypedDictMeta:  # type: ignore[attr-defined]
        hints = typing.get_type_hints(annotation, include_extras=True)
        wrapped = {
            name: hint if name in annotation.__required_keys__ else typing_extensions.NotRequired[portable(_unwrapped(hint))]
            for name, hint in ((name, portable(_unwrapped(hint))) for name, hint in hints.items())
        }
        made: Any = typing_extensions.TypedDict(annotation.__name__, wrapped)  # type: ignore[misc]
        return made
    args = get_args(annotation)
    if not args or get_origin(annotation) in (Literal, Annotated):
        return annotation
    replaced = tuple(portable(arg) for arg in args)
    if all(new is old for new, old in zip(replaced, args, strict=True)):
        return annotation
    if get_origin(annotation) in UNIONS:
        return Union[replaced]  # noqa: UP007 (made from a tuple)
    return annotation.copy_with(replaced) if hasattr(annotation, "copy_with") else get_origin(annotation)[replaced]


def _unwrapped(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (typing.Required, typing.NotRequired) else hint
