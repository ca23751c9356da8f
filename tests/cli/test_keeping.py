"""Keeping house: init, new, doctor, backup, delete, prune, completion, and a page per exit code."""

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from flowstone.storage.sqlite.diagnosis import NETWORK, disk, file_system, sqlite_version
from flowstone_cli import exit_codes
from flowstone_cli.app import VERBS
from flowstone_cli.commands import exit_pages

PARENTS = """
from flowstone import Flow, workflow

def one() -> int:
    return 1

@workflow
async def inner(flow: Flow) -> int:
    return await flow.do("one", one)

@workflow
async def outer(flow: Flow) -> int:
    return await flow.do("kid", inner)

@workflow
async def asks(flow: Flow) -> str:
    return (await flow.approval("sign", expiry="2d")).status

@workflow
async def holder(flow: Flow) -> str:
    return await flow.do("kid", asks)
"""


@pytest.fixture
def parents(project):
    (project.root / "workflows" / "parents.py").write_text(PARENTS)
    return project


def changed(project, statement, *values):
    """Write into the database past the store."""
    with closing(sqlite3.connect(project.root / ".flow" / "flow.db")) as connection, connection:
        connection.execute(statement, values)


def checks(project, *arguments, code=0):
    result = project.flow("doctor", "--json", *arguments)
    assert result.code == code, result
    assert result.document["schema"] == "flow.doctor/1"
    return [(one["check"], one["grade"], one["message"]) for one in result.document["checks"]]


# init, new


def test_a_project_is_made_and_its_example_runs(project):
    result = project.flow("init", "shop")
    assert (result.code, result.out) == (0, "shop/flow.toml\nshop/workflows/order.py\n")
    assert "flow run order --set item=lamp --set amount=20" in result.err
    shop = type(project)(project.root / "shop")
    assert shop.flow("config", "path").out == f"{shop.root / 'flow.toml'}\n"
    small = shop.flow("run", "order", "--set", "item=lamp", "--set", "amount=20")
    assert (small.code, json.loads(small.out)) == (0, "reserved lamp, charged 20")
    assert shop.flow("run", "order", "--set", "item=sofa", "--set", "amount=900").code == 8
    approved = shop.flow("approve", "@last", "large order")
    assert (approved.code, json.loads(approved.out)) == (0, "reserved sofa, charged 900")
    assert shop.flow("run", "order", "--set", "item=sofa", "--set", "amount=900").code == 8
    assert shop.flow("reject", "@last", "large order", "--comment", "no").code == 3
    assert shop.flow("status", "@last", "--json").document["steps"][0]["undone"] == "succeeded"


def test_what_is_there_is_never_replaced(project):
    (project.root / "flow.toml").write_text("retries = 1\n")
    result = project.flow("init")
    assert (result.code, result.out) == (73, "")
    assert "is there already" in result.err
    assert (project.root / "flow.toml").read_text() == "retries = 1\n"
    (project.root / "flow.toml").unlink()
    (project.root / "flow.toml").symlink_to("nowhere.toml")
    assert project.flow("init").code == 73
    assert not (project.root / "workflows" / "order.py").exists()


def test_every_setting_of_the_template_is_one_that_flow_knows(project):
    project.flow("init", "shop")
    lines = [line.removeprefix("# ") for line in (project.root / "shop" / "flow.toml").read_text().splitlines()]
    (project.root / "flow.toml").write_text("\n".join(line for line in lines if "=" in line or line.startswith("[")) + "\n")
    result = project.flow("config", "show")
    assert result.code == 0, result.err


def test_a_new_workflow_runs_at_once(project):
    result = project.flow("new", "nightly")
    assert (result.code, Path(result.out.strip()).name) == (0, "nightly.py")
    assert project.flow("run", "nightly", "--set", "name=Ana").out == '"done for Ana"\n'
    assert "nightly" in project.flow("list").out
    assert project.flow("new", "nightly").code == 2
    assert "try: flow new my_report" in project.flow("new", "my-report").err
    assert project.flow("new", "class").code == 2
    (project.root / "workflows" / "taken.py").write_text("")
    assert project.flow("new", "taken").code == 73


def test_the_templates_are_part_of_the_package():
    folder = Path(exit_pages.__file__).parents[1] / "templates"
    assert {path.name for path in folder.iterdir() if path.is_file()} == {"flow.toml", "order.py", "new.py"}


# doctor


