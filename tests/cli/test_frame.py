"""The frame: verbs, help, options before and after the verb, what is imported."""

import os
import tomllib
from pathlib import Path

import pytest

from flowstone_cli import VERSION
from flowstone_cli.app import VERBS

REPOSITORY = Path(__file__).parents[2]
READING = [
    ("status", "@last"),
    ("runs",),
    ("timeline", "@last"),
    ("timeline", "@last", "--events"),
    ("state", "@last"),
    ("state", "@last", "--diff", "0"),
    ("timeline", "@last", "--at", "1"),
    ("timeline", "@last", "--jsonl"),
    ("timeline", "@last", "-f"),
    ("export", "@last", "--format", "html"),
    ("logs", "@last"),
    ("diff", "@last@0", "@last"),
    ("output", "@last"),
    ("list",),
]
HEAVY = {"pydantic", "pydantic_core", "sqlite_utils", "asyncio", "flowstone.engine", "rich", "jsonschema"}


def test_the_version_is_the_packages(project):
    wanted = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert wanted == VERSION
    for arguments in (("--version",), ("version",), ("--json", "--version")):
        assert project.flow(*arguments).out == f"flow {VERSION}\n"


def test_root_help_leads_with_examples_and_names_every_verb(project):
    text = project.flow("--help").out
    assert text == project.flow("-h").out == project.flow().out == project.flow("help").out
    assert text.index("flow run hello --set name=Ana") < text.index("Run:")
    for name, verb in VERBS.items():
        assert f"  {name} " in text
        assert verb.help in text
    assert max(map(len, text.splitlines())) <= 90


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_help_and_takes_the_shared_options(project, verb):
    text = project.flow(verb, "--help").out
    assert text.startswith(f"Usage: flow {verb} [OPTIONS]")
    for option in ("--db", "--dir", "--json", "--color", "-q", "-v", "-h"):
        assert option in text
    assert project.flow("help", verb).out == text
    first = text.splitlines()[2].strip()
    assert VERBS[verb].help.split()[0] == first.split()[0]


def test_shared_options_work_before_and_after_the_verb(project):
    project.flow("run", "hello", "--db", "one.db")
    assert (project.root / "one.db").exists()
    assert project.flow("--db", "one.db", "runs", "--count").out == "1\n"
    assert project.flow("runs", "--count", "--db=one.db").out == "1\n"
    assert project.flow("runs", "--count").out == "0\n"
    assert project.flow("--db", "other.db", "runs", "--db", "one.db", "--count").out == "1\n"


def test_an_unknown_verb_names_the_nearest(project):
    assert "try: flow status --help" in project.flow("stats").err


def test_text_that_looks_like_an_option_gets_its_dashes(project):
    assert "try: flow approve k7f -- '-looks fine'" in project.flow("approve", "k7f", "-looks fine").err
    assert "try: flow approve k7f -- -ok" in project.flow("approve", "k7f", "-ok").err
    assert "error: '-ok' begins with a dash" in project.flow("approve", "k7f", "-ok").err
    assert "--input" in project.flow("run", "hello", "--inptu", "x").err


def test_an_empty_reason_is_refused(project):
    assert project.flow("approve", "k7f", "").code == 2


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_reading_does_not_import_what_running_needs(shared, arguments):
    result = shared.flow(*arguments, python=("-X", "importtime"))
    loaded = {line.rpartition("|")[2].strip() for line in result.err.splitlines() if line.startswith("import time:")}
    assert "flowstone_cli.app" in loaded
    assert not loaded & HEAVY


def test_the_stored_root_help_is_what_the_parser_says(project):
    said = project.flow().out  # without an argument the parser is asked; `FLOW_STORE_TEXT=1` stores what it says
    stored = REPOSITORY / "cli" / "flowstone_cli" / "help.txt"
    if os.environ.get("FLOW_STORE_TEXT"):
        stored.write_text(said)
    assert stored.read_text() == said
    assert project.flow("--help", COLUMNS="40").out == project.flow(COLUMNS="40").out != said


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_version_and_the_root_help_import_next_to_nothing(project, option):
    result = project.flow(option, python=("-X", "importtime"))
    loaded = {line.rpartition("|")[2].strip() for line in result.err.splitlines() if line.startswith("import time:")}
    assert not loaded & {"typer", "flowstone", "flowstone_cli.app", "json"}
