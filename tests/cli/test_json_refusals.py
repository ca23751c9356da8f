"""Each exit code by one command: with `--json` stdout is one document, or empty and flow.error/1 on stderr."""

import json
import os

import pytest

from flowstone_cli import exit_codes

REFUSED = [
    (2, ("run",)),
    (2, ("runs", "--status", "lost")),
    (65, ("run", "hello", "--set", "nam=x")),
    (66, ("status", "zzz")),
    (66, ("status", "@failed")),
    (69, ("run", "late")),
    (74, ("status", "@last", "--db", "folder")),
]
ACTED = [
    (0, ("run", "hello")),
    (1, ("run", "fails")),
    (3, ("run", "gives_up")),
    (8, ("run", "gated")),
]


@pytest.fixture
def told(project):
    (project.root / "folder").mkdir()
    (project.root / "workflows" / "late.py").write_text(
        "import nothing_like_it\nfrom flowstone import workflow\n@workflow\nasync def late(flow): ...\n"
    )
    (project.root / "workflows" / "gives_up.py").write_text(
        "from flowstone import Flow, workflow\n@workflow\nasync def gives_up(flow: Flow) -> None:\n    flow.cancel('enough')\n"
    )
    project.run_id("hello")
    return project


def refusal(result, code):
    assert (result.code, result.out) == (code, "")
    lines = [line for line in result.err.splitlines() if line.startswith("{")]
    error = json.loads(lines[-1])
    assert (error["schema"], error["code"]) == ("flow.error/1", code)
    assert error["message"]
    return error


@pytest.mark.parametrize(("code", "arguments"), REFUSED, ids=str)
def test_a_refused_command_says_so_on_stderr_alone(told, code, arguments):
    refusal(told.flow(*arguments, "--json"), code)


@pytest.mark.parametrize(("code", "arguments"), ACTED, ids=str)
def test_a_command_that_acted_gives_the_run_whatever_its_code(told, code, arguments):
    result = told.flow(*arguments, "--json")
    assert (result.code, result.document["schema"]) == (code, "flow.run/1")


def test_settings_that_are_wrong_are_78(told):
    (told.root / "flow.toml").write_text("retires = 2\n")
    refused = refusal(told.flow("runs", "--json"), 78)
    assert ('did you mean "retries"?' in refused["message"], refused["hint"]) == (True, "flow help environment")


def test_an_answer_of_another_kind_is_75_and_a_wait_that_is_too_long_124(told):
    run = told.run_id("gated")
    assert told.flow("wait", run, "--timeout", "10ms", "--json").code == 124
    assert told.flow("approve", run, "--no-resume", "--json").code == 0
    refusal(told.flow("reject", run, "--comment", "no", "--json"), 75)


def test_changed_code_is_76(told):
    run = told.run_id("pauses")
    path = told.root / "workflows" / "examples.py"
    path.write_text(path.read_text().replace('suspend("until monday")', 'suspend("until friday")'))
    refusal(told.flow("resume", run, "--json"), 76)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everything")
def test_a_database_that_may_only_be_read_is_77(told):
    (told.root / ".flow" / "flow.db").chmod(0o400)
    refusal(told.flow("cancel", "@last", "--json"), 77)


def test_every_code_of_the_table_has_a_name_of_its_own():
    assert (
        len({name for _, name, _ in exit_codes.TABLE}) == len({code for code, _, _ in exit_codes.TABLE}) == len(exit_codes.TABLE)
    )
