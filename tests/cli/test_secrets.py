"""Values of fields that look like secrets are shown only with --reveal; the output itself is printed as it is."""

import pytest

HUSH = "hush-4711"
WORKFLOW = """
from flowstone import Flow, workflow

HUSH = "-".join(["hush", "4711"])  # the source is exported too

def log_in(user: dict) -> dict:
    return {"access_token": HUSH, "iban": "-".join(["DE", "iban"]), "ok": True}

@workflow
async def secretive(flow: Flow, user: dict) -> dict:
    got = await flow.do("log in", log_in, user)
    await flow.set_state("api_token", HUSH)
    return got
"""
LOOKS = [
    ("status",), ("state",), ("state", "--at", "1", "--diff", "0"), ("timeline",), ("timeline", "--events"),
    ("timeline", "--at", "-1"), ("timeline", "--jsonl"), ("export",), ("logs",),
]  # fmt: skip


@pytest.fixture
def secretive(project):
    (project.root / "workflows" / "secretive.py").write_text(WORKFLOW)
    (project.root / "flow.toml").write_text('secrets = ["iban"]\n')
    (project.root / "in.json").write_text(f'{{"user": {{"name": "ana", "password": "{HUSH}"}}}}')
    result = project.flow("run", "secretive", "-i", "in.json")
    assert HUSH in result.out  # the answer itself
    assert HUSH not in result.err
    return project


def test_nothing_that_is_shown_holds_a_secret_unless_it_is_asked_for(secretive):
    for verb, *more in LOOKS:
        for form in ((), ("--json",)) if "--jsonl" not in more else ((),):
            shown = secretive.flow(verb, "@last", *more, *form)
            assert shown.code == 0, shown
            assert HUSH not in shown.out + shown.err
            assert "DE-iban" not in shown.out + shown.err
        assert HUSH not in secretive.terminal(verb, "@last", *more).out
    assert HUSH in secretive.flow("status", "@last", "--reveal").out
    assert HUSH in secretive.flow("--reveal", "export", "@last").out
    assert HUSH in secretive.flow("timeline", "@last", "--json", "--reveal").out


def test_what_is_not_secret_stays(secretive):
    document = secretive.flow("status", "@last", "--json").document
    assert document["input"]["user"] == {"name": "ana", "password": "•••"}
    assert document["output"] == {"access_token": "•••", "iban": "•••", "ok": True}
    assert document["state"] == {"api_token": "•••"}


def test_the_output_is_printed_as_it_is(secretive):
    assert HUSH in secretive.flow("output", "@last").out
    assert HUSH in secretive.flow("output", "@last", "log in").out


def test_help_says_so(project):
    assert "--reveal" in project.flow("help", "json").out
    assert "--reveal" in project.flow("status", "--help").out
    hidden = project.flow("config", "--json").document["hidden"]
    assert {"*password*", "*api_key*", "*token*"} <= set(hidden)
    for place in (project.flow("help", "json").out, project.terminal("config").out):
        assert [pattern for pattern in hidden if pattern not in place.replace("\n", " ")] == []
