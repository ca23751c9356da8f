"""Answering a gate: everything about an answer that can be checked is checked before it is written (DESIGN.md section 9).

Works from the journal alone, without the author's code. `decide` is called under the store's lock.
"""

import difflib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowstone.clock import to_rfc3339
from flowstone.errors import AlreadyAnswered, BadData, NotAllowed, NotFound
from flowstone.journal.asked import answer_options
from flowstone.journal.events import Draft, Event, Kind, body_text
from flowstone.journal.keys import key_of
from flowstone.journal.labels import typed_name
from flowstone.journal.ledger import Ledger
from flowstone.journal.operations import Operation
from flowstone.journal.states import SETTLED
from flowstone.ports import RunRow
from flowstone.values.exact import exact

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
"""The types of JSON schema in words."""


@dataclass(frozen=True, slots=True)
class Word:
    """What a person says to a gate."""

    yes: bool
    data: Any
    comment: str | None
    by: dict[str, Any]

    @property
    def decision(self) -> str:
        """As recorded."""
        return "approved" if self.yes else "rejected"


def gate_meant(ledger: Ledger, run: RunRow, reason: str | None, verb: str) -> Operation:
    """The approval that `reason` names, else the only open one. Raises NotFound with the open ones and the command to type.

    A gate that has closed is found too, so that the same answer again can say who was first.
    """
    gates = _approvals(ledger)
    open_gates = [gate for gate in gates if gate.open] if run.status not in SETTLED else []
    names = [typed_name(gate.key, gate.name) for gate in open_gates]
    if reason is None:
        if len(open_gates) == 1:
            return open_gates[0]
        if not open_gates:
            raise _suspended(ledger, run, None) or NotFound(
                f"run {run.id} has no open gate; it is {run.status}", hint=f"flow status {run.id}"
            )
        commands = [_command(verb, run, gate) for gate in open_gates]
        raise NotFound(f"run {run.id} has {len(open_gates)} open gates; say which", details=commands, hint=commands[0])
    meant = [gate for gate in gates if _is_named(gate, reason)]
    if meant:
        return next((gate for gate in meant if gate.open), meant[-1])
    early = [] if run.status in SETTLED or open_gates else ["--early keeps an answer for a gate that the run has not reached yet"]
    raise _suspended(ledger, run, reason) or NotFound(
        _no_such_gate(run, reason, names), details=early, hint=_hint(run, reason, open_gates, verb)
    )


def _suspended(ledger: Ledger, run: RunRow, reason: str | None) -> NotFound | None:
    """The error for an answer to a suspend of that reason, or to the only one: it is passed, not answered."""
    suspends = [gate for gate in ledger.open_gates() if gate.kind == "suspend" and reason in (None, gate.name, gate.key)]
    if len(suspends) != 1:
        return None
    name = typed_name(suspends[0].key, suspends[0].name)
    said = f'run {run.id} has no open gate to answer: it is suspended at "{name}"'
    return NotFound(said, hint=f"flow resume {run.id} {_typed(name)}")


def _command(verb: str, run: RunRow, gate: Operation, *, given: Sequence[str] = (), more: str = "") -> str:
    """The answer to a gate, with the fields that a yes must carry and that are not `given`, and `more` options."""
    name = _typed(typed_name(gate.key, gate.name))
    options = (answer_options(gate.opened.get("schema"), given) if verb == "approve" else "") + more
    return f"flow {verb} {run.id}{options} {name}" if name.startswith("-- ") else f"flow {verb} {run.id} {name}{options}"


def is_gate(ledger: Ledger, reason: str) -> bool:
    """Whether the run has reached an approval of that reason."""
    return any(_is_named(gate, reason) for gate in _approvals(ledger))


def _approvals(ledger: Ledger) -> list[Operation]:
    return [operation for operation in ledger.operations.values() if operation.kind == "approval"]


def _is_named(gate: Operation, reason: str) -> bool:
    return reason in (typed_name(gate.key, gate.name), gate.key)


