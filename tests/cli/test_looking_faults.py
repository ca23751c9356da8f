"""Faults that other tools have (field bugs 58 to 60) and rows 44 to 56 of the fault matrix, at the command line.

Where DESIGN.md gives another exit code than the matrix, it is DESIGN.md's.
"""

import json
import os
import re
import signal

import pytest

GOOD = "from flowstone import Flow, workflow\n@workflow\nasync def good(flow: Flow) -> str:\n    '''Good.'''\n    return 'good'\n"


@pytest.fixture
def put(project):
    """Writes a file into workflows/."""

    def put(name, content):
        path = project.root / "workflows" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


def test_b58_loader_troubles(project, put):
    put("util.py", "WORD = 'shared'\n")
    put(
        "a.py",
        "from flowstone import workflow\nimport json, email\nfrom .util import WORD\n"
        "@workflow\nasync def a(flow):\n    return json.dumps(WORD)\n",
    )
    put("json.py", "raise RuntimeError('shadows the standard library')\n")
    put("email.py", "raise RuntimeError('shadows the standard library')\n")
    put("broken.py", "def (:\n")
    for name in ("dup1.py", "dup2.py"):
        put(name, GOOD.replace("good", "dup"))
    assert project.flow("run", "a").out == '"\\"shared\\""\n'
    listed = {row.split("\t")[1].rpartition("/")[2]: row for row in project.flow("list").out.splitlines()}
    assert "SyntaxError" in listed["broken.py:1"]
    assert "dup2.py" in listed["dup1.py:3"]
    result = project.flow("run", "dup")
    assert (result.code, result.out) == (69, "")
    assert "dup1.py" in result.err
    assert "dup2.py" in result.err


def test_b59_machine_output_and_exit_code(project):
    assert project.flow("run", "prints", "--json").document["output"] == {"answer": 42}
    codes = {name: project.flow("run", name, "--no-wait", "--json").code for name in ("hello", "fails", "gated", "sleeps")}
    assert codes == {"hello": 0, "fails": 1, "gated": 8, "sleeps": 8}
    assert project.flow("reject", "@last:gated", "--json").code == 3
    assert project.flow("run", "nowhere", "--json").code == 66


def test_b60_terminal_and_input_files(project, put):
    run = project.run_id("fails")
    for env in ({"COLUMNS": "40"}, {"PYTHONIOENCODING": "ascii"}, {"NO_COLOR": "1"}):
        for arguments in (("runs",), ("list",), ("timeline", run), ("status", run), ("logs", run)):
            result = project.flow(*arguments, **env)
            assert result.code == 0
            assert "\x1b" not in result.out
        assert run in project.flow("runs", **env).out
    (project.root / "in.json").write_bytes(b'\xef\xbb\xbf{"name": "Ana"}\r\n')
    assert project.flow("run", "hello", "-i", "in.json").out == '"Hello, Ana"\n'
    assert project.flow("run", "hello", "-i", "-", stdin='{"name": "Bo"}').out == '"Hello, Bo"\n'
    for text, place in (('{"name": "a", "name": "b"}', "line 1"), ('{"name": "a"} x', "line 1, column 15")):
        (project.root / "in.json").write_text(text)
        result = project.flow("run", "hello", "-i", "in.json")
        assert (result.code, place in result.err) == (65, True), result.err


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"import nothing_like_it\n", "No module named 'nothing_like_it'"),
        (b"def (:\n", "SyntaxError"),
        (b"x = '\xff'\n", "SyntaxError"),
        (b"x = 1\0\n", "null bytes"),
    ],
    ids=["import error", "syntax error", "not UTF-8", "NUL"],
)
def test_row_44_a_file_that_cannot_be_loaded_takes_only_its_own_workflows_away(project, put, content, why):
    put("bad.py", content + GOOD.replace("good", "bad").encode())
    put("good.py", GOOD)
    result = project.flow("run", "bad")
    assert (result.code, result.out) == (69, "")
    assert why in result.err
    assert project.flow("run", "good").code == 0
    if why != "No module named 'nothing_like_it'":
        assert why in project.flow("list").out


@pytest.mark.parametrize("ending", ["raise SystemExit(0)", "raise KeyboardInterrupt", "import sys; sys.exit('bye')"])
def test_row_45_a_module_that_exits_at_import_is_a_failed_load(project, put, ending):
    put("bad.py", f"{ending}\n{GOOD.replace('good', 'bad')}")
    result = project.flow("run", "bad")
    assert (result.code, result.out) == (69, "")
    assert "bad.py:1" in result.err


def test_row_46_only_the_file_that_is_needed_is_imported_and_ctrl_c_ends_an_endless_import(project, put):
    put("ends.py", "import os\nos._exit(5)\n" + GOOD.replace("good", "ends"))
    put("loops.py", "print('begun', flush=True)\nwhile True: pass\n" + GOOD.replace("good", "loops"))
    put("good.py", GOOD)
    assert project.flow("run", "good").code == 0
    process = project.start("run", "loops")
    assert process.stderr.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_row_47_a_name_in_two_files_is_refused_naming_both(project, put):
    put("one.py", GOOD)
    put("two.py", GOOD)
    for verb in ("run", "show"):
        result = project.flow(verb, "good")
        assert result.code == 69
        assert re.search(r"one\.py:3, .*two\.py:3", result.err)


