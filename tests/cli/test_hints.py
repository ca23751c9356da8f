"""Every refused command says what to type next, and what it says can be typed: the verb is there, and takes those options."""

import json
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import typer

from flowstone_cli.app import ClickUsageError, Root
from flowstone_cli.options import Options, shared_parameters
from flowstone_cli.session import Session
from flowstone_cli.typed import again, unknown_choice

MORE = """
from flowstone import Done, Flow, step, workflow

def fetch(item: str) -> str:
    return item

@workflow(name="close the month")
async def month(flow: Flow) -> str:
    return await flow.do("charge card", fetch, "x")

@workflow
async def guarded(flow: Flow) -> None:
    await flow.approval('say "yes" for $(id)', approvers="not-initiator")

@workflow
async def owned(flow: Flow) -> None:
    await flow.approval("mine", approvers="owner")

@workflow
async def scoped(flow: Flow) -> None:
    await flow.approval("theirs", scope="finance")

@workflow
async def limited(flow: Flow) -> None:
    await flow.approval("-urgent", schema=dict, expiry="1ms")

def fail(done: Done) -> None: ...
def boom() -> None:
    raise ValueError("no")

@workflow
async def undone(flow: Flow) -> None:
    await flow.do("reserve", fetch, "x", undo=fail)
    await flow.do("charge card", boom)
"""

REFUSED = [
    "stats",
    "--nope",
    "run",
    "run hello --nope",
    "run hello --set name",
    "run hello --set =1",
    "run hello --set nam=Ana",
    "run hello --wait --no-wait",
    "run hello --detach --wait",
    "run hello --start somewhere",
    "run hello -i -",
    "run hello -i - -i -",
    "run hello -i no.json",
    "run hello -i empty.json",
    "run hello -i half.json",
    "run hello -i latin.json",
    "run hello -i workflows",
    "run hello -i list.json -i ok.json",
    "run hello -i list.json --set name=x",
    "run helo",
    "run 'close the mnth'",
    "run broken",
    "run broken --json",
    "run unreadable",
    "run hello --color green",
    "run hello --key K --set name=other",
    "run fails --retries 3",
    "resume @last:hello --wait --no-wait",
    "resume @last:pauses 'until tuesday'",
    "retry @last:hello",
    "retry @last:hello --from 'greet:undo'",
    "retry @last:fails --from nothing",
    "retry @last:undone",
    "fork @last:hello",
    "fork @last:hello --from gret",
    "fork @last:undone --from reserve:undo",
    "approve @last:gated looks",
    "approve @last:gated 'looks fine'",
    "approve @last:gated '$(touch pwned) `x` \"'",
    "approve @last:gated -looks",
    "approve @last:gated ''",
    "approve @last:hello",
    "approve @last:guarded",
    "approve @last:owned --by eve",
    "approve @last:scoped",
    "approve @last:limited -- -urgent",
    "reject @last:gated manager -i no.json",
    "resolve @last:hello greet",
    "resolve @last:hello greet --failed",
    "resolve @last:hello greet --failed --retry --reason x",
    "resolve @last:hello greet --failed --reason x",
    "cancel @last:hello",
    "cancel @last:gated @last:pauses",
    "delete @last:hello",
    "delete @last:gated @last:hello",
    "prune",
    "prune --older 0ms",
    "prune --keep 0 --status done",
    "prune --older 7",
    "wait @last:hello --timeout soon",
    "audit --since yesterday",
    "status",
    "status zz",
    "status zzzzz",
    "status @first",
    "status @last~99",
    "status @waiting",
    "status key:none",
    "status 'not an id'",
    "timeline @last:hello --only slowly",
    "timeline @last:hello -f --json",
    "timeline @last:hello -f --at 3",
    "timeline @last:hello --at gret",
    "timeline @last:hello --at 99",
    "timeline @last:hello --at greet~7",
    "timeline @last:hello --at 2026-01-01T00:00:00",
    "timeline @last:hello --at 2001-01-01T00:00:00Z",
    "timeline @last:hello --from 5 --to 2",
    "state @last:hello --at 2026-99-01T00:00:00Z",
    "state @last:hello --at +soon",
    "state @last:hello --at ''",
    "state @last:fails --diff nothing",
    "diff @last:hello",
    "diff @last:hello @last:hello@gret",
    "logs @last:hello gret",
    "logs '@last:close the month' 'charge crd'",
    "logs @last:hello --stream both",
    "logs @last:hello --json --jsonl",
    "logs @last:fails -f --failed",
    "logs @last:hello --tail x",
    "output @last:hello gret",
    "output @last:gated approve:manager",
    "watch",
    "runs -s well",
    "runs --waiting-for godot",
    "runs --since yesterday",
    "runs --since 2026-01-01T00:00:00",
    "runs --min-duration long",
    "runs -n x",
    "runs --db folder",
    "runs --db text.db",
    "runs --db other.db",
    "runs --db no.db",
    "runs --db ''",
    "show helo",
    "show hello --graph svg",
    "show hello --graph dot",
    "show hello --graph mermaid --schema",
    "check nothing",
    "check @last:pauses --all",
    "export @last:hello --format csv",
    "export @last:hello -o no/where.json",
    "export @last:hello -o workflows",
    "init",
    "new my-report",
    "new class",
    "new hello",
    "backup text.db",
    "backup no/where.db",
    "db",
    "db upgrade",
    "config hide",
    "completion fish",
    "help nothing",
    "help 99",
    "worker --concurrency none",
    "recover --older soon",
]  # fmt: skip


