"""Values with an annotation, through pydantic: written, read back, compared; and the JSON schema of an annotation.

Pydantic is imported with this module, and this module only where an annotation needs it.
"""

import json
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from flowstone.errors import ValueRefused
from flowstone.values.cures import cure_of, is_no_data, name_of
from flowstone.values.exact import DECIMAL
from flowstone.values.fields import portable, shown
from flowstone.values.json_tree import DEPTH, TEXT_CURE, Unrecordable, check_json, is_json, text_fault
from flowstone.values.sameness import children, require_same, sort_sets
from flowstone.values.violations import Violation, lines, unknown_fields, violations

__all__ = ["Attempt", "adapter_of", "attempt", "lines", "schema_of", "shown", "unknown_fields", "write"]

Adapter = TypeAdapter[Any]

CONFIG = ConfigDict(ser_json_inf_nan="strings", hide_input_in_errors=True)

_adapters: dict[Any, Adapter] = {}
_unhashable: dict[int, tuple[Any, Adapter]] = {}
"""By id; the annotation is kept so that its id stays taken."""


def adapter_of(annotation: Any) -> Adapter:
    """The adapter of an annotation, made once. Raises ValueRefused if there can be none."""
    try:
        known = _adapters.get(annotation)
        hashable = True
    except TypeError:
        known = _unhashable[id(annotation)][1] if id(annotation) in _unhashable else None
        hashable = False
    if known is not None:
        return known
    made = _make(annotation)
    if hashable:
        _adapters[annotation] = made
    else:
        _unhashable[id(annotation)] = (annotation, made)
    return made


def _make(annotation: Any) -> Adapter:
    if isinstance(annotation, str):
        raise _unknown_name(annotation)
    try:
        form = portable(annotation)
        try:
            adapter: Adapter = TypeAdapter(form, config=CONFIG)
        except PydanticUserError as error:
            if error.code != "type-adapter-config-unused":
                raise
            adapter = TypeAdapter(form)  # models, dataclasses and TypedDicts have their own
        _ = adapter.core_schema["type"]  # raises if it names something that does not exist
    except (PydanticUndefinedAnnotation, NameError):
        raise _unknown_name(annotation) from None
    except PydanticUserError as error:
        if error.code in ("class-not-fully-defined", "undefined-annotation"):
            raise _unknown_name(annotation) from None
        raise ValueRefused(
            f"the annotation {shown(annotation)} cannot be recorded: {str(error).splitlines()[0]}",
            hint="annotate with a dataclass, a pydantic model or plain types",
        ) from None
    except Exception as error:
        raise ValueRefused(f"the annotation {shown(annotation)} cannot be used: {type(error).__name__}") from None
    return adapter


def _unknown_name(annotation: Any) -> ValueRefused:
    return ValueRefused(
        f"the annotation {shown(annotation)} names something that cannot be found",
        hint="import it at the top of the module, not under TYPE_CHECKING or inside a function",
    )


class _Schemas(GenerateJsonSchema):
    """Pydantic's schemas, which also say where the text of a Decimal goes: by themselves they only say number or text."""

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """Number, or text of the format `decimal`."""
        made = super().decimal_schema(schema)
        for one in made.get("anyOf", [made]):
            if one.get("type") == "string":
                one["format"] = DECIMAL
        return made


def schema_of(annotation: Any) -> dict[str, Any] | None:
    """The JSON schema, by alias, for validating; None if the annotation takes what JSON schema cannot say."""
    try:
        return adapter_of(annotation).json_schema(by_alias=True, mode="validation", schema_generator=_Schemas)
    except PydanticInvalidForJsonSchema:
        return None


def write(value: Any, annotation: Any) -> tuple[bytes, Any]:
    """The JSON text of a value and what reading that text gives. Raises Unrecordable unless both are the same."""
    if is_no_data(value):
        raise Unrecordable("$", f"is {name_of(value)}", cure_of(value))
    adapter = adapter_of(annotation)
    text = _dump(adapter, value)
    _check(text)
    back = _read_back(adapter, text, value, annotation)
    sets = require_same(value, back, shown(annotation))
    again = _dump(adapter, back)
    if sets:
        text = again = _with_sorted_sets(again, back)
    if again != text:  # an int where a float is annotated: the second writing counts, if it stays
        text, back = again, _read_back(adapter, again, value, annotation)
        require_same(value, back, shown(annotation))
        if _dump(adapter, back) != text:
            raise Unrecordable("$", "is not written the same way twice", "make its serializer depend on the value only")
    return text, back


