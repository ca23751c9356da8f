"""Colour, width and glyphs of a stream."""

import io

import pytest

from flowstone_cli.terminal import stream, wants_color


@pytest.mark.parametrize(
    ("color", "terminal", "env", "wanted"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", False, {"FORCE_COLOR": "1"}, True),
        ("auto", False, {"CLICOLOR_FORCE": "1"}, True),
        ("auto", False, {"FORCE_COLOR": "0"}, False),
        ("auto", False, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_the_first_that_has_an_opinion_decides_about_colour(color, terminal, env, wanted):
    assert wants_color(color, terminal, env) is wanted


@pytest.mark.parametrize(("columns", "width"), [("120", 120), ("0", 80), ("-5", 80), ("wide", 80), ("", 80), ("²", 80)])
def test_columns_counts_only_as_a_positive_number(columns, width):
    assert stream(io.StringIO(), "stdout", color="auto", env={"COLUMNS": columns}).width == width


@pytest.mark.parametrize(("encoding", "ascii_only"), [("utf-8", False), ("cp1252", True), ("ascii", True), ("cp437", True)])
def test_glyphs_are_ascii_where_the_encoding_lacks_them(encoding, ascii_only):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    judged = stream(file, "stdout", color="auto", env={})
    assert judged.ascii is ascii_only
    judged.glyph("failed").encode(encoding)


def test_flow_ascii_asks_for_ascii():
    assert stream(io.StringIO(), "stdout", color="auto", env={"FLOW_ASCII": "1"}).ascii


def test_colour_in_real_output(project):
    project.flow("run", "fails")
    assert "\x1b[" not in project.flow("runs").out
    assert "\x1b[1;31m" in project.flow("run", "fails", FORCE_COLOR="1").err
    assert "\x1b[" not in project.flow("run", "fails", FORCE_COLOR="1", NO_COLOR="1").err
    assert "\x1b[1;31m" in project.terminal("runs").out
    assert "\x1b[" not in project.terminal("runs", NO_COLOR="1").out
    assert "\x1b[" not in project.terminal("runs", "--color", "never").out


def test_flow_color_and_the_flag_before_or_after_the_verb(project):
    project.flow("run", "fails")
    assert "\x1b[" in project.terminal("--color", "always", "runs", NO_COLOR="1").out
    assert "\x1b[" in project.terminal("runs", "--color", "always", NO_COLOR="1").out
    assert "\x1b[" in project.terminal("runs", FLOW_COLOR="always", NO_COLOR="1").out


def test_success_has_no_colour(project):
    project.flow("run", "hello")
    assert "\x1b[" not in project.terminal("status", "@last").out.partition("\n")[2]
