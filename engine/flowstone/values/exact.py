"""Numbers exactly as a person wrote them: kept from the text of JSON to the place that expects a Decimal.

A float rounds `12345678901234567.89` and forgets the zeros of `10.00`. Whoever reads JSON for the engine gives a `Written` for
such a number. Before data is recorded each becomes text where its schema expects a Decimal, which reads text, else a float.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flowstone.errors import BadData
from flowstone.values.json_tree import member

DECIMAL = "decimal"
"""The `format` of the text that a Decimal is written as, in the schemas that we make."""

Schema = Mapping[str, Any]

_ANYTHING: Schema = {}
_UNKNOWN: Schema = {"unknown": True}


class Written(float):
    """A float that knows the text it was read from, because it does not say the same."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> "Written":
        """The float of a number in JSON."""
        made = super().__new__(cls, text)
        made.text = text
        return made


def number(text: str) -> float:
    """The float of a number in JSON; a `Written` if the float alone does not say what the text says."""
    value = float(text)
    says_all = repr(value) == text and not value.is_integer()  # pydantic makes the Decimal 10 of the float 10.0
    return value if says_all else Written(text)


def exact(data: Any, schema: Schema | None, *, what: str) -> Any:
    """The data with each `Written` as text where the schema expects a Decimal and as a float elsewhere.

    No schema (None) means that nobody knows it. Raises BadData, by path, where it cannot be told which of the two; `what` begins
    its message: `the input`. As text such a number is taken in both cases.
    """
    unclear: list[str] = []
    known = _UNKNOWN if schema is None else schema
    made = _exact(data, [known], known.get("$defs") or {}, "$", unclear)
    if unclear:
        raise BadData(f"{what} has numbers that a float may round", details=unclear)
    return made


def has_written(data: Any) -> bool:
    """Whether there is a number in it that a float alone does not say."""
    stack = [iter((data,))]
    while stack:
        for item in stack[-1]:
            if type(item) is Written:
                return True
            if type(item) is dict or type(item) is list:
                stack.append(iter(item.values() if type(item) is dict else item))
                break
        else:
            stack.pop()
    return False


def _unclear(path: str) -> str:
    return f"{path}  should be text: as a number its digits may be lost"


def _exact(data: Any, schemas: Sequence[Schema], definitions: Schema, path: str, unclear: list[str]) -> Any:
    """`schemas` are what may hold here, one for each way in which what lies above may be read."""
    if type(data) is Written:
        verdicts = {_verdict(schema, definitions) for schema in schemas}
        if verdicts <= {False}:
            return float(data)
        if verdicts != {True}:
            unclear.append(_unclear(path))
        return data.text
    if type(data) is dict:
        all_ways = [*_alternatives(schemas, definitions)]
        ways = [one for one in all_ways if _may_be(one, data)] or all_ways
        return {
            name: _exact(one, [_of_name(way, name) for way in ways], definitions, member(path, name), unclear)
            for name, one in data.items()
        }
    if type(data) is list:
        ways = [*_alternatives(schemas, definitions)]
        return [
            _exact(one, [_of_index(way, index) for way in ways], definitions, f"{path}[{index}]", unclear)
            for index, one in enumerate(data)
        ]
    return data


def _verdict(schema: Schema, definitions: Schema) -> bool | None:
    """Whether a number here goes to a Decimal; None if the same text could be for something else."""
    if schema is _UNKNOWN:
        return None
    texts = {one.get("format") == DECIMAL for one in _alternatives([schema], definitions) if one.get("type") == "string"}
    return None if len(texts) == 2 else True in texts


def _alternatives(schemas: Sequence[Schema], definitions: Schema) -> Iterator[Schema]:
    """The schemas without references and unions."""
    for schema in schemas:
        seen = set()
        while "$ref" in schema and schema["$ref"] not in seen:
            seen.add(schema["$ref"])
            schema = definitions.get(str(schema["$ref"]).rpartition("/")[2], _ANYTHING)
        parts = [part for name in ("anyOf", "oneOf", "allOf") for part in schema.get(name, ())]
        if parts:
            yield from _alternatives(parts, definitions)
        else:
            yield schema


def _may_be(schema: Schema, data: Mapping[str, Any]) -> bool:
    """Whether an object may be meant: what it must have is there, and what tells unions apart is the same."""
    if schema.get("type") not in (None, "object") or any(name not in data for name in schema.get("required", ())):
        return False
    told = [(data.get(name), one) for name, one in schema.get("properties", {}).items() if isinstance(one, Mapping)]
    return not any(("const" in one and one["const"] != value and value is not None) for value, one in told)


def _of_name(schema: Schema, name: str) -> Schema:
    if schema is _UNKNOWN:
        return schema
    others = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    found = schema.get("properties", {}).get(name) or next(filter(None, others), None)
    return found if isinstance(found, Mapping) else _ANYTHING


def _of_index(schema: Schema, index: int) -> Schema:
    if schema is _UNKNOWN:
        return schema
    first = schema.get("prefixItems", ())
    found = first[index] if index < len(first) else schema.get("items")
    return found if isinstance(found, Mapping) else _ANYTHING