def _no_such_gate(run: RunRow, reason: str, open_names: Sequence[str]) -> str:
    what_is_open = f"open: {', '.join(open_names)}" if open_names else f"none is open; the run is {run.status}"
    return f'run {run.id} has no gate "{reason}"; {what_is_open}'


def _hint(run: RunRow, reason: str, open_gates: Sequence[Operation], verb: str) -> str:
    by_name = {typed_name(gate.key, gate.name): gate for gate in open_gates}
    close = difflib.get_close_matches(reason, by_name, n=1)
    if close:
        return _command(verb, run, by_name[close[0]])
    if len(open_gates) == 1:
        return _command(verb, run, open_gates[0], more=f" --comment {_quoted(reason)}")
    return f"flow status {run.id}"


def _typed(name: str) -> str:
    """A name as an argument; one that looks like an option after `--`."""
    plain = name.replace("-", "").replace("_", "").replace("#", "").isalnum() and not name.startswith("#")
    return ("-- " if name.startswith("-") else "") + (name if plain else _quoted(name))


def _quoted(text: str) -> str:
    """Text in quotes in which a shell changes nothing."""
    return f'"{text}"' if not set(text) & set('"$`\\!') else shlex.quote(text)


def decide(word: Word, run: RunRow, events: Sequence[Event], now: int, scopes: Mapping[str, Sequence[str]]) -> list[Draft]:
    """The mail for an answer to a gate, given the run's row and the gate's own events; empty if the same was said before.

    Raises AlreadyAnswered (another answer was first, or the deadline has passed), NotAllowed, BadData.
    """
    gate = next(iter(Ledger(events).operations.values()))
    opened, number = gate.opened, gate.last.number
    name = typed_name(gate.key, gate.name)
    if gate.completion is not None:
        return _again(word, run, name, gate.completion.body(), gate.completion.at, "outcome", opened["schema"])
    if gate.answer is not None and gate.answer.attempt == number:
        return _again(word, run, name, gate.answer.body(), gate.answer.at, "decision", opened["schema"])
    if run.status in SETTLED:
        raise AlreadyAnswered(f'the gate "{name}" is closed: run {run.id} is {run.status}', hint=f"flow status {run.id}")
    deadline: int | None = opened["deadline"]
    if deadline is not None and now >= deadline:
        raise AlreadyAnswered(f'the gate "{name}" expired at {to_rfc3339(deadline)}', hint=f"flow resume {run.id}")
    refuse_by_policy(opened, name, word.by, run.user, scopes, hint=f"flow status {run.id}")
    data = filled(word.data, opened["schema"]) if word.yes else word.data
    if word.yes:
        violations = violations_of(data, opened["schema"])
        if violations:
            raise BadData(
                f'the answer does not fit the gate "{name}"',
                details=violations,
                hint=_command("approve", run, gate, given=[*data] if isinstance(data, dict) else ()),
            )
    recorded = _exact(data, opened["schema"])
    return [
        Draft(
            Kind.GATE_ANSWERED,
            gate.key,
            number,
            body_text(name=gate.name, decision=word.decision, data=recorded, comment=word.comment, by=word.by),
        )
    ]


def early_word(word: Word, run: RunRow, events: Sequence[Event], reason: str, scopes: Mapping[str, Sequence[str]]) -> list[Draft]:
    """The mail for a gate that the run has not reached; policy and data are checked when it opens."""
    if run.status in SETTLED:
        raise AlreadyAnswered(f"run {run.id} is {run.status}: it reaches no gate any more", hint=f"flow status {run.id}")
    name, repeated, occurrence = reason.rpartition("#")
    if not (repeated and occurrence.isdecimal()):
        name, occurrence = reason, "0"
    key = key_of("approve:", "", name, int(occurrence))
    said_data = exact(word.data, None, what="the answer")  # what the gate asks is not known yet
    before = Ledger(events).early.get(key)
    if before is not None:
        return _again(word, run, reason, before.body(), before.at, "decision", None)
    mine = sorted(scope for scope, users in scopes.items() if word.by["user"] in users)
    said = body_text(name=name, decision=word.decision, data=said_data, comment=word.comment, by=word.by, scopes=mine)
    return [Draft(Kind.GATE_ANSWERED, key, 1, said)]