def test_a_healthy_project_has_nothing_wrong(project):
    assert {grade for _, grade, _ in checks(project)} <= {"ok", "note", "warning"}
    project.flow("run", "hello")
    project.flow("run", "gated")
    found = checks(project)
    names = {check for check, _, _ in found}
    assert names == {
        "python", "settings", "terminal", "sqlite", "file system", "disk", "rights", "database", "schema", "wal", "owners",
        "index", "workflows",
    }  # fmt: skip
    assert ("index", "ok", "2 runs, all rows as their journals have them") in found
    assert project.flow("doctor").out.splitlines()[0].split("\t")[:2] == ["python", "ok"]


def test_a_row_that_differs_from_its_journal_is_found_and_made_anew(project):
    run = project.run_id("gated")
    changed(project, "update runs set status = 'completed', done = 7, waiting = '[]', finished_at = 5 where id = ?", run)
    [said] = [message for check, grade, message in checks(project, code=78) if grade == "failed"]
    assert said == f"run {run}: status, finished_at, waiting, done differ from the journal"
    assert ("index", "note") in [one[:2] for one in checks(project, "--repair")]
    assert project.flow("status", run, "--json").document["phase"] == "waiting"
    checks(project)
    assert project.flow("approve", run).code == 0


def test_a_damaged_event_is_found_and_no_repair_hides_it(project):
    run = project.run_id("hello")
    changed(project, "update journal set body = '{}' where run_id = ? and n = 2", run)
    for more in ((), ("--repair",)):
        failed = [message for _, grade, message in checks(project, *more, code=78) if grade == "failed"]
        assert any(f"event 2 of run {run} is damaged" in message for message in failed)


def test_a_workflow_that_cannot_be_imported_is_found(project):
    (project.root / "workflows" / "late.py").write_text(
        "import nothing_like_it\nfrom flowstone import workflow\n@workflow\nasync def late(flow): ...\n"
    )
    (project.root / "workflows" / "broken.py").write_text("def (:\n")
    (project.root / "workflows" / "loud.py").write_text(
        "from flowstone import workflow\nprint('at import')\n@workflow\nasync def loud(flow): ...\n"
    )
    failed = [message for check, grade, message in checks(project, code=78) if grade == "failed"]
    assert len(failed) == 2
    assert any("nothing_like_it" in message for message in failed)
    assert any("broken.py" in message for message in failed)


def test_what_is_no_database_of_ours_is_said(project):
    (project.root / ".flow").mkdir()
    path = project.root / ".flow" / "flow.db"
    path.write_bytes(b"no database at all, but long enough to be looked at" * 20)
    assert any(check == "database" and grade == "failed" for check, grade, _ in checks(project, code=78))
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table t (x)")
    assert ("database", "failed", f"{path} is a database of another program") in checks(project, code=78)


def test_rights_that_are_too_wide_and_settings_that_are_wrong(project):
    project.flow("run", "hello")
    (project.root / ".flow" / "flow.db").chmod(0o644)
    assert any(check == "rights" and grade == "warning" for check, grade, _ in checks(project))
    (project.root / "flow.toml").write_text("retires = 2\n")
    assert [grade for check, grade, _ in checks(project, code=78) if check == "settings"] == ["failed"]


def test_a_run_whose_process_is_gone_is_named(project):
    os.mkfifo(project.root / "hole")
    process = project.start("run", "holds", "--set", f"path={project.root / 'hole'}")
    pipe = os.open(project.root / "hole", os.O_WRONLY)
    process.kill()
    process.communicate()
    os.close(pipe)
    [said] = [message for check, grade, message in checks(project) if check == "owners"]
    assert f"its process (pid {process.pid}) is gone" in said


@pytest.mark.parametrize(
    ("version", "grade"),
    [
        ((3, 36, 0), "failed"), ((3, 37, 0), "note"), ((3, 44, 5), "note"), ((3, 44, 6), "ok"), ((3, 45, 0), "note"),
        ((3, 50, 6), "note"), ((3, 50, 7), "ok"), ((3, 51, 2), "note"), ((3, 51, 3), "ok"), ((3, 53, 0), "ok"),
    ],
)  # fmt: skip
def test_which_sqlite_has_the_race(version, grade):
    assert sqlite_version(version).grade == grade


