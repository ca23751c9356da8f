"""What `-i/--input`, `--set` and `--set-str` give: files merged left to right, then single fields, left to right."""

import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flowstone.errors import BadData, NotFound, StorageFailed, UsageError
from flowstone_cli import strict_json

LARGEST = 16 * 1024 * 1024
"""Bytes of one file."""

_IS_TEXT = re.compile(r"should be (text|string)\b")
_NEAR = re.compile(r"did you mean (.+)\?$")


@dataclass(slots=True)
class Input:
    """The merged input and where it came from."""

    value: Any = None
    given: bool = False
    """False: nothing was given at all, and `value` is None."""
    sources: list[str] = field(default_factory=list)
    """Names of the files, for errors."""


def read(
    files: Sequence[str], sets: Sequence[str], set_strs: Sequence[str], arguments: Sequence[str], *, onto: Any = None
) -> Input:
    """Read and merge. `arguments` (the bare command line) tells the order of --set among --set-str.

    `onto` is what single fields change if no file is given.

    Objects merge field by field, anything else replaces what was there. Raises BadData naming file, line and column,
    NotFound for a missing file, UsageError for a `--set` that is none. Values are never quoted: they may be secret.
    """
    made = Input()
    if files.count("-") > 1:
        raise UsageError("stdin can be read only once: give -i - once")
    for name in files:
        value = strict_json.parse(_text_of(name), _shown(name))
        if made.given and not (isinstance(value, dict) and isinstance(made.value, dict)):
            raise BadData(f"{_shown(name)}: only objects can be merged, and one of the inputs is none")
        made.value = _merged(made.value, value) if made.given else value
        made.given = True
        made.sources.append(_shown(name))
    for as_text, assignment in _in_order(sets, set_strs, arguments):
        option = "--set-str" if as_text else "--set"
        path, equals, text = assignment.partition("=")
        if not equals or not all(path.split(".")):
            raise UsageError(f"{option} takes NAME=VALUE, with a name such as total or order.total")
        if not made.given:
            made.value, made.given = {} if onto is None else deepcopy(onto), True
        _put(made.value, path.split("."), _set_value(text, as_text, f"{option} {path}"), option)
    return made


def as_text(arguments: Sequence[str], violations: Iterable[str]) -> str | None:
    """The same command with --set-str where a value of --set was taken for JSON and should be text; None if none was."""
    wanted = {path.removeprefix("$.") for path, said in (line.split(maxsplit=1) for line in violations) if _IS_TEXT.match(said)}
    made, changed = list(arguments), False
    for number, argument in enumerate(arguments):
        option, equals, assignment = argument.partition("=")
        if not equals and number + 1 < len(arguments):
            assignment = arguments[number + 1]
        if option == "--set" and assignment.partition("=")[0] in wanted:
            made[number], changed = "--set-str" + argument.removeprefix("--set"), True
    return shlex.join(["flow", *made]) if changed else None


def corrected(arguments: Sequence[str], violations: Iterable[str]) -> str | None:
    """The same command with its fields put right: added, renamed, left out, as text, or VALUE to be filled in.

    None if that changes nothing: what is unknown in a file only its author can put right.
    """
    lines = [line.split(maxsplit=1) for line in violations]
    wrong = {path.removeprefix("$."): said for path, said in lines if path.startswith("$.") and "[" not in path}
    border = arguments.index("--") if "--" in arguments else len(arguments)
    made: list[str] = []
    words = iter(arguments[:border])
    for word in words:
        option, equals, assignment = word.partition("=")
        if option not in ("--set", "--set-str"):
            made.append(word)
            continue
        name, _, value = (assignment if equals else next(words, "")).partition("=")
        said = wrong.pop(name, None)
        if said is None:
            made += [option, f"{name}={value}"]
        elif _IS_TEXT.match(said):
            made += ["--set-str", f"{name}={value}"]
        elif (near := _NEAR.search(said)) is not None:
            wrong.pop(near[1], None)
            made += [option, f"{near[1]}={value}"]
        elif not said.startswith("not expected"):
            made += [option, f"{name}=VALUE"]
    for name, said in wrong.items():
        if not said.startswith("not expected"):
            made += ["--set", f"{name}=VALUE"]
    made += arguments[border:]
    return None if made == list(arguments) else shlex.join(["flow", *made])


