"""The shape of the tree: what each module's first line says, where SQL and statuses stand, and what stands nowhere."""

import ast
import re
from pathlib import Path

import pytest

from flowstone.journal.states import Status, StepStatus

ENGINE = Path(__file__).parents[2] / "engine" / "flowstone"
CLI = Path(__file__).parents[2] / "cli" / "flowstone_cli"
MODULES = sorted([*ENGINE.rglob("*.py"), *CLI.rglob("*.py")])
TOO_LONG = 400

RUNS_TEXT = {"engine/flowstone/authoring/loader.py"}
"""Where source text of the author is compiled and run: that is what loading is."""

SQL = re.compile(r"^\s*(select\s.+\sfrom|insert\s+into|update\s+\w+\s+set|delete\s+from|create\s+table|pragma\s)", re.I | re.S)


def name_of(path: Path) -> str:
    return path.relative_to(ENGINE.parents[1]).as_posix()


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=name_of)


def texts(tree: ast.Module) -> list[str]:
    """The texts in a module's code, without its docstrings."""
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
    ]


@each(MODULES)
def test_the_first_line_of_every_module_says_what_lives_here(path: Path) -> None:
    document = ast.get_docstring(ast.parse(path.read_text()))
    assert document, "no docstring"
    first = document.partition("\n")[0]
    assert len(first) > 25, first
    assert first.rstrip()[-1] in ".:`", first
    assert first[0].isupper() or first[0] in "`'\"@", first


@each(MODULES)
def test_no_file_is_so_long_that_it_hides_a_concept(path: Path) -> None:
    tree = ast.parse(path.read_text())
    overloads = sum(
        (node.end_lineno or 0) - node.lineno + 3
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)
    )
    if path.name == "store_contract.py":  # one list of rules, as long as the port is wide
        return
    assert len(path.read_text().splitlines()) - overloads <= TOO_LONG


@each([path for path in MODULES if "storage" not in path.parts and "queue" not in path.parts])
def test_there_is_no_sql_outside_of_the_storage_room(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert [text for text in texts(tree) if SQL.match(text)] == []
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not imported & {"sqlite3", "sqlite_utils"}


@each(MODULES)
def test_nothing_is_pickled_and_no_text_is_run(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert not {alias.name for alias in node.names} & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
        if isinstance(node, ast.ImportFrom):
            assert node.module not in ("pickle", "marshal", "shelve", "dill", "cloudpickle")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and name_of(path) not in RUNS_TEXT:
            assert node.func.id not in ("eval", "exec", "compile", "__import__"), f"line {node.lineno}"


STATUSES = {status.value for status in Status}
"""A step's statuses are words that attempts, gates and documents say too; a run's are told by `Status` alone."""


@each([path for path in MODULES if path.name != "states.py" and path.is_relative_to(ENGINE)])
def test_a_runs_status_is_never_compared_with_a_text(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        asked = [side.attr for side in sides if isinstance(side, ast.Attribute)]
        literal = [side.value for side in sides if isinstance(side, ast.Constant) and side.value in STATUSES]
        names = [side.value.id for side in sides if isinstance(side, ast.Attribute) and isinstance(side.value, ast.Name)]
        if "status" in asked and literal and {"run", "row", "ledger"} & set(names):
            raise AssertionError(f"line {node.lineno}: compare with Status.{literal[0].upper()}")


@each([*ENGINE.rglob("*.sql"), *(path for path in MODULES if path.parent.name == "sqlite")])
def test_the_sql_names_no_status(path: Path) -> None:
    texts_here = [path.read_text()] if path.suffix == ".sql" else texts(ast.parse(path.read_text()))
    statements = [text for text in texts_here if re.search(r"\b(select|update|insert|delete)\b", text, re.I)]
    for status in {*STATUSES, *(status.value for status in StepStatus)}:
        assert [text for text in statements if f"'{status}'" in text] == []


def test_no_module_is_named_for_being_a_drawer() -> None:
    names = {part.removesuffix(".py") for path in MODULES for part in path.relative_to(ENGINE.parents[1]).parts}
    assert not names & {"utils", "util", "helpers", "helper", "common", "misc", "manager", "service"}


def test_nothing_inside_imports_the_front_door() -> None:
    for path in ENGINE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                rooms = {entry.stem for entry in ENGINE.iterdir()}
                assert node.module != "flowstone" or {alias.name for alias in node.names} <= rooms, name_of(path)
            if isinstance(node, ast.Import):
                assert "flowstone" not in {alias.name for alias in node.names}, name_of(path)