def test_file_systems_and_disks():
    assert {file_system(kind).grade for kind in NETWORK} == {"failed"}
    assert [file_system(kind).grade for kind in ("ext4", "apfs", "tmpfs", "fuse.sshfs", None)] == [
        "ok", "ok", "warning", "warning", "note",
    ]  # fmt: skip
    assert [disk(free).grade for free in (1 << 20, 200 << 20, 5 << 30)] == ["failed", "warning", "ok"]


# backup


def test_a_backup_holds_every_run_and_replaces_nothing(project):
    run = project.run_id("hello")
    result = project.flow("backup", "copy.db", "--json")
    assert result.document["file"] == str(project.root / "copy.db")
    assert project.flow("status", run, "--db", "copy.db", "--json").document["status"] == "completed"
    assert (project.root / "copy.db").stat().st_mode & 0o777 == 0o600
    assert project.flow("backup", "copy.db").code == 73
    assert project.flow("backup", "missing/copy.db").code == 73
    assert [path.name for path in project.root.glob("copy*")] == ["copy.db"]
    assert project.flow("backup", "copy2.db", "--db", "none.db").code == 66


# delete, prune


def test_a_run_is_deleted_only_after_a_yes(project):
    run, kept = project.run_id("hello"), project.run_id("hello")
    result = project.flow("delete", run)
    assert (result.code, result.out) == (2, "")
    assert "--yes" in result.err
    document = project.flow("delete", run, run, "--yes", "--json").document
    assert [one["id"] for one in document["runs"]] == [run]
    assert document["bytes"] == document["runs"][0]["bytes"] > 0
    assert project.flow("status", run).code == 66
    assert project.flow("status", kept).code == 0
    entries = project.flow("audit", "--json").document["audit"]
    assert (entries[0]["action"], entries[0]["run"], entries[0]["user"]) == ("delete", run, "ana")


def test_a_run_that_a_process_executes_is_not_deleted(project):
    os.mkfifo(project.root / "hole")
    process = project.start("run", "holds", "--set", f"path={project.root / 'hole'}")
    pipe = os.open(project.root / "hole", os.O_WRONLY)
    result = project.flow("delete", "@last", "--yes")
    assert (result.code, "flow cancel" in result.err) == (75, True)
    os.close(pipe)
    process.communicate(timeout=60)
    assert project.flow("delete", "@last", "--yes").code == 0


def test_children_go_with_their_parents(parents):
    parents.flow("run", "outer")
    parents.flow("run", "outer")
    assert parents.flow("delete", "@last:outer", "--with-children", "--yes").out.count("\n") == 2
    assert parents.flow("runs", "--count").out == "2\n"
    parents.flow("run", "holder")
    assert "which has not ended" in parents.flow("delete", "@last:asks", "--yes").err
    assert "--with-children" in parents.flow("delete", "@last:holder", "--yes").err
    assert parents.flow("delete", "@last:holder", "--with-children", "--yes").code == 0
    assert parents.flow("runs", "--count").out == "2\n"


def test_pruning_keeps_what_has_not_ended_and_the_newest(parents):
    for name in ("hello", "hello", "hello", "fails", "gated", "outer"):
        parents.flow("run", name)
    assert parents.flow("prune", "--yes").code == 2
    assert parents.flow("prune", "--older", "0s").code == 2
    listed = parents.flow("prune", "--keep", "1", "--dry-run", "--json").document
    assert (listed["dry_run"], [one["workflow"] for one in listed["runs"]]) == (True, ["hello", "hello"])
    assert parents.flow("runs", "--count").out == "7\n"
    assert parents.flow("prune", "--status", "failed", "--yes", "--vacuum").out.split("\t")[1:3] == ["fails", "failed"]
    assert parents.flow("prune", "--older", "1h", "--yes").out == ""
    assert parents.flow("prune", "--keep", "0", "--yes").out.count("\n") == 5
    assert parents.flow("runs", "--json").document["runs"][0]["workflow"] == "gated"
    assert parents.flow("runs", "--count").out == "1\n"
    assert parents.flow("prune", "--status", "waiting", "--yes").code == 2


# completion


