"""What others may read or put in our way, and what comes in from data: nothing is executed or followed, and all is private."""

import ast
import json
import os
import sqlite3
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crash import judge
from crash.shapes import SOURCE
from crash.test_values import HOSTILE, harmless
from crash.warm import REPOSITORY, Ended, Warm

Flow = Callable[..., Ended]


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    before = os.umask(0)  # the worst one, inherited by every command
    warm = Warm(tmp_path_factory.mktemp("outputs"))
    os.umask(before)
    yield warm
    warm.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "work.py").write_text(SOURCE)
    (root / "effects").touch()
    return root


@pytest.fixture
def flow(warm: Warm, root: Path) -> Flow:
    """Run a command in the project."""
    return lambda *words: warm.flow(root, *words)


# files


def test_whatever_the_umask_all_that_we_write_is_private(flow: Flow, root: Path) -> None:
    for words in (("run", "gate"), ("approve", "@last", "ok"), ("run", "three"), ("list",)):
        assert flow(*words).code in (0, 8)
    assert flow("export", "@last", "-o", "export.json").code == 0
    assert flow("backup", "copy.db").code == 0
    made = [*(root / ".flow").rglob("*"), root / "export.json", root / "copy.db"]
    for path in (root / ".flow", *made):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.name == ".gitignore":
            continue  # says nothing
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path}: {mode:o}"


