"""The front of recording: a value to JSON text and back, with or without an annotation; and data from outside, checked."""

import hashlib
import inspect
from typing import Any, NamedTuple

from pydantic_core import from_json

from flowstone.errors import BadData, ValueRefused
from flowstone.values import plain
from flowstone.values.cures import cure_there
from flowstone.values.exact import exact, has_written
from flowstone.values.json_tree import MAX_BYTES, SIZE_CURE, WARN_BYTES, Unrecordable, check_json, is_json
from flowstone.values.sameness import require_same
from flowstone.values.shapes import NATIVE, NONE, Shape, shape_of

__all__ = ["UNANNOTATED", "WARN_BYTES", "Recorded", "digest", "exactly", "fits", "given", "record", "restore", "schema_of"]

UNANNOTATED: Any = inspect.Parameter.empty


class Recorded(NamedTuple):
    """A value as it is recorded. The caller warns when `text` is longer than WARN_BYTES."""

    text: str
    """JSON."""
    value: Any
    """What reading the text gives: the one that the body gets."""


def record(value: Any, annotation: Any = UNANNOTATED, *, what: str = "value") -> Recorded:
    """Write a value as JSON text, and read it back.

    `what` begins the message of an error: `result of step "x"`. Raises ValueRefused, with the path and the cure, if reading the
    text does not give the same value and the same types, or if no store takes it.
    """
    try:
        text, back = _write(value, annotation)
        if len(text) > MAX_BYTES:
            raise Unrecordable("$", f"is {len(text) >> 20} MiB as JSON, more than 64 MiB", SIZE_CURE)
    except Unrecordable as refusal:
        cure = None if refusal.hint is None else cure_there(refusal.hint, what, refusal.path)
        said = f"{what} cannot be recorded: {refusal}"  # the cure stands in it too: only the message is kept with the run
        raise ValueRefused(f"{said}; {cure}" if cure else said, hint=cure) from None
    except ValueRefused as refusal:  # the annotation itself
        raise ValueRefused(f"{what} cannot be recorded: {refusal}", hint=refusal.hint) from None
    return Recorded(text.decode(), back)


def _write(value: Any, annotation: Any) -> tuple[bytes, Any]:
    if annotation is UNANNOTATED or annotation is Any:
        return plain.write(value)
    shape = shape_of(annotation)
    exact = shape is not None and shape(value)
    if exact and is_json(value):
        return plain.write(value)
    from flowstone.values import annotated

    try:
        text, back = annotated.write(value, annotation)
        if shape is not None:  # what is read by its shape later must be read by it now
            back = _restore(from_json(text), annotation, shape)
            require_same(value, back, str(annotation))
    except Unrecordable:
        if not exact:
            raise
        return plain.write(value)  # pydantic loses something that the tagged forms keep, such as a time zone's name
    return text, back


def restore(data: Any, annotation: Any = UNANNOTATED) -> Any:
    """The value behind recorded data, parsed from JSON. May be, or share parts with, `data` itself.

    Raises ValueRefused, with one line per violation, if the data no longer fits the annotation; the data is never in the message.
    """
    if type(data) is annotation and annotation in NATIVE:
        return data
    try:
        if annotation is UNANNOTATED or annotation is Any:
            return plain.read(data)
        return _restore(data, annotation, shape_of(annotation))
    except Unrecordable as refusal:
        raise ValueRefused(f"a recorded value cannot be read: {refusal}", hint=refusal.hint) from None


def _restore(data: Any, annotation: Any, shape: Shape | None) -> Any:
    if shape is not None:
        back = plain.read(data)
        if shape(back):
            return back
    from flowstone.values import annotated

    found = annotated.attempt(data, annotation)
    if found.violations:
        raise ValueRefused(
            f"a recorded value no longer fits {annotated.shown(annotation)}",
            hint="give new fields a default, or keep reading the old form",
            details=annotated.lines(found.violations),
        )
    return found.value


def given(data: Any, annotation: Any) -> Any:
    """What is recorded of a value that a person gives as a recorded one looks (parsed JSON): the same as of the value itself.

    Raises ValueRefused, with one line per violation, also for fields that the annotation does not have.
    """
    value = restore(data, annotation)
    if annotation is not UNANNOTATED and shape_of(annotation) is None:
        from flowstone.values import annotated

        if unknown := annotated.unknown_fields(data, annotation):
            raise ValueRefused("it has fields that are not expected", details=annotated.lines(unknown))
    return from_json(record(value, annotation).text)


def digest(text: str) -> str:
    """A short fingerprint of a recorded text: 16 hex digits of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def schema_of(annotation: Any) -> dict[str, Any] | None:
    """The JSON schema that data for this annotation must fit, by alias; None if there is no annotation, or no schema for it.

    Raises ValueRefused if the annotation names something that cannot be found.
    """
    if annotation is UNANNOTATED or annotation is Any:
        return None
    from flowstone.values import annotated

    return annotated.schema_of(annotation)


def exactly(data: Any, annotation: Any, *, what: str) -> Any:
    """Data that a person gave with its numbers as written: as text where the annotation has a Decimal, else as floats.

    `what` begins the message of an error: `the input`. Raises BadData, by path, for a number of which that cannot be told.
    """
    if not has_written(data):
        return data
    if annotation is UNANNOTATED or annotation is Any:
        return exact(data, {}, what=what)
    return exact(data, schema_of(annotation), what=what)


def fits(data: Any, annotation: Any, *, where: str) -> Any:
    """The value of data that a person gave (parsed JSON). `where` is what it is for: `deploy (v.json)`.

    Raises BadData (`the input does not fit deploy (v.json)`) with all violations, one line each, by JSON path, without the data.
    """
    message = f"the input does not fit {where}"
    try:
        check_json(data)
    except Unrecordable as refusal:
        raise BadData(message, hint=refusal.hint, details=[f"{refusal.path}  {refusal.why}"]) from None
    if annotation is UNANNOTATED or annotation is Any or (data is None and annotation in NONE):
        return data
    shape = shape_of(annotation)
    if shape is not None and shape(data):
        return data
    from flowstone.values import annotated

    found = annotated.attempt(data, annotation)
    wrong = found.violations + annotated.unknown_fields(data, annotation)
    if wrong:
        raise BadData(message, details=annotated.lines(wrong))
    return found.value