def completed(project, line, script):
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    program = (
        f"{script}\nCOMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}\n"
        '_flow; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    result = project.shell(program)
    return result.out.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_tab_completes_verbs_options_workflows_and_runs(project):
    run = project.run_id("hello")
    script = project.flow("completion", "bash").out
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=True, capture_output=True).stderr == ""
    assert completed(project, "flow sta", script) == ["status", "state"]
    assert completed(project, "flow timeline --on", script) == ["--only"]
    assert completed(project, "flow run gat", script) == ["gated"]
    assert completed(project, f"flow status {run[:3]}", script) == [run]
    assert completed(project, f"flow --db none.db status {run[:3]}", script) == []
    assert completed(project, "flow status @l", script) == ["@last"]
    assert completed(project, "flow completion z", script) == ["zsh"]
    assert "bashcompinit" in project.flow("completion", "zsh").out
    assert project.flow("completion", "fish").code == 2


def test_tab_imports_next_to_nothing(project):
    project.run_id("hello")
    for what in ("runs", "workflows"):
        result = project.flow("__complete", what, "", python=("-X", "importtime"))
        loaded = {line.rpartition("|")[2].strip() for line in result.err.splitlines() if line.startswith("import time:")}
        assert not loaded & {"typer", "click", "rich", "pydantic", "asyncio", "flowstone.ports", "flowstone_cli.app"}
        assert result.out


def test_tab_says_nothing_when_something_is_wrong(project):
    for arguments in ((), ("runs",), ("runs", "k7"), ("nothing", ""), ("runs", "x", "--db", "/dev/null")):
        result = project.flow("__complete", *arguments)
        assert (result.code, result.out, result.err) == (0, "", "")


# pages


@pytest.mark.parametrize("code", [code for code, _, _ in exit_codes.TABLE])
def test_every_exit_code_has_a_page_that_names_verbs_that_exist(project, code):
    text = exit_pages.page(code)
    assert max(map(len, text.splitlines())) <= 90
    for line in text.splitlines():
        if line.startswith("  flow "):
            assert line.split()[1] in {*VERBS, "VERB"}, line


def test_help_of_a_code_is_its_page(project):
    assert project.flow("help", "75").out == exit_pages.page(75)
    assert project.flow("help", "5").code == 2


def told(result, name):
    return [one for one in result.document["checks"] if one["check"] == name]


def test_the_doctor_says_what_each_stream_can_show_and_what_decided_it(project):
    plain = project.flow("doctor", "--json", PYTHONIOENCODING="utf-8")
    assert [one["message"] for one in told(plain, "terminal")] == [
        "stdout: a file or a pipe, utf-8, signs in Unicode, no colours",
        "stderr: a file or a pipe, utf-8, signs in Unicode, no colours, progress in plain lines",
    ]
    forced = project.flow("doctor", "--json", PYTHONIOENCODING="ascii", FORCE_COLOR="1")
    assert told(forced, "terminal")[0]["message"] == (
        "stdout: a file or a pipe, ascii, signs in ASCII (the encoding has no others), colours (FORCE_COLOR or CLICOLOR_FORCE)"
    )


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "stderr: a terminal, 200 columns, utf-8, signs in Unicode, colours, progress in a live view"),
        ({"NO_COLOR": "1", "CI": "1"}, "no colours (NO_COLOR), progress in plain lines (CI)"),
        ({"TERM": "dumb"}, "signs in ASCII (TERM=dumb), no colours (TERM=dumb), progress in plain lines"),
        ({"COLUMNS": "150", "FLOW_ASCII": "1"}, "150 columns (COLUMNS), utf-8, signs in ASCII (FLOW_ASCII or --ascii)"),
        ({"ACCESSIBLE": "1"}, "words and sentences instead of signs (ACCESSIBLE), no colours, progress in sentences"),
        ({"PYTHONIOENCODING": "cp1252"}, "try: export PYTHONIOENCODING=utf-8"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, dict) else "",
)
def test_the_doctor_on_a_terminal(project, env, said):
    given = {"PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"} if "ACCESSIBLE" in env else {"PYTHONIOENCODING": "utf-8"}
    shown = project.terminal("doctor", columns=200, **(given | env)).out
    assert said.replace("no colours, progress in sentences", "no colours (NO_COLOR), progress in sentences") in " ".join(
        shown.split()
    )


def test_the_doctor_says_where_settings_come_from(project):
    (project.root / "flow.toml").write_text('retries = 1\npark_after = "2s"\n')
    [found] = told(project.flow("doctor", "--json", "--dir", "workflows", FLOW_COLOR="never"), "settings")
    assert found["message"] == (
        f"{project.root / 'flow.toml'}; --dir: dir; FLOW_COLOR: color; flow.toml: retries, park_after; FLOW_USER: user"
    )