def _in_order(sets: Sequence[str], set_strs: Sequence[str], arguments: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """The assignments in the order of the command line: the parser keeps it per option only."""
    order: list[bool] = []
    for argument in arguments:
        if argument == "--":
            break
        name = argument.partition("=")[0]
        if name in ("--set", "--set-str"):
            order.append(name == "--set-str")
    left = {False: list(sets), True: list(set_strs)}
    if order.count(True) != len(set_strs) or order.count(False) != len(sets):
        order = [False] * len(sets) + [True] * len(set_strs)
    for as_text in order:
        yield as_text, left[as_text].pop(0)


def _set_value(text: str, as_text: bool, source: str) -> Any:
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        text, source = _text_of(text[1:]), _shown(text[1:])
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadData(f"{source}: the value is not UTF-8") from None
    if as_text:
        return text
    try:
        return strict_json.parse(text, source)
    except strict_json.NotJson:
        return text


def _put(value: Any, path: list[str], leaf: Any, option: str) -> None:
    for index, name in enumerate(path):
        if not isinstance(value, dict):
            before = ".".join(path[:index])
            where = f"{before} is no object" if before else "the input is no object"
            raise BadData(f"{option} {'.'.join(path)}: {where}, so it has no field {name}")
        if index == len(path) - 1:
            value[name] = leaf
        else:
            value = value.setdefault(name, {})


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    made = dict(below)
    for name, value in above.items():
        old = made.get(name)
        made[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return made


def _text_of(name: str) -> str:
    data = _stdin() if name == "-" else _file(name)
    shown = _shown(name)
    if len(data) > LARGEST:
        raise BadData(f"{shown} is larger than 16 MiB", hint="give the path of the data as input, and read it in a step")
    try:
        text = data.decode(_encoding(data))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise BadData(f"{shown}, line {line}, column {column}: this byte is not {error.encoding.upper()}") from None
    if not text.strip():
        raise BadData(f"{shown} is empty")
    return text


def _encoding(data: bytes) -> str:
    return json.detect_encoding(data)  # UTF-8 with or without a mark, UTF-16, UTF-32


def _stdin() -> bytes:
    if sys.stdin is None:
        raise NotFound("stdin is closed: -i - has nothing to read", hint="flow run NAME -i FILE")
    if sys.stdin.isatty():
        raise UsageError("-i - reads stdin, and stdin is a terminal", hint="flow run NAME -i FILE")
    try:
        return sys.stdin.buffer.read(LARGEST + 1)
    except OSError as error:
        raise StorageFailed(f"stdin cannot be read: {error.strerror}") from error


def _file(name: str) -> bytes:
    shown = _shown(name)
    try:
        # Non-blocking at the opening: a named pipe that nobody writes to is empty, not a hang. Reading blocks again,
        # so that a shell's <(command) works.
        descriptor = os.open(Path(name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(f"there is no file {shown}", hint=f"ls {shlex.quote(str(Path(name).parent))}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotFound(f"{shown} cannot be read: {reason}", hint=f"ls -l {shlex.quote(name)}") from None
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise BadData(f"{shown} is a folder, not a file", hint=f"ls {shlex.quote(name)}")
        os.set_blocking(descriptor, True)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise StorageFailed(f"{shown} cannot be read: {error.strerror}", hint=f"ls -l {shlex.quote(name)}") from error
    finally:
        os.close(descriptor)


def _shown(name: str) -> str:
    return "stdin" if name == "-" else name