class Attempt(NamedTuple):
    """The value of some data, or what is wrong with it."""

    value: Any
    violations: list[Violation]


def attempt(data: Any, annotation: Any) -> Attempt:
    """Validate parsed JSON data. Raises ValueRefused if the annotation itself cannot be used."""
    adapter = adapter_of(annotation)
    try:
        return Attempt(adapter.validate_json(to_json(data)), [])
    except ValidationError as error:
        return Attempt(None, violations(error, data, annotation))
    except PydanticUserError:
        raise _unknown_name(annotation) from None
    except Exception as error:
        return Attempt(None, [Violation("$", f"cannot be checked: its validator raised {type(error).__name__}")])


def _with_sorted_sets(text: bytes, value: Any) -> bytes:
    data = from_json(text)
    sort_sets(value, data)
    return to_json(data)


def _dump(adapter: Adapter, value: Any) -> bytes:
    try:
        return adapter.dump_json(value, by_alias=True, round_trip=True, warnings=False)
    except Exception as error:
        raise _unwritable(value, error) from None


def _read_back(adapter: Adapter, text: bytes, value: Any, annotation: Any) -> Any:
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        found = violations(error, from_json(text), annotation)
        path, said = found[0].path, found[0].said
        node = _at(value, path)
        hint = "annotate with the type that it has"
        if isinstance(node, float) and node - node != 0:
            hint = 'set model_config = ConfigDict(ser_json_inf_nan="strings")'
        if path == "$":
            raise Unrecordable(path, f"is {name_of(value)}, but the annotation says {shown(annotation)}", hint) from None
        called = f"is {name_of(node)}" if node is not _NOWHERE else "does not read back"
        raise Unrecordable(path, f"{called}, but the annotation {shown(annotation)} says: {said}", hint) from None
    except PydanticUserError:
        raise _unknown_name(annotation) from None
    except Exception as error:
        raise Unrecordable("$", f"cannot be read back: its validator raised {type(error).__name__}") from None


_NOWHERE = object()


def _at(value: Any, path: str) -> Any:
    """The part of a value at a path, as far as fields and JSON keys have the same names."""
    where = "$"
    while where != path:
        for below, child in children(value, where) or ():
            if path == below or path.startswith((f"{below}.", f"{below}[")):
                value, where = child, below
                break
        else:
            return _NOWHERE
    return value


def _check(text: bytes) -> None:
    """Depth and NUL characters of a written text; both are rare, so look closely only if they are possible."""
    if b"\\u0000" in text or text.count(b"[") + text.count(b"{") > DEPTH:
        try:
            data = json.loads(text)
        except (RecursionError, ValueError):
            raise Unrecordable("$", "is nested too deeply") from None
        if b"\\u0000" in text or not is_json(data):
            check_json(data)


def _unwritable(value: Any, error: Exception) -> Unrecordable:
    """Find the part of a value that pydantic could not write."""
    stack: list[tuple[Any, str, tuple[int, ...]]] = [(value, "$", ())]
    while stack:
        node, path, above = stack.pop()
        parts = children(node, path)
        if isinstance(node, str) and (fault := text_fault(node)):
            return Unrecordable(path, fault, TEXT_CURE)
        if parts is None:
            try:
                to_jsonable_python(node)
            except Exception:
                return Unrecordable(path, f"is {name_of(node)}", cure_of(node))
        elif id(node) in above:
            return Unrecordable(path, "contains itself", "return data that ends")
        elif len(above) > DEPTH:
            return Unrecordable(path, "is nested too deeply", f"at most {DEPTH} levels can be recorded")
        else:
            stack += [(child, where, (*above, id(node))) for where, child in reversed(parts)]
    cause = "its text form" if isinstance(error, PydanticSerializationError) else f"its serializer raised {type(error).__name__}"
    return Unrecordable("$", f"cannot be written: {cause}", cure_of(value))