@pytest.fixture(scope="module")
def busy(shared):
    """A project with runs of many ends, and files of many kinds."""
    root = shared.root
    (root / "workflows" / "more.py").write_text(MORE)
    (root / "workflows" / "broken.py").write_text(
        "import nowhere_to_be_found\nfrom flowstone import workflow\n\n@workflow\nasync def broken(flow): ...\n"
    )
    (root / "workflows" / "unreadable.py").write_text("def (:\n")
    (root / "flow.toml").write_text('[approvers]\nfinance = ["bob"]\n')
    (root / "empty.json").write_text("")
    (root / "half.json").write_text('{"name": ')
    (root / "list.json").write_text("[1]")
    (root / "ok.json").write_text('{"name": "Ana"}')
    (root / "latin.json").write_bytes(b'{"name": "caf\xe9"}')
    (root / "text.db").write_text("this is text, and long enough to be read as a header of a database file" * 20)
    (root / "folder").mkdir()
    with sqlite3.connect(root / "other.db") as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    for name in ("close the month", "guarded", "owned", "scoped", "limited", "undone"):
        shared.flow("run", name, "--no-wait")
    shared.flow("run", "hello", "--key", "K")
    return shared


def refuse_unless_typable(hint: str) -> None:
    """Fail if a hint that is a command of ours names a verb, an option or an argument that is not there."""
    assert "\n" not in hint
    if not hint.startswith("flow "):
        assert hint.strip()
        return
    words = shlex.split(hint)[1:]
    session = Session(Options(), words)
    root = Root(name="flow", params=shared_parameters(session.options), rich_markup_mode=None, add_help_option=False)
    if words == ["--help"] or words[-1] == "--help":
        assert words == ["--help"] or words[0] in root.list_commands(None), hint
        return
    try:
        with root.make_context("flow", words, obj=session) as context:
            name, command, rest = root.resolve_command(context, [*context._protected_args, *context.args])
            command.make_context(name, rest, parent=context).close()
    except ClickUsageError as error:
        raise AssertionError(f"{hint}: {error.format_message()}") from error
    except typer.Exit:
        pass


@pytest.mark.parametrize("line", REFUSED)
def test_a_refused_command_says_what_to_type_next(busy, line):
    shown = busy.flow(*shlex.split(line))
    if "--json" not in line:
        assert shown.code == 2 or shown.code >= 64, shown
        assert shown.out == ""
        *_, error, hint = ["", *shown.err.splitlines()]
        assert any(one.startswith("error: ") for one in shown.err.splitlines()), shown.err
        assert hint.startswith("  try: "), shown.err
        refuse_unless_typable(hint.removeprefix("  try: "))
        assert "Traceback" not in shown.err or line.startswith("run broken"), error
    document: dict[str, Any] = json.loads(busy.flow("--json", *shlex.split(line)).err.splitlines()[-1])
    assert document["schema"] == "flow.error/1"
    refuse_unless_typable(document["hint"])


def test_a_hint_never_runs_what_stands_in_a_reason(busy, tmp_path):
    reasons = ("$(touch pwned)", "`touch pwned`", '"; touch pwned; "', "a'b", "\\$x", "!!")
    for reason in reasons:
        hint = busy.flow("approve", "@last:gated", reason).err.splitlines()[-1].removeprefix("  try: ")
        assert shlex.split(hint)[-1] == reason
    assert not (busy.root / "pwned").exists()


def test_the_trace_of_a_broken_file_is_one_option_away(busy):
    hint = busy.flow("run", "unreadable").err
    assert "unreadable.py:1" in hint
    shown = busy.flow("show", "broken", "-v")
    assert "Traceback" in shown.err


def test_the_command_is_repeated_with_what_was_missing():
    assert again(["delete", "k7f"], "--yes") == "flow delete k7f --yes"
    assert again(["approve", "k7f", "--", "-ok"], "--yes") == "flow approve k7f --yes -- -ok"
    assert again(["logs", "k7f", "-f", "charge card"], without=("-f",)) == "flow logs k7f 'charge card'"


def test_an_option_that_is_nearly_right_is_put_right_in_the_whole_command(busy):
    assert busy.flow("run", "hello", "--inptu", "v.json").err.endswith("  try: flow run hello --input v.json\n")
    assert busy.flow("runs", "--limt=3").err.endswith("  try: flow runs --limit=3\n")
    assert busy.flow("run", "hello", "--inptu").err.endswith("  try: flow run --help\n")


def test_the_nearest_choice_is_offered():
    refused = unknown_choice(["runs", "-s", "faild"], "--status", "faild", ("running", "failed"))
    assert (refused.message, refused.hint) == ("--status takes running, failed; not faild", "flow runs -s failed")
    assert unknown_choice(["export", "--format=htm"], "--format", "htm", ("json", "html")).hint == "flow export --format=html"


def test_the_database_of_an_older_version_is_brought_up_to_this_one(project, tmp_path):
    project.flow("run", "hello")
    done = project.flow("db", "migrate")
    assert (done.code, done.out) == (0, f"{Path(project.root) / '.flow' / 'flow.db'}\n")
    assert project.flow("db", "migrate", "--json").document["schema"] == "flow.db/1"


@pytest.mark.parametrize(
    ("workflow", "said"),
    [
        ("guarded", "who      not ana, who started the run"),
        ("owned", "who      only ana, who started the run"),
        ("scoped", "who      only the scope finance: see [approvers] in flow.toml"),
    ],
)
def test_a_gate_says_who_may_answer(busy, workflow, said):
    assert said in busy.terminal("status", f"@last:{workflow}").out
    assert said in busy.flow("resume", f"@last:{workflow}").err
