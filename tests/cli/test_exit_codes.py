"""For each exit code a command that yields it; under --json stdout is one document or empty."""

import json
import os
import signal

import pytest

from flowstone.errors import FlowError
from flowstone_cli import exit_codes


def error_of(result):
    assert result.out == ""
    document = json.loads(result.err.strip().splitlines()[-1])
    assert set(document) == {"schema", "code", "kind", "message", "hint"}
    assert document["schema"] == "flow.error/1"
    assert document["code"] == result.code
    return document


def test_0_for_a_run_that_completes(project):
    result = project.flow("run", "hello", "--set", "name=Ana", "--json")
    assert (result.code, result.document["schema"], result.document["output"]) == (0, "flow.run/1", "Hello, Ana")


def test_1_for_a_run_that_fails(project):
    result = project.flow("run", "fails", "--json")
    assert (result.code, result.document["phase"], result.document["error"]["type"]) == (1, "failed", "ValueError")
    assert result.document["next"] == f"flow retry {result.document['id']}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("stats",),
        ("run",),
        ("run", "hello", "--nope"),
        ("runs", "-n", "x"),
        ("runs", "-s", "well"),
        ("run", "hello", "--set", "name"),
        ("run", "hello", "--wait", "--no-wait"),
        ("run", "hello", "--color", "green"),
        ("help", "nothing"),
    ],
)
def test_2_for_a_wrong_command(project, arguments):
    result = project.flow(*arguments, "--json")
    assert result.code == 2
    assert error_of(result)["kind"] == "usage"


def test_3_for_a_run_that_is_cancelled(project):
    run = project.run_id("gated")
    result = project.flow("reject", run, "manager", "--json")
    assert (result.code, result.document["phase"]) == (3, "cancelled")


@pytest.mark.parametrize("workflow", ["gated", "sleeps", "pauses"])
def test_8_for_a_run_that_has_not_ended(project, workflow):
    result = project.flow("run", workflow, "--no-wait", "--json")
    assert (result.code, result.document["schema"]) == (8, "flow.run/1")
    assert result.document["next"].startswith("flow ")


def test_65_for_an_input_that_does_not_fit(project, write):
    write("v.json", '{"nam": "Ana"}')
    result = project.flow("run", "hello", "-i", "v.json")
    assert (result.code, result.out) == (65, "")
    assert "error: the input does not fit hello (v.json)\n  $.nam" in result.err
    assert error_of(project.flow("run", "hello", "-i", "v.json", "--json"))["kind"] == "bad_data"


def test_65_for_an_argument_in_another_encoding(project):
    result = project.flow("run", b"caf\xe9")
    assert result.code == 65
    assert not (project.root / ".flow" / "flow.db").exists()


def test_66_for_what_is_not_there(project):
    project.flow("run", "hello")
    for arguments in (
        ("run", "nope"),
        ("status", "zzz"),
        ("status", "@failed"),
        ("status", "key:K"),
        ("run", "hello", "-i", "no.json"),
    ):
        assert error_of(project.flow(*arguments, "--json"))["kind"] == "not_found"


def test_66_for_a_gate_that_is_not_open(project):
    run = project.run_id("gated")
    result = project.flow("approve", run, "looks fine")
    assert result.code == 66
    assert f'try: flow approve {run} manager --comment "looks fine"' in result.err


def test_69_for_a_workflow_that_cannot_be_imported(project):
    (project.root / "workflows" / "broken.py").write_text(
        "import nowhere_to_be_found\nfrom flowstone import workflow\n\n@workflow\nasync def broken(flow): ...\n"
    )
    assert error_of(project.flow("run", "broken", "--json"))["kind"] == "cannot_load"


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "@last", "-o", "no/where.json"),
        ("export", "@last", "-o", "workflows"),
        ("export", "@last", "-o", "file/below.json"),
        ("backup", "there.db"),
        ("backup", "no/where.db"),
        ("init",),
        ("init", "file"),
        ("new", "taken"),
    ],
)
def test_73_for_a_file_that_cannot_be_made(project, arguments):
    project.flow("run", "hello")
    for name in ("there.db", "flow.toml", "file", "workflows/taken.py"):
        (project.root / name).write_text("")
    assert error_of(project.flow(*arguments, "--json"))["kind"] == "cannot_create"
    assert project.flow(*arguments).err.count("  try: ls -l") == 1
    assert (project.root / "there.db").read_text() == ""


def test_74_for_an_output_that_the_disk_does_not_take(project):
    project.flow("run", "hello")
    assert project.shell("ulimit -f 0; trap '' XFSZ; flow export @last -o it.json").code == 74
    assert not (project.root / "it.json").exists()


def test_74_for_a_database_that_is_none(project):
    (project.root / "other.db").write_text("this is text, and long enough to be read as a header of a database file" * 20)
    assert error_of(project.flow("runs", "--db", "other.db", "--json"))["kind"] == "storage"


