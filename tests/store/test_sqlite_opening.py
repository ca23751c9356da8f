"""Opening database files, and refusing what is none of ours."""

import os
import pwd
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowstone.errors import NotAllowed, NotFound, StorageFailed
from flowstone.ports import Filter
from flowstone.storage.sqlite.failures import whose_is
from flowstone.storage.sqlite.opening import Mode, connect
from flowstone.storage.sqlite.paths import beside
from flowstone.storage.sqlite.store import SqliteStore
from flowstone.testing.store_fixtures import CREATED, SetClock, new_run

from .conftest import Answer


def opened(path: Path | str, mode: Mode = "create") -> SqliteStore:
    return SqliteStore(path, SetClock(), mode=mode)


def made(path: Path) -> Path:
    store = opened(path)
    store.create(new_run(), [CREATED])
    store.close()
    return path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def beyond_permissions() -> tuple[str, ...]:
    """What to put before a program so that file permissions hold for it, also as root."""
    if os.geteuid() != 0:
        return ()
    if not shutil.which("setpriv"):
        pytest.skip("root ignores file permissions, and there is no setpriv to give that up")
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_everything_is_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ".flow" / "flow.db"
    store = opened(path)
    store.create(new_run(), [CREATED])
    files = {entry.name: mode_of(entry) for entry in path.parent.iterdir() if entry.name != ".gitignore"}
    assert files == dict.fromkeys(["flow.db", "flow.db-wal", "flow.db-shm", "flow.db-lock"], 0o600)
    assert mode_of(path.parent) == mode_of(path.parent.parent) == 0o700
    store.close()


def test_a_flow_folder_that_we_make_stays_out_of_version_control(tmp_path: Path) -> None:
    made(tmp_path / ".flow" / "flow.db")
    assert (tmp_path / ".flow" / ".gitignore").read_text() == "*\n"
    made(tmp_path / "elsewhere" / "flow.db")
    assert not (tmp_path / "elsewhere" / ".gitignore").exists()
    (tmp_path / "own" / ".flow").mkdir(parents=True)
    made(tmp_path / "own" / ".flow" / "flow.db")
    assert not (tmp_path / "own" / ".flow" / ".gitignore").exists()


def test_nothing_is_left_beside_a_closed_database_but_its_lock(path: Path) -> None:
    made(path)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["flow.db", "flow.db-lock"]


def test_an_empty_file_is_made_a_database_by_create_only(path: Path) -> None:
    path.touch()
    with pytest.raises(NotFound, match="is empty: it holds no runs"):
        opened(path, "write")
    with pytest.raises(NotFound, match="is empty: it holds no runs"):
        opened(path, "read")
    made(path)


@pytest.mark.parametrize("mode", ["write", "read"])
def test_only_create_makes_a_file(tmp_path: Path, mode: Mode) -> None:
    with pytest.raises(NotFound, match="there is no database at") as refusal:
        opened(tmp_path / "none" / "flow.db", mode)
    assert "flow run" in str(refusal.value.hint)
    assert list(tmp_path.iterdir()) == []


def text_file(path: Path) -> None:
    path.write_text("hello, this is a text file and no database at all\n" * 40)


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table t (x)")
    connection.close()


def newer_database(path: Path) -> None:
    made(path)
    connection = sqlite3.connect(path)
    connection.execute("pragma user_version = 99")
    connection.close()


def damaged_database(path: Path) -> None:
    made(path)
    with path.open("r+b") as file:
        file.truncate(4096 + 100)


def damaged_header(path: Path) -> None:
    made(path)
    with path.open("r+b") as file:
        file.seek(16)
        file.write(b"\xff" * 60)


@pytest.mark.parametrize("mode", ["create", "write", "read"])
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (Path.mkdir, "is a folder, not a database"),
        (os.mkfifo, "is not an ordinary file"),
        (text_file, "is not a database"),
        (foreign_database, "is a database of another program"),
        (newer_database, "has schema version 99, this flow knows 1"),
        (damaged_header, "is not a database"),
    ],
)
def test_what_is_no_database_of_ours_is_refused_with_its_own_sentence(
    path: Path, make: object, sentence: str, mode: Mode
) -> None:
    assert callable(make)
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StorageFailed, match=sentence) as refusal:
        opened(path, mode)
    assert refusal.value.hint
    assert "\n" not in refusal.value.message
    assert before is None or path.read_bytes() == before


def test_a_cut_off_file_is_said_to_be_damaged(path: Path) -> None:
    damaged_database(path)
    with pytest.raises(StorageFailed, match="is damaged"):
        opened(path, "read")


@pytest.mark.parametrize("mode", ["create", "write", "read"])
@pytest.mark.parametrize(("path", "sentence"), [("", "is empty"), ("a\0b", "is no path"), ("x" * 300, "too long")])
def test_impossible_paths_are_refused(path: str, sentence: str, mode: Mode) -> None:
    with pytest.raises(StorageFailed, match=sentence):
        opened(path, mode)


