"""The index file of names: used while it is true, rebuilt when it is not, missed by nobody."""

import json
import os

import pytest

from flowstone.authoring.names import INDEX_FORMAT, Index, index_file
from flowstone.errors import NotFound

WORKFLOW = "from flowstone import workflow\n@workflow\nasync def {name}(flow):\n    '''Doc of {name}.'''\n"


@pytest.fixture
def index(tmp_path):
    (tmp_path / "workflows").mkdir()
    (tmp_path / ".flow").mkdir()
    for name in ("one", "two"):
        (tmp_path / "workflows" / f"{name}.py").write_text(WORKFLOW.format(name=name))
    return Index(tmp_path / "workflows", index_file(tmp_path))


def kept(index):
    return json.loads(index_file(index.folder.parent).read_text())


def put(index, document):
    index_file(index.folder.parent).write_text(document if isinstance(document, str) else json.dumps(document))


def test_what_was_read_is_remembered_and_not_read_again(index):
    assert index.find("one").line == 3
    document = kept(index)
    document["files"][str(index.folder / "one.py")]["found"][0][3] = 99
    put(index, document)
    assert index.find("one").line == 99, "the file was parsed although nothing has changed"
    assert [one.doc for one in index.workflows()] == ["Doc of one.", "Doc of two."]


def test_a_changed_a_new_and_a_removed_file_are_seen(index):
    index.find("one")
    file = index.folder / "one.py"
    before = file.stat()
    file.write_text(WORKFLOW.format(name="uno"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    (index.folder / "three.py").write_text(WORKFLOW.format(name="three"))
    (index.folder / "two.py").unlink()
    assert [one.name for one in index.workflows()] == ["uno", "three"]
    assert [entry.rpartition("/")[2] for entry in kept(index)["files"]] == ["one.py", "three.py"]


def test_a_name_that_the_index_lacks_is_looked_for_in_the_files(index):
    index.find("one")
    document = kept(index)
    document["files"][str(index.folder / "one.py")]["found"] = []
    put(index, document)
    assert index.find("one").name == "one"
    with pytest.raises(NotFound):
        index.find("three")


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "nonsense",
        "[]",
        "[" * 100_000,
        json.dumps({"format": INDEX_FORMAT + 1, "files": {}}),
        json.dumps({"format": INDEX_FORMAT, "files": [1]}),
        json.dumps({"format": INDEX_FORMAT, "files": {"x": None}}),
    ],
    ids=lambda text: text[:20],
)
def test_a_broken_index_is_rebuilt(index, broken):
    put(index, broken)
    assert index.find("one").name == "one"
    assert set(kept(index)["files"]) == {str(index.folder / "one.py"), str(index.folder / "two.py")}


def test_a_broken_entry_is_rebuilt(index):
    index.find("one")
    for entry in (None, {}, {"stamp": 1}, "x"):
        document = kept(index)
        document["files"][str(index.folder / "one.py")] = entry
        put(index, document)
        assert index.find("one").name == "one"
    for found in (None, [1], [["workflow"]], [["potion", "one", "one", 1, ""]]):
        document = kept(index)
        document["files"][str(index.folder / "one.py")]["found"] = found
        put(index, document)
        assert index.find("one").line == 3


def test_without_its_folder_and_where_nothing_can_be_written_all_is_read(index):
    file = index_file(index.folder.parent)
    file.mkdir()  # nobody can write a file here, root neither
    assert index.find("one").name == "one"
    file.rmdir()
    file.parent.rmdir()
    assert index.find("one").name == "one"
    assert not file.parent.exists()


def test_running_uses_the_index_and_goes_on_without_it(project):
    project.flow("run", "hello")
    file = index_file(project.root)
    assert "hello" in file.read_text()
    file.unlink()
    assert project.flow("run", "hello").code == 0
    assert file.exists()
    file.write_bytes(b"\xff\xfe")
    assert project.flow("run", "hello").code == 0
