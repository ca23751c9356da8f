"""Sentences on a narrow terminal are broken between words, commands so that they can be copied; in a pipe nothing is broken."""

import io
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as some

from flowstone.errors import NotFound
from flowstone_cli.clean import cells
from flowstone_cli.render.error import lines
from flowstone_cli.render.text import told, wrap_command
from flowstone_cli.terminal import Stream

WORDS = some.text(some.sampled_from("abcdefg-'\" $`[]\\é日"), min_size=1, max_size=9)


def window(width: int, *, terminal: bool = True) -> Stream:
    return Stream(io.StringIO(), "stderr", terminal=terminal, color=False, width=width, ascii=False)


def test_a_refused_command_is_told_between_the_words_of_a_narrow_window(shared):
    shown = shared.terminal("approve", "@last:gated", "it looks fine to me", columns=40, NO_COLOR="1").out
    assert max(map(cells, shown.splitlines())) <= 40
    error = shown[shown.index("error: ") :].splitlines()
    short = error[0].split()[2]
    assert error == [
        f'error: run {short} has no gate "it looks',
        '  fine to me"; open: manager',
        f"  try: flow approve {short} manager \\",
        '       --comment "it looks fine to me"',
    ]


def test_in_a_pipe_each_sentence_is_one_line_however_narrow(shared):
    piped = shared.flow("approve", "@last:gated", "it looks fine to me", COLUMNS="40").err.splitlines()
    assert [line.partition(" ")[0] for line in piped[1:]] == ["error:", ""]
    assert piped[-1].endswith('manager --comment "it looks fine to me"')


def test_what_is_said_beside_a_run_is_broken_between_words_too(project):
    project.terminal("run", "hello", "--key", "a rather long key for a run")
    shown = project.terminal("run", "hello", "--key", "a rather long key for a run", columns=40, NO_COLOR="1").out
    assert max(map(cells, shown.splitlines())) <= 40
    assert "nothing was started" in " ".join(shown.split())


def test_a_path_or_an_id_is_never_broken():
    path = "/a/very/long/path/that/does/not/fit/into/any/narrow/window/flow.db"
    text = lines(NotFound(f"there is no database at {path}", hint=f"ls -l {path}"), window(30))
    assert text.splitlines() == ["error: there is no database at", f"  {path}", "  try: ls -l \\", f"       {path}"]


@given(some.lists(WORDS, min_size=1, max_size=8), some.integers(min_value=8, max_value=60))
def test_a_command_in_pieces_is_the_same_command(words, width):
    text = shlex.join(["flow", *words])
    pieces = wrap_command(text, width)
    assert shlex.split("\n       ".join(pieces).replace("\\\n", "")) == shlex.split(text)
    quoted = [shlex.quote(word) for word in words]
    for piece in pieces:
        assert cells(piece) <= width or any(word in piece for word in quoted if cells(word) > width - 2), (piece, width)


@pytest.mark.parametrize("words", [["echo", "a  b", "it's", 'say "x"', "$(id)", "c\\d"]])
def test_a_shell_takes_the_pieces_for_what_was_one_line(words):
    pieces = wrap_command(shlex.join(["printf", "%s|", *words]), 14)
    assert len(pieces) > 2
    said = subprocess.run(["sh", "-c", "\n  ".join(pieces)], capture_output=True, text=True, check=True).stdout
    assert said == "".join(f"{word}|" for word in words)


@given(some.lists(WORDS, min_size=1, max_size=20).map(" ".join), some.integers(min_value=20, max_value=90))
def test_a_sentence_keeps_its_words_and_the_window(text, width):
    made = told(window(width), text, start="error: ")
    assert " ".join(made.split()) == " ".join(f"error: {text}".split())
    longest = max(map(cells, text.split() or [""]))
    assert all(cells(line) <= max(width, longest + 2) or line.startswith("error: ") for line in made.splitlines())
    assert told(window(width, terminal=False), text, start="error: ") == f"error: {text}\n"