@pytest.mark.parametrize("name", ["json.py", "flow.py", "1st.py", "my-flow.py", "flowstone.py"])
def test_row_48_a_file_of_any_name_loads_and_shadows_nothing(project, put, name):
    put(name, f"import json\nassert json.dumps([1])\n{GOOD}")
    assert project.flow("run", "good").out == '"good"\n'


def test_row_49_what_a_module_prints_and_starts_at_import_changes_no_answer(project, put):
    start = "import threading\nprint('printed at import')\nthreading.Thread(target=threading.Event().wait).start()\n"
    put("good.py", start + GOOD)
    result = project.flow("run", "good")
    assert (result.code, result.out) == (0, '"good"\n')
    assert "printed at import" in result.err


def test_row_50_changed_source_stops_before_anything_is_written(project):
    run = project.run_id("pauses")
    file = project.root / "workflows" / "examples.py"
    file.write_text(file.read_text().replace('"until monday"', '"until tuesday"'))
    before = project.flow("timeline", run, "--events").out
    result = project.flow("resume", run)
    assert (result.code, result.out) == (76, "")
    assert "until monday" in result.err
    assert "until tuesday" in result.err
    assert project.flow("timeline", run, "--events").out == before


def test_row_51_an_edit_that_keeps_size_and_time_is_seen(project, put):
    file = put("good.py", GOOD)
    assert project.flow("run", "good").out == '"good"\n'
    before = file.stat()
    file.write_text(GOOD.replace("return 'good'", "return 'evil'"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert project.flow("run", "good").out == '"evil"\n'
    assert not list(project.root.rglob("*.pyc"))


def test_row_52_removed_code_leaves_the_run_untouched(project):
    run = project.run_id("pauses")
    file = project.root / "workflows" / "examples.py"
    file.write_text(file.read_text().replace("async def pauses", "async def breaks_off"))
    before = project.flow("timeline", run, "--events").out
    result = project.flow("resume", run)
    assert (result.code, 'no workflow "pauses"' in result.err) == (76, True)
    assert project.flow("timeline", run, "--events").out == before


def test_row_53_a_step_recorded_under_one_function_never_runs_another(project, put):
    body = (
        "from flowstone import Flow, workflow\ndef one(): return 1\ndef two(): return 2\n"
        "@workflow\nasync def swaps(flow: Flow):\n    await flow.do('count', one)\n    await flow.suspend('wait')\n"
    )
    file = put("swaps.py", body)
    run = project.run_id("swaps")
    file.write_text(body.replace("flow.do('count', one)", "flow.do('count', two)"))
    result = project.flow("resume", run)
    assert result.code == 76
    assert "one" in result.err
    assert "two" in result.err


def test_row_54_names_are_one_whatever_their_unicode_form_and_what_cannot_be_one_is_refused(project, put):
    put(
        "names.py",
        "from flowstone import Flow, workflow\n@workflow(name='caf\u00e9')\n"
        "async def cafe(flow: Flow, name: str = 'x'):\n    return await flow.do(name, str)\n",
    )
    assert project.flow("run", "cafe\u0301").code == 0
    for name in ("tab\there", "bell\a", ""):
        result = project.flow("run", "caf\u00e9", "-i", "-", stdin=json.dumps({"name": name}))
        assert result.code == 1
        assert "\a" not in result.err
    run = project.flow("run", "caf\u00e9", "--set", "name=a/b#c~d", "--json").document
    assert run["steps"][0]["name"] == "a/b#c~d"
    assert "/" not in run["steps"][0]["key"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", 65),
        (b'{"name": "\xff"}', 65),
        (b'{"name": NaN}', 65),
        (b'{"name": 1e999}', 65),
        (b'{"name": 1, "name": 2}', 65),
        (b'{"name": ' + b"9" * 4301 + b"}", 65),
        (b"[" * 5000 + b"]" * 5000, 65),
        (b'{"name": "\\ud800"}', 65),
        (b" " * (16 * 1024 * 1024 + 1), 65),
    ],
    ids=["empty", "not UTF-8", "NaN", "infinite", "twice", "4301 digits", "deep", "surrogate", "16 MiB"],
)
def test_row_55_an_input_file_that_is_none_is_refused_in_one_line(project, content, code):
    (project.root / "in.json").write_bytes(content)
    result = project.flow("run", "hello", "-i", "in.json")
    assert (result.code, result.out) == (code, "")
    assert "in.json" in result.err
    assert project.flow("runs", "--count").out == "0\n"


def test_row_55_what_is_no_file_is_refused(project):
    os.mkfifo(project.root / "pipe")
    for name, code in (("missing.json", 66), ("workflows", 65), ("pipe", 65)):
        result = project.flow("run", "hello", "-i", name)
        assert (result.code, name in result.err) == (code, True)
    assert project.flow("runs", "--count").out == "0\n"


def test_row_56_an_input_that_does_not_fit_lists_every_violation_by_path(project, put):
    put(
        "typed.py",
        "from flowstone import Flow, workflow\n@workflow\nasync def typed(flow: Flow, day: int, limit: int = 8): ...\n",
    )
    result = project.flow("run", "typed", "-i", "-", stdin='{"limit": "x", "dya": 1}')
    assert (result.code, result.out) == (65, "")
    lines = result.err.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["$.day", "$.limit", "$.dya"]
    assert "did you mean day?" in lines[3]
    assert project.flow("runs", "--count").out == "0\n"
