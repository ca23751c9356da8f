"""The command as it was typed, with more, less or something else: what hints are made of."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from flowstone.errors import UsageError


def again(arguments: Sequence[str], *more: str, without: Iterable[str] = (), instead: Mapping[str, str] | None = None) -> str:
    """The command line `flow …` anew: with the options `more`, without some flags, with other words `instead` of some.

    What stands after `--` is text, and stays.
    """
    border = arguments.index("--") if "--" in arguments else len(arguments)
    options, text = arguments[:border], arguments[border:]
    left_out = set(without)
    kept = [(instead or {}).get(one, one) for one in options if one not in left_out]
    return shlex.join(["flow", *kept, *(one for one in more if one not in kept), *text])


def unknown_choice(arguments: Sequence[str], option: str, value: str, choices: Sequence[str]) -> UsageError:
    """The error for an option whose value is none of the choices: it names them, and offers the nearest."""
    nearest = next(iter(get_close_matches(value, choices, n=1)), choices[0])
    words = list(arguments)
    for place, word in reversed(list(enumerate(words))):
        if word == value or word.endswith(f"={value}"):
            words[place] = word.removesuffix(value) + nearest
            break
    return UsageError(f"{option} takes {', '.join(choices)}; not {value}", hint=again(words))


def json_or_lines(arguments: Sequence[str]) -> UsageError:
    """The error for --json together with what prints an object per line."""
    said = "--json is one document: -f goes with --jsonl, which prints an object per line"
    return UsageError(said, hint=again(arguments, "--jsonl", without=("--json", "--jsonl")))