def test_where_every_user_could_replace_the_database_nothing_is_written(flow: Flow, root: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    db = str(shared / "flow.db")
    shared.chmod(0o777)
    for words in (("run", "three"), ("worker", "--once")):
        refused = flow(*words, "--db", db)
        assert (refused.code, refused.out, list(shared.iterdir())) == (74, "", [])
        assert f"every user may write to {shared}, and so replace flow.db" in refused.err
        assert f"try: chmod o-w {shared}" in refused.err
    assert flow("run", "three", "--db", db, "--unsafe-fs").code == 0
    assert flow("runs", "--db", db).code == 0
    assert any(one["check"] == "rights" and one["grade"] == "failed" for one in checks(flow, db))
    shared.chmod(0o1777)
    assert flow("run", "three", "--db", db).code == 0
    shared.chmod(0o700)
    assert flow("run", "three", "--db", db).code == 0


def checks(flow: Flow, db: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(flow("doctor", "--json", "--db", db).out)["checks"]
    return found


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_database_that_others_may_read_is_told_where_it_is_written(flow: Flow, root: Path, mode: int) -> None:
    flow("run", "three")
    db = judge.database(root)
    db.chmod(mode)
    written = flow("run", "three")
    assert written.code == 0
    assert f"warning: {db} is open to other users (mode {mode:04o}): chmod 600 {db}" in written.err
    assert "open to other users" not in flow("status", "@last").err
    db.chmod(0o600)
    assert "open to other users" not in flow("run", "three").err


@pytest.mark.parametrize("name", [".flow/flow.db-lock", ".flow/flow.db-unfinished", ".flow/index.json", "export.json", "copy.db"])
def test_a_link_in_our_way_is_never_written_through(flow: Flow, root: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (root / ".flow").mkdir(mode=0o700)
    (root / name).symlink_to(victim)
    ended = [flow("run", "three"), flow("list"), flow("export", "@last", "-o", "export.json"), flow("backup", "copy.db")]
    assert {one.code for one in ended} <= {0, 2, 66, 73, 74, 77}, ended
    assert victim.read_text() == "precious"


def test_an_answer_is_recorded_with_who_gave_it_and_from_where(flow: Flow, root: Path) -> None:
    flow("run", "gate")
    assert flow("approve", "@last", "ok").code == 0
    [(_, events)] = judge.read(root)
    by = next(event.body()["by"] for event in events if event.kind == "gate.answered")
    assert by["user"] == "ana"
    assert by["uid"] == os.getuid()
    assert by["host"]
    assert {"sudo_user", "tty"} <= set(by)
    audit = json.loads(flow("audit", "@last", "--json").out)
    assert "approve" in json.dumps(audit)


# code

SOURCES = sorted([*(REPOSITORY / "engine" / "flowstone").rglob("*.py"), *(REPOSITORY / "cli" / "flowstone_cli").rglob("*.py")])
LOADER = "engine/flowstone/authoring/loader.py"
"""The one place where text becomes code: the author's own files."""
BANNED_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "jsonpickle"}
BANNED_CALLS = {"eval", "exec", "__import__", "compile"}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Each call with the last name of what it calls."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            function = node.func
            yield (
                function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else "",
                node,
            )


def test_nothing_turns_data_into_code() -> None:
    found = []
    for path in SOURCES:
        name = path.relative_to(REPOSITORY).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = {alias.name.split(".")[0] for alias in node.names} | {
                    (getattr(node, "module", None) or "").split(".")[0]
                }
                found += [f"{name}:{node.lineno}: imports {module}" for module in modules & BANNED_MODULES]
        for called, node in calls(path):
            if isinstance(node.func, ast.Name) and called in BANNED_CALLS and name != LOADER:
                found.append(f"{name}:{node.lineno}: {called}()")
            if called == "load_extension" or (called == "enable_load_extension"):
                found.append(f"{name}:{node.lineno}: {called}()")
            if any(keyword.arg == "shell" for keyword in node.keywords) or (
                called in ("system", "popen") and "os" in ast.dump(node.func)
            ):
                found.append(f"{name}:{node.lineno}: a shell")
    assert found == []


def test_a_plugin_of_sqlite_utils_is_not_let_near_the_database(root: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "evil-1.dist-info").mkdir(parents=True)
    (site / "evil-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (site / "evil-1.dist-info" / "entry_points.txt").write_text("[sqlite_utils]\nevil = evil\n")
    (site / "evil.py").write_text(
        "import sqlite_utils\n@sqlite_utils.hookimpl\ndef prepare_connection(conn):\n    open('hooked', 'w').close()\n"
    )
    rooms = [str(REPOSITORY / room) for room in ("engine", "cli")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *rooms])}
    python = [sys.executable, "-c"]
    hooked = "import sqlite3, sqlite_utils; sqlite_utils.Database(sqlite3.connect(':memory:'))"
    subprocess.run([*python, hooked], cwd=tmp_path, env=env, check=True)
    assert (tmp_path / "hooked").exists()  # so it would be called
    done = subprocess.run(
        [sys.executable, "-m", "flowstone_cli", "run", "three"], cwd=root, env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (root / "hooked").exists()


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/b", "a\\b", "..", "evil.py", "a b", "x\n", "\u202egnp"])
def test_a_name_never_becomes_a_path(flow: Flow, root: Path, tmp_path: Path, name: str) -> None:
    before = {path for path in tmp_path.rglob("*") if ".flow" not in path.parts}
    for words in (("new", name), ("run", name), ("show", name), ("export", name), ("logs", "@last", name)):
        assert flow(*words).code in (2, 66), words
    assert {path for path in tmp_path.rglob("*") if ".flow" not in path.parts} == before


# what is not to be kept

SECRETS = """
import os
from flowstone import Flow, workflow

def leaks_nothing() -> None:
    local = "s3cret-local"
    raise ValueError("broken" + local[:0])

@workflow
async def fails(flow: Flow) -> None:
    await flow.do("a", leaks_nothing, retries=0)
"""


def test_neither_local_variables_nor_the_environment_are_kept_or_shown(warm: Warm, root: Path) -> None:
    (root / "workflows" / "secrets.py").write_text(SECRETS)
    environment = {"API_TOKEN": "s3cret-in-the-environment"}
    ended = [
        warm.flow(root, *words, env=environment)
        for words in (
            ("run", "fails"),
            ("run", "fails", "--json"),
            ("run", "fails", "-v"),
            ("status", "@last", "-v"),
            ("doctor",),
        )
    ]
    assert [one.code for one in ended[:3]] == [1, 1, 1]
    (root / "flow.toml").write_text("nonsense = [")
    ended.append(warm.flow(root, "runs", "-v", env=environment))
    told = "".join(one.out + one.err for one in ended)
    assert "broken" in told
    # A traceback shows the line that raised, as it stands in the file; no value of a variable.
    kept = b"".join(path.read_bytes() for path in (root / ".flow").rglob("*") if path.is_file())
    for secret in ("s3cret-in-the-environment", "s3cret-local"):
        assert secret not in told
        assert secret.encode() not in kept


def test_no_statement_is_put_together_from_values() -> None:
    """What is executed is a constant, or a name for one; the two numbers that a pragma takes are formatted as numbers."""
    found = []
    for path in SOURCES:
        name = path.relative_to(REPOSITORY).as_posix()
        for called, node in calls(path):
            if called not in ("execute", "executemany", "rows", "for_each", "executescript") or not node.args:
                continue
            statement = node.args[0]
            if isinstance(statement, ast.JoinedStr):
                parts = [part for part in statement.values if isinstance(part, ast.FormattedValue)]
                if all(part.format_spec is not None and ast.unparse(part.format_spec).strip("f'\"") == "d" for part in parts):
                    continue
                found.append(f"{name}:{node.lineno}: {ast.unparse(statement)}")
            if isinstance(statement, ast.BinOp | ast.Call) and not ast.unparse(statement).startswith("statements."):
                found.append(f"{name}:{node.lineno}: {ast.unparse(statement)}")
    assert found == []


# a database from a stranger

READING = [
    ("runs",),
    ("status", "@last"),
    ("timeline", "@last"),
    ("timeline", "@last", "--events"),
    ("state", "@last"),
    ("output", "@last"),
    ("logs", "@last"),
    ("audit",),
    ("export", "@last"),
    ("doctor",),
]
DEEDS = {
    "a trigger that forges": "create trigger evil after insert on journal begin update runs set status = 'completed'; end",
    "a trigger that refuses": "create trigger evil before update on runs begin select raise(abort, 'no'); end",
    "a view instead of the runs": "alter table runs rename to old; create view runs as select * from old",
    "a view without end": (
        "drop table log; create view log as with recursive c(x) as (select 1 union all select x + 1 from c) "
        "select x as id, (select id from runs) as run_id, 'a' as step, 1 as attempt, 1 as at, 'out' as stream, 'x' as text from c"
    ),
    "a virtual table": "drop table audit; create virtual table audit using fts5(run_id, n, at, action, by)",
    "waiting that is no JSON": "update runs set waiting = 'x['",
    "an error that is no JSON": "update runs set error = '{', status = 'failed'",
    "waiting of another shape": "update runs set waiting = '[1, {}, null]', status = 'suspended'",
    "numbers that cannot be": "update runs set steps = -5, done = 9223372036854775807, created_at = -9223372036854775808",
    "hostile texts": "update runs set workflow = :hostile, user = :hostile, key = :hostile, current_step = :hostile",
    "a large error": """update runs set status = 'failed', error = '{"type":"E","message":"' || hex(zeroblob(9999999)) || '"}'""",
    "no events": "delete from journal",
    "a gap": "delete from journal where n = 2",
    "no first event": "delete from journal where n = 0",
    "a run without an end": "update journal set run_id = 'b00000000000' where n > 2",
}


STRANGE = [deed for deed in DEEDS if deed.startswith(("a trigger", "a view", "a virtual"))]
"""What would be executed: refused before anything is read."""


@pytest.mark.parametrize("deed", DEEDS)
def test_a_database_from_a_stranger_is_read_or_refused_and_nothing_of_it_is_obeyed(flow: Flow, root: Path, deed: str) -> None:
    assert flow("run", "three").code == 0
    with closing(sqlite3.connect(judge.database(root))) as connection:
        for statement in DEEDS[deed].split("; ") if "begin" not in DEEDS[deed] else [DEEDS[deed]]:
            connection.execute(statement, {"hostile": HOSTILE} if ":hostile" in statement else {})
        connection.commit()
    for words in READING:
        ended = flow(*words)
        harmless(ended)
        assert ended.code in (0, 1, 4, 8, 66, 74, 78), (words, ended)
        if deed in STRANGE and words != ("doctor",):
            assert (ended.code, ended.out) == (74, "")
            assert "something that no flow has put there" in ended.err


BODIES = {
    "no JSON": "{",
    "another shape": "[]",
    "other types": '{"workflow": [], "input": 1e999, "at": {}, "result": null, "kind": 7, "branch": "x", "policy": []}',
    "depth": "[" * 100_000 + "]" * 100_000,
    "nothing": "{}",
}


@pytest.mark.parametrize("kind", ["run.created", "step.started", "step.succeeded"])
@pytest.mark.parametrize("body", BODIES)
def test_forged_bodies_do_nothing_but_end_the_command(flow: Flow, root: Path, body: str, kind: str) -> None:
    assert flow("run", "three").code == 0
    text = BODIES[body]
    with closing(sqlite3.connect(judge.database(root))) as connection:
        connection.execute("update journal set body = ?, crc = ? where kind = ?", (text, zlib.crc32(text.encode()), kind))
        connection.commit()
    for words in READING:
        ended = flow(*words)
        harmless(ended)
        assert ended.code in (0, 1, 8, 66, 74, 76, 78), (words, ended)


def test_a_step_that_is_recorded_under_a_forged_function_never_runs_it(flow: Flow, root: Path) -> None:
    assert flow("run", "gate").code == 8
    with closing(sqlite3.connect(judge.database(root))) as connection:
        [(text,)] = connection.execute("select body from journal where kind = 'step.started'").fetchall()
        body: dict[str, Any] = json.loads(text) | {"function": "os.system", "input": "touch hacked"}
        forged = json.dumps(body)
        connection.execute(
            "update journal set body = ?, crc = ? where kind = 'step.started'", (forged, zlib.crc32(forged.encode()))
        )
        connection.execute("delete from journal where kind = 'step.succeeded'")
        connection.commit()
    before = (root / "effects").read_text()
    harmless(flow("resume", "@last"))
    harmless(flow("approve", "@last", "ok"))
    assert (root / "effects").read_text() == before
    assert not (root / "hacked").exists()