def test_74_for_a_stdout_that_takes_nothing(project):
    project.flow("run", "hello")
    assert project.shell("flow runs > /dev/full").code == 74
    assert project.shell("flow --version > /dev/full").code == 74
    assert project.shell("flow --help > /dev/full").code == 74
    closed = project.shell("flow runs >&-")
    assert (closed.code, "stdout is closed" in closed.err) == (74, True)


def test_75_for_another_input_under_the_same_key(project):
    project.flow("run", "hello", "--key", "K", "--set", "name=Ana")
    same = project.flow("run", "hello", "--key", "K", "--set", "name=Ana")
    assert (same.code, same.out) == (0, '"Hello, Ana"\n')
    other = project.flow("run", "hello", "--key", "K", "--set", "name=Bob", "--json")
    assert (other.code, error_of(other)["kind"]) == (75, "try_again")
    assert project.flow("runs", "--count").out == "1\n"


def test_75_for_another_answer_at_the_same_gate(project):
    run = project.run_id("gated")
    assert project.flow("approve", run).code == 0
    assert project.flow("approve", run, "manager").code == 0
    assert error_of(project.flow("reject", run, "manager", "--json"))["code"] == 75


def test_76_for_code_that_disagrees_with_the_journal(project):
    run = project.run_id("pauses")
    file = project.root / "workflows" / "examples.py"
    file.write_text(file.read_text().replace('flow.suspend("until monday")', 'flow.suspend("until friday")'))
    before = project.flow("timeline", run, "--events").out
    assert error_of(project.flow("resume", run, "--json"))["kind"] == "refused"
    assert project.flow("timeline", run, "--events").out == before


def test_77_for_an_approver_whom_the_policy_does_not_take(project):
    file = project.root / "workflows" / "examples.py"
    file.write_text(file.read_text().replace('expiry="2d"', 'approvers="not-initiator"'))
    run = project.run_id("gated")
    assert error_of(project.flow("approve", run, "--json"))["kind"] == "not_allowed"
    assert project.flow("approve", run, "--by", "bob").code == 0


def test_78_for_settings_that_are_wrong(project):
    (project.root / "flow.toml").write_text("colour = true\n")
    assert error_of(project.flow("runs", "--json"))["kind"] == "config"


def test_70_for_a_bug_of_ours_leaves_a_private_file_without_values(project):
    (project.root / "broken").mkdir()
    (project.root / "broken" / "html.py").write_text("raise RuntimeError('a module that this verb imports is broken')\n")
    project.flow("run", "hello")
    paths = os.pathsep.join([str(project.root / "broken"), project.environment()["PYTHONPATH"]])
    result = project.flow("export", "@last", "--format", "html", "--json", PYTHONPATH=paths)
    assert error_of(result)["kind"] == "internal"
    [file] = (project.root / ".flow").glob("crash-*.log")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "Traceback" in file.read_text()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_parks_the_run_and_says_how_to_go_on(project, number, code):
    import os

    os.mkfifo(project.root / "fifo")
    process = project.start("run", "holds", "--set", "path=fifo", "--json")
    assert process.stderr is not None
    with (project.root / "fifo").open("w"):  # opens once the step reads, and lets it go at the end
        process.send_signal(number)
        assert any("stopping" in line for line in process.stderr)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    document = json.loads(out)
    assert document["schema"] == "flow.run/1"
    assert document["next"] == f"flow resume {document['id']}"
    assert document["next"] in err
    assert project.flow("resume", document["id"]).out == '"let go"\n'


def test_a_reader_that_leaves_early_is_141_and_silent(project):
    for number in range(30):
        assert project.flow("run", "hello", "--key", f"K{number}").code == 0
    result = project.shell("set -o pipefail; flow timeline @last --events --json | head -c 1; exit ${PIPESTATUS[0]}")
    assert (result.code, result.err.count("\n")) in ((141, 1), (0, 1))  # one line: what @last is
    gone = project.shell("(flow runs --all 2>err; echo $? >code) | :; cat code err")
    assert gone.out in ("141\n", "0\n")


def test_141_when_nobody_reads_at_all(project):
    import os
    import subprocess

    project.flow("run", "hello")
    reading, writing = os.pipe()
    os.close(reading)
    process = project.start("runs", stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, "")


def test_every_kind_of_error_has_a_code():
    def kinds(kind: type[FlowError]) -> set[str]:
        return {kind.kind}.union(*(kinds(below) for below in kind.__subclasses__()))

    codes = {number for number, _, _ in exit_codes.TABLE}
    for kind in kinds(FlowError):
        error = FlowError("x")
        error.kind = kind
        assert exit_codes.of_error(error) in codes
        assert kind == "internal" or exit_codes.of_error(error) != exit_codes.INTERNAL


def test_help_lists_every_code(project):
    text = project.flow("help", "exit-codes").out
    for code, name, _ in exit_codes.TABLE:
        assert f"{code:>3}  {name}" in text