@pytest.mark.parametrize(
    "name", ["a b.db", "☃.db", "a?mode=memory", "a#b", "100%.db", "it's;.db", "new\nline", "-x", "caf\udce9.db"]
)
def test_every_name_of_a_file_works(tmp_path: Path, name: str) -> None:
    made(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 0
    for mode in ("write", "read"):
        store = opened(tmp_path / name, mode)  # type: ignore[arg-type]
        assert store.count(Filter()) == 1
        store.close()


def test_a_symbolic_link_is_followed_once(tmp_path: Path, path: Path) -> None:
    made(path)
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    store = opened(link, "write")
    store.create(new_run("b00000000000"), [CREATED])
    assert store.path == path
    store.close()
    assert [entry.name for entry in link.parent.iterdir()] == ["link.db"]


def test_a_lock_file_that_is_a_link_is_refused(path: Path, tmp_path: Path) -> None:
    beside(path, "-lock").symlink_to(tmp_path / "victim")
    with pytest.raises(StorageFailed):
        opened(path)
    assert not (tmp_path / "victim").exists()


def test_the_settings_are_those_that_were_measured(path: Path) -> None:
    made(path)
    connection = connect(path, "rw")
    pragmas = [
        "journal_mode",
        "foreign_keys",
        "trusted_schema",
        "cell_size_check",
        "journal_size_limit",
        "busy_timeout",
        "mmap_size",
    ]
    found = {name: connection.execute(f"pragma {name}").fetchall()[0][0] for name in pragmas}
    assert list(found.values()) == ["wal", 1, 0, 1, 16 * 1024 * 1024, 10_000, 0]
    assert connection.execute("select count(*) from meta where name = 'db_uuid' and length(value) = 32").fetchall() == [(1,)]
    plain = "select count(*) from pragma_table_list where schema = 'main' and name not like 'sqlite%' and not strict"
    assert connection.execute(plain).fetchall() == [(0,)]
    connection.close()


def test_a_database_without_wal_is_put_back_into_it(path: Path) -> None:
    made(path)
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode = delete")
    connection.close()
    opened(path, "write").close()
    connection = sqlite3.connect(path)
    assert connection.execute("pragma journal_mode").fetchall() == [("wal",)]
    connection.close()


# reading


def test_a_store_opened_to_be_read_refuses_to_write(path: Path) -> None:
    store = opened(made(path), "read")
    assert store.run("a00000000000").events == 1
    with pytest.raises(NotAllowed, match="only to be read"):
        store.create(new_run("b00000000000"), [CREATED])
    store.close()


def test_a_reader_sees_what_a_writer_writes_meanwhile(path: Path) -> None:
    writer = opened(path)
    reader = opened(path, "read")
    writer.create(new_run(), [CREATED])
    assert reader.changed()
    assert reader.count(Filter()) == 1
    reader.close()
    writer.close()


def test_a_copied_file_can_be_read_alone(tmp_path: Path, path: Path) -> None:
    made(path)
    copy = tmp_path / "copy" / "flow.db"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    store = opened(copy, "read")
    assert store.count(Filter()) == 1
    store.close()


READS = """
import sys
from flowstone.clock import SystemClock
from flowstone.errors import FlowError
from flowstone.ports import Filter
from flowstone.storage.sqlite.store import SqliteStore
try:
    print(SqliteStore(sys.argv[1], SystemClock(), mode=sys.argv[2]).count(Filter()))
except FlowError as error:
    print(error.kind, error.message)
"""


def test_a_file_in_a_read_only_folder_can_be_read(path: Path, answer: Answer) -> None:
    made(path)
    path.parent.chmod(0o500)
    try:
        assert answer(READS, path, "read", prefix=beyond_permissions()) == "1\n"
        assert sorted(entry.name for entry in path.parent.iterdir()) == ["flow.db", "flow.db-lock"]
    finally:
        path.parent.chmod(0o700)


def test_newer_rows_beside_a_file_in_a_read_only_folder_are_explained(tmp_path: Path, path: Path, answer: Answer) -> None:
    store = opened(path)
    store.create(new_run(), [CREATED])
    copy = tmp_path / "copy" / "flow.db"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    shutil.copy(beside(path, "-wal"), beside(copy, "-wal"))
    store.close()
    copy.parent.chmod(0o500)
    try:
        assert "its newest rows are in flow.db-wal" in answer(READS, copy, "read", prefix=beyond_permissions())
    finally:
        copy.parent.chmod(0o700)


def test_files_without_permission_are_told_apart(path: Path, answer: Answer) -> None:
    made(path)
    path.chmod(0o400)
    owner = f"{path} belongs to {pwd.getpwuid(path.stat().st_uid).pw_name}"
    read_only = answer(READS, path, "write", prefix=beyond_permissions())
    assert read_only.startswith("not_allowed ")
    assert owner in read_only
    path.chmod(0)
    assert f"may not be read by this user: {owner}" in answer(READS, path, "read", prefix=beyond_permissions())


def test_whose_a_path_is_that_cannot_even_be_seen(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "such" / "flow.db"
    assert whose_is(missing) == f"{tmp_path} belongs to {pwd.getpwuid(tmp_path.stat().st_uid).pw_name}"


LOADED = """
import sys
from flowstone.clock import SystemClock
from flowstone.ports import Filter
from flowstone.storage.sqlite.owners import OwnerFiles
from flowstone.storage.sqlite.store import SqliteStore
for mode in ("read", "write", "create"):
    store = SqliteStore(sys.argv[1], SystemClock(), mode=mode)
    assert store.runs(Filter())
    store.close()
OwnerFiles(sys.argv[1]).life("nobody")
print(*sorted({"sqlite_utils", "pydantic", "asyncio", "pip", "click"} & set(sys.modules)))
"""


def test_opening_an_existing_database_loads_nothing_heavy(path: Path, answer: Answer) -> None:
    made(path)
    assert answer(LOADED, path) == "\n"
