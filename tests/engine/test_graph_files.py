"""Graphs in TOML and JSON files: found without importing, the same model as in Python, refused with the line of each fault."""

import json
from pathlib import Path

import pytest

from flowstone import graph, item, ref, template, trigger
from flowstone.authoring.definition import definition_of
from flowstone.errors import LoadFailed
from flowstone.graph.document import document_of
from flowstone.graph.files import library

STEPS = """
from flowstone import step
@step
def fetch(day: str) -> list: ...
@step
def shout(text: str) -> str: ...
"""

TOML = """\
name = "the report"
description = "Reads and tells."

[nodes.fetch]
run = "fetch"
input = { day = { "$trigger" = "day" } }
retries = 2
retry_delay = "1s"
next = "each"
on_error = ["late"]

[nodes.each]
run = "shout"
for_each = { "$ref" = "fetch", path = "rows" }
mode = "sequential"
input = { text = { "$template" = "$0 of $1", refs = [{ "$item" = "name" }, { "$trigger" = "day" }] } }
next = "ask"

[nodes.ask]
approval = { message = "tell?", expiry = "2h" }
next = { approved = ["nap"], rejected = [], expired = [] }

[nodes.nap]
sleep = "10m"
next = "hold"

[nodes.hold]
suspend = true

[nodes.late]
run = "shout"
notes = "never mind"

[output]
told = { "$ref" = "each" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "workflows"
    made.mkdir()
    (made / "steps.py").write_text(STEPS)
    return made


def in_python() -> object:
    return graph(
        "the report",
        description="Reads and tells.",
        nodes={
            "fetch": {
                "run": "fetch",
                "input": {"day": trigger("day")},
                "retries": 2,
                "retry_delay": "1s",
                "next": "each",
                "on_error": "late",
            },
            "each": {
                "run": "shout",
                "for_each": ref("fetch", "rows"),
                "mode": "sequential",
                "input": {"text": template("$0 of $1", item("name"), trigger("day"))},
                "next": "ask",
            },
            "ask": {"approval": {"message": "tell?", "expiry": "2h"}, "next": {"approved": "nap", "rejected": [], "expired": []}},
            "nap": {"sleep": "10m", "next": "hold"},
            "hold": {"suspend": True},
            "late": {"run": "shout", "notes": "never mind"},
        },
        output={"told": ref("each")},
    )


def test_a_file_gives_the_same_graph_and_version_as_python(folder: Path) -> None:
    (folder / "report.graph.toml").write_text(TOML)
    here = library(folder, folder.parent)
    assert here.names() == {"the report"}
    loaded, written = here.load("the report"), in_python()
    assert document_of(loaded.model) == document_of(written.model)  # type: ignore[attr-defined]
    assert definition_of(loaded) is not None
    assert here.version("the report") == definition_of(written).version  # type: ignore[union-attr]


def test_what_is_stored_with_a_version_is_a_file_too(folder: Path) -> None:
    version = definition_of(in_python()).version  # type: ignore[union-attr]
    assert version is not None
    (folder / "report.graph.json").write_text(version.source)
    assert library(folder, folder.parent).version("the report") == version


def test_a_file_is_listed_by_its_name_or_the_files_own(folder: Path) -> None:
    (folder / "plain.graph.json").write_text(json.dumps({"description": "Does it.\nReally.", "nodes": {"a": {"run": "fetch"}}}))
    (folder / "broken.graph.toml").write_text("[nodes\n")
    entries = {entry.file.name: (entry.name, entry.doc, bool(entry.error)) for entry in library(folder, folder.parent).entries()}
    assert entries == {"plain.graph.json": ("plain", "Does it.", False), "broken.graph.toml": (None, "", True)}


def test_every_fault_of_a_file_is_told_with_its_line(folder: Path) -> None:
    file = folder / "wrong.graph.toml"
    file.write_text(
        '[nodes.a]\nrun = "fetch"\nnext = "c"\n\n[nodes."b x"]\nsleep = 5\n\n[nodes.d]\nrun="x"\ninput = { "$ref" = 1 }\n'
    )
    with pytest.raises(LoadFailed) as refused:
        library(folder, folder.parent).load("wrong")
    assert [line.partition("wrong.graph.toml:")[2] for line in refused.value.details] == [
        '5: nodes.b x.sleep: 5 could be seconds or milliseconds: write "5s" or "5ms"',
        '8: nodes.d.input: $ref is not as it should be: write {"$ref": "node", "path": "a.b"}',
        '1: nodes.a.next: there is no node "c"',
    ]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.graph.json", '{"nodes": {"a": {"run": "x"}, "a": {"run": "y"}}}', 'the key "a" is there twice'),
        ("a.graph.json", "[]", "a graph has an object"),
        ("a.graph.toml", 'nods = 1\n[nodes.a]\nrun = "x"', "this one has nods"),
        ("a.graph.toml", "nodes = 3", "a graph has an object"),
    ],
)
def test_a_file_that_holds_no_graph_is_refused(folder: Path, name: str, text: str, told: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(LoadFailed, match=told):
        library(folder, folder.parent).load("a")


def test_a_graph_in_python_that_is_wrong_is_refused_when_it_is_loaded_with_every_fault(folder: Path) -> None:
    lines = ["from flowstone import graph", 'wrong = graph("wrong", nodes={']
    text = "\n".join([*lines, ' "a": {"run": "fetch", "next": "b"},', ' "c": {"sleep": "x"}})', ""])
    (folder / "wrong.py").write_text(text)
    with pytest.raises(LoadFailed) as refused:
        library(folder, folder.parent).load("wrong")
    details = "\n".join(refused.value.details)
    assert 'wrong.py:3: nodes.a.next: there is no node "b"' in details
    assert "wrong.py:4: nodes.c.sleep: 'x' is no duration" in details


def test_the_room_and_the_function_of_one_name_do_not_hide_each_other() -> None:
    import flowstone
    import flowstone.graph.files  # its import puts the room into the package

    assert callable(flowstone.graph)