def _again(
    word: Word, run: RunRow, name: str, body: Mapping[str, Any], at: int, field: str, schema: Mapping[str, Any] | None
) -> list[Draft]:
    outcome = body[field]
    data = _exact(word.data, schema)
    same_data = data is None or body["data"] in (data, filled(data, schema))
    if outcome == word.decision and (not word.yes or same_data):
        return []
    by = (body.get("by") or {}).get("user")
    when = to_rfc3339(body.get("at") or at)
    what = outcome if outcome != word.decision else f"{outcome} with other data"
    said = f'the gate "{name}" {"" if what == "expired" else "was "}{what} at {when}' + (f" by {by}" if by else "")
    raise AlreadyAnswered(said, hint=f"flow status {run.id}")


def refuse_by_policy(
    opened: Mapping[str, Any],
    name: str,
    by: Mapping[str, Any],
    initiator: str,
    scopes: Mapping[str, Sequence[str]],
    *,
    hint: str | None = None,
) -> None:
    """Raise NotAllowed if the gate's policy does not take an answer from `by`. `hint`: the command that says who may."""
    user, policy, scope = by["user"], opened["approvers"], opened["scope"]
    if policy == "owner" and user != initiator:
        raise NotAllowed(
            f'the gate "{name}" takes an answer only from {initiator}, who started the run; you are {user}', hint=hint
        )
    if policy == "not-initiator" and user == initiator:
        said = f'the gate "{name}" takes no answer from {initiator}, who started the run; somebody else must answer'
        raise NotAllowed(said, hint=hint)
    if scope is not None and user not in scopes.get(scope, ()):
        raise NotAllowed(
            f'the gate "{name}" takes an answer only from the scope "{scope}", which {user} is not in',
            hint=f"add the user to {scope} under [approvers] in flow.toml",
        )


def _exact(data: Any, schema: Mapping[str, Any] | None) -> Any:
    """The data as it is recorded; a gate without a schema takes numbers as floats."""
    return exact(data, {} if schema is None else schema, what="the answer")


def filled(data: Any, schema: Mapping[str, Any] | None) -> Any:
    """The data of a yes: `approved` is what the verb said already."""
    if schema is None:
        return data
    if data is None:
        data = {}
    said = schema.get("properties", {}).get("approved", {})
    if isinstance(data, dict) and said.get("type") == "boolean":
        return {"approved": True, **data}
    return data


def violations_of(data: Any, schema: Mapping[str, Any] | None) -> list[str]:
    """One line per way in which data does not fit a JSON schema, by path, without the value."""
    if schema is None:
        return []
    from jsonschema import Draft202012Validator  # heavy: only for answers

    lines = []
    for error in Draft202012Validator(schema).iter_errors(data):
        path = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        lines.extend(_sentences(path, error))
    properties = schema.get("properties")
    if isinstance(data, dict) and properties is not None and "additionalProperties" not in schema:
        lines.extend(_unexpected("$", name, properties) for name in data if name not in properties)
    return list(dict.fromkeys(lines))


def _sentences(path: str, error: Any) -> list[str]:
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return [f"{path}.{name}  missing" for name in missing]
    if error.validator == "type":
        kinds = error.validator_value
        words = [_TYPES.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        return [f"{path}  should be {' or '.join(words)}"]
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        return [_unexpected(path, name, known) for name in error.instance if name not in known]
    if error.validator in ("enum", "const"):
        return [f"{path}  should be one of {error.validator_value}"]
    return [f"{path}  does not satisfy {error.validator}: {error.validator_value}"]


def _unexpected(path: str, name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"{path}.{name}  not expected" + (f"; did you mean {close[0]}?" if close else "")
