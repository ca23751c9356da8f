"""stdout carries the answer and nothing else, whatever the surroundings."""

import json

import pytest

SURROUNDINGS = [
    {},
    {"CI": "true"},
    {"TERM": "dumb"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "cp1252"},
    {"COLUMNS": "20"},
    {"FORCE_COLOR": "1"},
    {"GITHUB_ACTIONS": "true"},
    {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
]
READING = [
    ("status", "@last:fails"),
    ("timeline", "@last:fails"),
    ("timeline", "@last:fails", "--at", "3"),
    ("timeline", "@last:fails", "--events"),
    ("state", "@last:fails"),
    ("output", "@last:fails"),
    ("runs",),
    ("runs", "--count"),
    ("list",),
    ("version",),
    ("state", "@last:fails", "--diff", "0"),
    ("audit",),
    ("config",),
    ("check",),
    ("doctor",),
    ("show", "hello"),
    ("logs", "@last:fails"),
    ("diff", "@last:fails@1", "@last:fails"),
    ("export", "@last:fails"),
    ("prune", "--older", "1d", "--dry-run"),
    ("help", "ids"),
    ("completion", "bash"),
]


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_json_is_one_document_with_a_schema(shared, arguments):
    result = shared.flow(*arguments, "--json")
    assert result.document["schema"].startswith("flow.")
    assert shared.flow("--json", *arguments).document["schema"] == result.document["schema"]


@pytest.mark.parametrize("env", SURROUNDINGS, ids=str)
def test_json_is_the_same_in_every_surrounding(shared, env):
    for arguments in (("status", "@last:fails"), ("timeline", "@last:fails")):
        result = shared.flow(*arguments, "--json", **env)
        assert result.code == 0
        assert "\x1b" not in result.out
        assert result.document == shared.flow(*arguments, "--json").document


@pytest.mark.parametrize("env", SURROUNDINGS, ids=str)
def test_what_steps_print_never_reaches_stdout(project, env):
    result = project.flow("run", "prints", **env)
    assert (result.code, result.out) == (0, '{"answer":42}\n')
    for word in ("from print", "from os.write", "from a child", "from C", "from stderr"):
        assert result.err.count(word) == 1
    assert project.flow("run", "prints", "--json", **env).document["output"] == {"answer": 42}


def test_what_steps_print_is_marked_on_a_terminal_and_silent_under_q(project):
    shown = project.terminal("run", "prints").out
    assert "│ noisy: from print\n" in shown
    assert "from" not in project.flow("run", "prints", "-q").err


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_nothing_from_data_is_obeyed_by_a_terminal(shared, arguments):
    piped = shared.flow(*arguments).out
    shown = shared.terminal(*arguments, NO_COLOR="1").out
    for text in (piped, shown):
        assert not any(char in text for char in "\x1b\x9b\u202e\r")
        assert not text or text.endswith("\n")


def test_what_was_made_visible_can_be_found(shared):
    events = shared.flow("timeline", "@last:fails", "--events").out
    assert all(text in events for text in ("\\u001b[31mred", "\\u202e", "[/tmp] [retry]"))
    assert "ValueError: no \\x1b[31mred\\x1b[0m <U+202E>\\x9b here [/tmp] [retry]" in shared.flow("timeline", "@last:fails").out


def test_piped_text_is_tab_separated_with_whole_ids(shared):
    lines = shared.flow("runs").out.splitlines()
    assert len(lines) == 5
    for line in lines:
        fields = line.split("\t")
        assert len(fields) == 9
        assert len(fields[0]) == 12
        assert line == line.rstrip()
    for line in shared.flow("timeline", "@last:fails").out.splitlines():
        assert len(line.split("\t")) == 10


def test_q_says_only_what_went_wrong(project):
    assert project.flow("run", "hello", "-q").err == ""
    assert "error    ValueError" in project.flow("run", "fails", "-q").err


def test_progress_in_a_pipe_is_one_line_per_event(project):
    lines = project.flow("run", "gated").err.splitlines()
    words = [line.split(" ", 1)[1] for line in lines if line[0].isdigit()]
    assert words[0] == "run created workflow=gated"
    assert words[1].startswith("approve:manager waiting expires=2")
    assert words[-1].startswith("run waiting id=")
    assert 'exit=8 next="flow approve' in words[-1]


def test_every_ending_but_success_names_the_next_command(project):
    for workflow in ("gated", "sleeps", "pauses", "fails"):
        assert "  next     flow " in project.flow("run", workflow, "--no-wait").err
    assert "next" not in project.flow("run", "hello").err


def test_errors_do_not_go_to_stdout_and_end_with_something_to_type(project):
    result = project.flow("status", "zzz")
    assert (result.code, result.out) == (66, "")
    assert result.err.startswith("error: ")
    assert result.err.splitlines()[-1].startswith("  try: flow ")


def test_output_is_raw_on_request(project):
    project.flow("run", "hello")
    assert project.flow("output", "@last").out == '"Hello, you"\n'
    assert project.flow("output", "@last", "--raw").out == "Hello, you"
    assert project.flow("output", "@last", "greet").out == '"Hello, you"\n'
    assert project.flow("output", "@last", "nope").code == 66
    project.flow("run", "fails")
    assert (project.flow("output", "@last").code, project.flow("output", "@last").out) == (1, "")


def test_a_broken_stderr_does_not_stop_the_run(project):
    result = project.shell("{ flow run hello 2>&1 >answer | :; }; cat answer")
    assert json.loads(result.out) == "Hello, you"


def test_no_traceback_unless_asked_for(project):
    (project.root / "workflows" / "broken.py").write_text(
        "raise ValueError('at import')\nfrom flowstone import workflow\n\n@workflow\nasync def broken(flow): ...\n"
    )
    assert "Traceback" not in project.flow("run", "broken").err
    assert "Traceback" in project.flow("run", "broken", "-v").err
