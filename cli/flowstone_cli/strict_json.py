"""JSON read strictly: what the standard parser takes in silence or refuses without a place is refused here by line and column.

Refused: duplicate keys, NaN and Infinity, numbers beyond a float, integers over 4,300 digits, halves of surrogate pairs,
nesting over 200 deep, trailing data. A number whose text says more than its float keeps it (`flowstone.values.exact`).
"""

import json
import re
from collections.abc import Iterable, Iterator
from math import isinf
from typing import Any, NamedTuple

from flowstone.errors import BadData
from flowstone.values.exact import number

DEPTH = 200
DIGITS = 4300
"""What Python itself converts at most."""

_TOKEN = re.compile(
    r"[ \t\n\r]*(?:"
    r'(?P<string>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.+-])"
    r"|(?P<word>true|false|null)(?!\w)"
    r"|(?P<mark>[\[\]{},:])"
    r")"
)
_BLANKS = re.compile(r"[ \t\n\r]*")
_WORDS = {"true": True, "false": False, "null": None}


class NotJson(BadData):
    """The text is no JSON at all; every other refusal is of JSON that is not taken."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Trouble(Exception):
    def __init__(self, at: int, why: str, syntax: bool = False) -> None:
        super().__init__(why)
        self.at = at
        self.why = why
        self.syntax = syntax


def parse(text: str, source: str) -> Any:
    """The value of one JSON text. Raises BadData naming `source`, line and column, never quoting the value."""
    try:
        return _quick(text)
    except (ValueError, RecursionError):  # the slow reader says what it is, and where
        pass
    try:
        return _value(text)
    except _Trouble as trouble:
        line = text.count("\n", 0, trouble.at) + 1
        column = trouble.at - (text.rfind("\n", 0, trouble.at) + 1) + 1
        kind = NotJson if trouble.syntax else BadData
        raise kind(f"{source}, line {line}, column {column}: {trouble.why}") from None


def _quick(text: str) -> Any:
    """The value by the standard parser; ValueError for anything that the slow one has to look at."""
    value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    if "\\u" in text or not text.isascii():
        json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    level = _containers([value])
    for _ in range(DEPTH):
        if not level:
            return value
        level = [inner for whole in level for inner in _containers(whole.values() if isinstance(whole, dict) else whole)]
    if level:
        raise ValueError
    return value


def _containers(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, dict | list)]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError
    return made


def _refuse(_constant: str) -> Any:
    raise ValueError


def _finite(text: str) -> float:
    value = number(text)
    if isinf(value):
        raise ValueError
    return value


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            rest = _BLANKS.match(text, at)
            at = rest.end() if rest else at
            if at == len(text):
                yield _Token("end", "", at)
                return
            raise _Trouble(at, _why_no_token(text[at : at + 12]), syntax=True)
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], match.start(kind))
        at = match.end()


def _why_no_token(text: str) -> str:
    for word in ("NaN", "Infinity", "-Infinity"):
        if text.startswith(word):
            return f"{word} is not JSON; write null or a text"
    if text.startswith('"'):
        return "this text has no end, or holds a bare control character or a wrong escape"
    if text.startswith("'"):
        return 'texts take double quotes: "'
    if text.startswith(("//", "/*", "#")):
        return "JSON has no comments"
    return "this is not JSON"


def _value(text: str) -> Any:
    """The value by our own reader, without recursion. Raises _Trouble at the first character that is wrong."""
    tokens = _tokens(text)
    stack: list[tuple[Any, str | None]] = []
    token = next(tokens)
    while True:
        # here a value is expected
        if token.text in ("{", "[") and token.kind == "mark":
            if len(stack) >= DEPTH:
                raise _Trouble(token.at, f"nested more than {DEPTH} deep")
            made: Any = {} if token.text == "{" else []
            opened, token = token, next(tokens)
            if not (token.kind == "mark" and token.text == {"{": "}", "[": "]"}[opened.text]):
                key = None
                if opened.text == "{":
                    key, token = _key(token, tokens, made)
                stack.append((made, key))
                continue
        else:
            made = _scalar(token)
        # here a value is complete
        token = next(tokens)
        while stack:
            whole, key = stack.pop()
            if key is None:
                whole.append(made)
            else:
                whole[key] = made
            if token.kind == "mark" and token.text == ",":
                token = next(tokens)
                if key is not None:
                    key, token = _key(token, tokens, whole)
                stack.append((whole, key))
                break
            close = "]" if key is None else "}"
            if token.kind != "mark" or token.text != close:
                raise _Trouble(token.at, f"expected , or {close}" + _found(token), syntax=True)
            made, token = whole, next(tokens)
        else:
            if token.kind != "end":
                raise _Trouble(token.at, "there is more after the JSON value", syntax=True)
            return made


def _key(token: _Token, tokens: Iterator[_Token], whole: dict[str, Any]) -> tuple[str, _Token]:
    if token.kind != "string":
        raise _Trouble(token.at, "expected a name in double quotes" + _found(token), syntax=True)
    name = _scalar(token)
    if name in whole:
        raise _Trouble(token.at, f"the name {json.dumps(name)[:80]} is there twice")
    colon = next(tokens)
    if colon.text != ":" or colon.kind != "mark":
        raise _Trouble(colon.at, "expected :" + _found(colon), syntax=True)
    return str(name), next(tokens)


def _scalar(token: _Token) -> Any:
    if token.kind == "word":
        return _WORDS[token.text]
    if token.kind == "string":
        value = json.loads(token.text)
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise _Trouble(token.at, "this text holds half of a surrogate pair, which no other program takes")
        return value
    if token.kind == "number":
        if any(char in ".eE" for char in token.text):
            if isinf(float(token.text)):
                raise _Trouble(token.at, "this number is too large for a float; write it as a text")
            return number(token.text)
        if len(token.text.lstrip("-")) > DIGITS:
            raise _Trouble(token.at, f"this integer has more than {DIGITS:,} digits; write it as a text")
        return int(token.text)
    raise _Trouble(token.at, "expected a value" + _found(token), syntax=True)


def _found(token: _Token) -> str:
    return ", but the text ends here" if token.kind == "end" else ""
