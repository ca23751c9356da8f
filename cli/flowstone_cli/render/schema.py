"""A JSON schema in words: one line per field, `total  number > 0`, those of objects inside by their path."""

from typing import Any, NamedTuple

from flowstone_cli import json_text

Schema = dict[str, Any]

DEEPEST = 4
"""Levels of objects in objects that are told field by field."""
_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
    "null": "null",
}
_FORMATS = {"date-time": "date and time", "date": "date", "time": "time", "duration": "duration", "uuid": "UUID", "path": "path"}
_BOUNDS = (("exclusiveMinimum", ">"), ("minimum", ">="), ("exclusiveMaximum", "<"), ("maximum", "<="))
_SIZES = (("minLength", "least"), ("maxLength", "most"), ("minItems", "least"), ("maxItems", "most"))


class Field(NamedTuple):
    """One field of an input."""

    path: str
    """`items[].sku`; empty for the whole input."""
    words: str
    """`text`, `list of object, at least 1`, `one of: a, b = a`."""
    required: bool


def fields_of(schema: Schema) -> list[Field]:
    """The fields that a schema describes, in its order; one without a path if it describes no object."""
    definitions = schema.get("$defs") or {}
    top = _resolved(schema, definitions)
    if "properties" not in top:
        return [Field("", words_of(schema, definitions), True)]
    return list(_inside("", top, definitions, 0))


def example_of(schema: Schema | None) -> str:
    """The options that a start needs: one for each required field, a file if one of them is no plain value."""
    if schema is None:
        return ""
    wanted = [field for field in fields_of(schema) if field.required and "." not in field.path]
    if any(not field.path or field.words.startswith(("list", "object", "any")) for field in wanted):
        return " -i FILE"
    return "".join(f" {_option(field)} {field.path}={field.words.split(' ')[0].upper()}" for field in wanted)


def _option(field: Field) -> str:
    """For text the option that takes it as it is: `--set version=1.4` would be a number."""
    return "--set-str" if field.words.startswith("text") else "--set"


def words_of(schema: Schema | bool, definitions: Schema) -> str:
    """What a value of this schema is, in words."""
    if isinstance(schema, bool):
        return "any value" if schema else "nothing"
    schema = _resolved(schema, definitions)
    if "const" in schema:
        return json_text.compact(schema["const"])
    if "enum" in schema:
        return "one of: " + ", ".join(one if isinstance(one, str) else json_text.compact(one) for one in schema["enum"])
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(dict.fromkeys(words_of(one, definitions) for one in choices))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(_TYPES.get(one, str(one)) for one in kind)
    if kind == "array":
        items = schema.get("items")
        return (f"list of {words_of(items, definitions)}" if items else "list") + _limits(schema)
    return _FORMATS.get(schema.get("format", ""), _TYPES.get(str(kind), "any value")) + _limits(schema)


def _inside(path: str, schema: Schema, definitions: Schema, depth: int) -> list[Field]:
    required = schema.get("required") or []
    made = []
    for name, one in schema["properties"].items():
        here = f"{path}.{name}" if path else name
        words = words_of(one, definitions)
        if isinstance(one, dict) and "default" in one:
            words += f" = {json_text.compact(one['default'])}"
        made.append(Field(here, words, name in required))
        held = _object_in(one, definitions)
        if held is not None and depth < DEEPEST:
            made += _inside(here + ("[]" if words.startswith("list") else ""), held, definitions, depth + 1)
    return made


def _object_in(schema: Any, definitions: Schema) -> Schema | None:
    """The object that a field holds, itself or as the items of a list."""
    if not isinstance(schema, dict):
        return None
    schema = _resolved(schema, definitions)
    choices = [one for one in schema.get("anyOf") or [] if isinstance(one, dict) and one.get("type") != "null"]
    if len(choices) == 1:
        return _object_in(choices[0], definitions)
    if schema.get("type") == "array":
        return _object_in(schema.get("items"), definitions)
    return schema if schema.get("properties") else None


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    seen = set()
    while "$ref" in schema and schema["$ref"] not in seen:
        seen.add(schema["$ref"])
        found = definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
        schema = {**found, **{name: value for name, value in schema.items() if name != "$ref"}}
    return schema


def _limits(schema: Schema) -> str:
    bounds = ", ".join(f"{sign} {_number(schema[name])}" for name, sign in _BOUNDS if name in schema)
    sizes = [f"at {most} {schema[name]}" for name, most in _SIZES if name in schema]
    pattern = [f"like {schema['pattern']}"] if "pattern" in schema else []
    return ", ".join([f" {bounds}" if bounds else "", *sizes, *pattern])


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
