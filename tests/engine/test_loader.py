"""Finding workflows without importing, and loading one file at a time. Each load runs in a process of its own."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowstone.authoring.names import Index, Kind, scan
from flowstone.errors import LoadFailed, NotFound

WORKFLOW = (
    "from flowstone import workflow\n\n@workflow\nasync def {name}(flow):\n    '''Doc of {name}.'''\n    return {value!r}\n"
)

Write = Callable[..., Path]
Try = Callable[[str], Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project" / "workflows"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def write(folder: Path) -> Write:
    def write(name: str, text: str | bytes) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        return path

    return write


@pytest.fixture
def run(folder: Path) -> Try:
    """Run lines in a fresh Python that has a `library` on the folder; what they `show` comes back."""

    def run(lines: str) -> Any:
        program = (
            "import json, sys\nfrom pathlib import Path\nfrom flowstone.authoring.loader import Library\n"
            "from flowstone.errors import FlowError, LoadFailed, NotFound\n"
            f"folder = Path({str(folder)!r})\nlibrary = Library(folder, folder.parent)\n"
            "def show(*values): print(json.dumps(values))\n"
            "def result(function):\n"
            "    try: function(None).send(None)\n"
            "    except StopIteration as end: return end.value\n"
            "def refused(name):\n"
            "    try: library.load(name)\n"
            "    except FlowError as e: return [type(e).__name__, e.message, e.hint, list(e.details)]\n"
        ) + textwrap.dedent(lines)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


# finding


def test_names_are_read_from_the_source_whatever_the_decorators_are_called(write: Write) -> None:
    path = write(
        "a.py",
        '''
        raise SystemExit("nobody imports this")
        import flowstone
        import flowstone as f
        from flowstone import graph as g, step, workflow as w
        from flowstone.authoring.definition import workflow

        @workflow
        async def one(flow):
            """First line.

            Second."""

        @w(name="two-named", tags=["x"])
        def two(flow): ...

        @flowstone.workflow(description="Told.\\nMore.")
        async def three(flow):
            """Not this."""

        if True:
            @f.workflow()
            async def four(flow): ...

        five = g("the graph", nodes={}, description="Drawn.")

        @step
        def charge(order): ...

        @other.workflow
        def no(flow): ...

        def outer():
            @workflow
            def neither(flow): ...
        ''',
    )
    found = scan(path)
    assert found.error is None
    assert [(one.name, one.attribute, one.doc) for one in found.workflows] == [
        ("one", "one", "First line."),
        ("two-named", "two", ""),
        ("three", "three", "Told."),
        ("four", "four", ""),
        ("the graph", "five", "Drawn."),
    ]
    assert found.workflows[4].kind is Kind.GRAPH
    assert [(one.name, one.line) for one in found.steps] == [("charge", 28)]


@pytest.mark.parametrize(
    ("data", "error", "line"),
    [
        (b"x = 1\ndef (:\n", "SyntaxError: invalid syntax", 2),
        (b"x = 1\n\ny = '\xff'\n", "SyntaxError: (unicode error) 'utf-8' codec", None),
        (b"x = 1\0\n", "null bytes", None),
        (b"x = " + b"(" * 5000 + b")" * 5000, "", None),
    ],
)
def test_a_file_that_cannot_be_parsed_says_why_and_hides_no_other(
    write: Write, folder: Path, data: bytes, error: str, line: int | None
) -> None:
    write("broken.py", data)
    write("good.py", WORKFLOW.format(name="good", value=1))
    assert Index(folder).find("good").file == folder / "good.py"
    broken, good = Index(folder).entries()
    assert (good.name, good.error, good.doc) == ("good", None, "Doc of good.")
    assert broken.name is None
    assert broken.error is not None
    assert error in broken.error
    assert line is None or broken.line == line


def test_an_unknown_name_is_answered_with_near_ones_and_the_broken_files(write: Write, folder: Path) -> None:
    write("broken.py", "def (:\n")
    write("good.py", WORKFLOW.format(name="checkout", value=1))
    with pytest.raises(NotFound) as caught:
        Index(folder).find("chekout")
    assert caught.value.message.endswith('; did you mean "checkout"?')
    assert caught.value.hint == "flow show checkout"
    assert caught.value.details == (f"{folder}/broken.py:1: SyntaxError: invalid syntax",)


def test_a_missing_folder_has_no_workflows(tmp_path: Path) -> None:
    index = Index(tmp_path / "none")
    assert index.workflows() == []
    with pytest.raises(NotFound, match="no workflow"):
        index.find("x")


@pytest.mark.parametrize("second", ["dup1.py", "dup2.py"])
def test_a_name_defined_twice_is_refused_naming_both_places(write: Write, folder: Path, second: str) -> None:
    text = WORKFLOW.format(name="dup", value=1)
    write("dup1.py", text * 2 if second == "dup1.py" else text)
    if second != "dup1.py":
        write(second, text)
    write("other.py", WORKFLOW.format(name="other", value=1))
    line = 10 if second == "dup1.py" else 4
    with pytest.raises(LoadFailed) as caught:
        Index(folder).find("dup")
    assert f"{folder}/dup1.py:4, {folder}/{second}:{line}" in caught.value.message
    assert Index(folder).find("other").name == "other"
    errors = [entry.error for entry in Index(folder).entries() if entry.name == "dup"]
    assert errors == [f"also defined in {folder}/{second}:{line}", f"also defined in {folder}/dup1.py:4"]


def test_private_and_hidden_files_define_no_names_and_packages_do(write: Write, folder: Path) -> None:
    for name in ("_private.py", ".hidden.py", "plain/inner.py", "notes.txt"):
        write(name, WORKFLOW.format(name="hidden", value=1))
    write("pack/__init__.py", WORKFLOW.format(name="packed", value=1))
    write("pack/inner.py", WORKFLOW.format(name="inner", value=1))
    assert [one.name for one in Index(folder).workflows()] == ["packed"]


def test_names_are_compared_in_one_unicode_form(write: Write, folder: Path, run: Try) -> None:
    write("a.py", "from flowstone import workflow\n@workflow(name='caf\\u0065\\u0301')\nasync def a(flow): return 1\n")
    assert Index(folder).find("caf\u00e9").attribute == "a"
    assert run("show(result(library.load('caf\\u00e9')), result(library.load('cafe\\u0301')))") == [1, 1]


# loading


@pytest.mark.parametrize("stem", ["json", "cli", "engine", "email", "flow", "flowstone", "1st", "my-flow", "für", "class"])
def test_a_file_of_any_name_loads_and_shadows_nothing(write: Write, run: Try, stem: str) -> None:
    write(f"{stem}.py", "import json\nDUMPS = json.dumps\n" + WORKFLOW.format(name="it", value=3))
    found = run(
        """
        function = library.load("it")
        import email, json, flowstone.errors
        show(result(function), function.__module__, str(folder) in sys.path, json.dumps([]), email.__file__)
        """
    )
    assert found[:4] == [3, f"flowstone_workflows.{stem}", False, "[]"]
    assert "project" not in found[4]


def test_a_dot_in_a_file_name_is_refused_with_the_reason(write: Write, folder: Path) -> None:
    write("a.b.py", WORKFLOW.format(name="it", value=3))
    assert [entry.error for entry in Index(folder).entries()] == ["a module's name has no dot: rename the file"]


def test_siblings_packages_and_the_projects_own_modules_import(write: Write, folder: Path, run: Try) -> None:
    write("_util.py", "VALUE = 1\n")
    write("more.py", "from ._util import VALUE\nMORE = VALUE + 1\n")
    write("lib/deep.py", "from ..more import MORE\nDEEP = MORE + 1\n")
    (folder.parent / "shop").mkdir()
    (folder.parent / "shop" / "__init__.py").write_text("NAME = 'shop'\n")
    write(
        "a.py",
        """
        from flowstone import step, workflow
        from . import _util, more
        from ._util import VALUE
        from .lib.deep import DEEP
        from .lib import deep
        from shop import NAME

        @workflow
        async def it(flow):
            from .lib.deep import DEEP as again
            return [VALUE, more.MORE, DEEP, deep.DEEP, again, NAME]

        @step(name="charge card")
        def charge(): return "charged"
        """,
    )
    assert run('show(result(library.load("it")), library.step("charge card")(), sys.path[-1])') == [
        [1, 2, 3, 3, 3, "shop"],
        "charged",
        str(folder.parent),
    ]


def test_only_the_file_that_is_needed_is_imported(write: Write, run: Try) -> None:
    write("bad.py", "import os\nos._exit(7)\n" + WORKFLOW.format(name="bad", value=1))
    write("worse.py", "while True: pass\n")
    write("broken.py", "def (:\n")
    write("good.py", WORKFLOW.format(name="good", value=5))
    assert run('show(result(library.load("good")), [entry.name for entry in library.entries()], sorted(library.names()))') == [
        5,
        ["bad", None, "good"],
        ["bad", "good"],
    ]


def test_an_edit_of_the_same_size_and_time_is_seen_and_no_pyc_is_written(write: Write, folder: Path, run: Try) -> None:
    path = write("a.py", WORKFLOW.format(name="it", value=1))
    os.utime(path, (1_000_000, 1_000_000))
    assert run('show(result(library.load("it")))') == [1]
    write("a.py", WORKFLOW.format(name="it", value=2))
    os.utime(path, (1_000_000, 1_000_000))
    assert run('show(result(library.load("it")))') == [2]
    assert not list(folder.rglob("*.pyc"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("from json import nothing", "ImportError: cannot import name 'nothing' from 'json'"),
        ("from ._broken import x", "SyntaxError: invalid syntax"),
        ("from .nowhere import x", "there is no nowhere.py in"),
    ],
)
def test_a_failing_import_is_refused_with_file_line_and_reason(
    write: Write, folder: Path, run: Try, line: str, reason: str
) -> None:
    write("_broken.py", "x = 1\ndef (:\n")
    write("a.py", f"import json\n{line}\n" + WORKFLOW.format(name="it", value=1))
    kind, message, _, _ = run('show(*refused("it"))')
    place = f"{folder}/_broken.py:2" if "_broken" in line else f"{folder}/a.py:2"
    assert kind == "LoadFailed"
    assert message.startswith(f'cannot load the workflow "it": {place}: {reason}')


def test_a_failure_further_in_names_the_line_of_the_workflow_and_the_place(write: Write, folder: Path, run: Try) -> None:
    (folder.parent / "shop.py").write_text("x = 1\n1 / 0\n")
    write("a.py", "import shop\n" + WORKFLOW.format(name="it", value=1))
    _, message, _, details = run('show(*refused("it"))')
    assert f"{folder}/a.py:1: ZeroDivisionError" in message
    assert details == [f"raised at {folder.parent}/shop.py:2"]


def test_a_missing_module_names_the_interpreter_and_the_cure(write: Write, run: Try) -> None:
    write("a.py", "import surely_missing.part\n" + WORKFLOW.format(name="it", value=1))
    _, message, hint, _ = run('show(*refused("it"))')
    assert f"No module named 'surely_missing' (searched by {sys.executable})" in message
    assert hint == f"{sys.executable} -m pip install surely_missing"


def test_a_sibling_imported_without_a_dot_is_told_how(write: Write, run: Try) -> None:
    write("rates.py", "x = 1\n")
    write("a.py", "from rates import x\n" + WORKFLOW.format(name="it", value=1))
    assert run('show(refused("it")[2])') == ["from .rates import ..."]


def test_a_decorator_that_refuses_its_arguments_is_a_failed_load_with_its_hint(write: Write, folder: Path, run: Try) -> None:
    write("a.py", "from flowstone import workflow\n@workflow\nasync def it(): ...\n")
    kind, message, hint, _ = run('show(*refused("it"))')
    assert kind == "LoadFailed"
    assert f"{folder}/a.py:2: FlowMisuse" in message
    assert hint == "async def it(flow: Flow, ...)"


def test_after_a_failed_load_the_files_are_read_again(write: Write, folder: Path, run: Try) -> None:
    write("_util.py", "VALUE = 1\n")
    write("a.py", "from . import _util\n1 / 0\n" + WORKFLOW.format(name="it", value=1))
    fixed = "from . import _util\n" + WORKFLOW.format(name="it", value=0).replace("return 0", "return _util.VALUE")
    assert run(
        f"""
        first = refused("it")[0]
        left = sorted(name for name in sys.modules if name.startswith("flowstone_workflows"))
        (folder / "_util.py").write_text("VALUE = 2\\n")
        (folder / "a.py").write_text({fixed!r})
        show(first, left, result(library.load("it")))
        """
    ) == ["LoadFailed", [], 2]


def test_control_c_during_an_import_is_an_interrupt_and_not_a_failed_load(write: Write, run: Try) -> None:
    write("a.py", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n" + WORKFLOW.format(name="it", value=1))
    assert run(
        """
        import signal
        before = signal.getsignal(signal.SIGINT)
        try: library.load("it")
        except KeyboardInterrupt: show("interrupted", signal.getsignal(signal.SIGINT) is before)
        """
    ) == ["interrupted", True]


def test_a_computed_name_is_refused_when_it_is_loaded(write: Write, run: Try) -> None:
    write("a.py", "from flowstone import workflow\nN = 'other'\n@workflow(name=N)\nasync def it(flow): ...\n")
    kind, message, hint, _ = run('show(*refused("it"))')
    assert kind == "LoadFailed"
    assert 'names itself "other"' in message
    assert "name= must be a literal" in message
    assert hint == '@workflow(name="other")'


def test_a_decorator_of_someone_else_is_refused_when_it_is_loaded(write: Write, run: Try) -> None:
    write("a.py", "def workflow(f): return f\n@workflow\nasync def it(flow): ...\n")
    assert "carries no definition" in run('show(*refused("it"))')[1]


def test_an_init_file_of_the_folder_runs_first_as_in_any_package(write: Write, run: Try) -> None:
    write("__init__.py", "LIMIT = 7\n")
    write("a.py", "from . import LIMIT\n" + WORKFLOW.format(name="it", value=1).replace("return 1", "return LIMIT"))
    assert run('show(result(library.load("it")))') == [7]


def test_the_version_is_that_of_the_loaded_source(write: Write, folder: Path, run: Try) -> None:
    text = WORKFLOW.format(name="it", value=1)
    write("a.py", text)
    later = "\n\n" + text.replace("return 1", "return 2")
    first, same, source, after = run(
        f"""
        first = library.version("it")
        (folder / "a.py").write_text({later!r})
        same = library.version("it")
        show(first.hash, same.hash, same.source, Library(folder, folder.parent).version("it").hash)
        """
    )
    assert first == same != after
    assert source == text.partition("\n\n")[2]


def test_two_libraries_in_one_process_keep_apart_and_their_modules_have_the_same_names(
    write: Write, folder: Path, run: Try
) -> None:
    other = folder.parent.parent / "other" / "workflows"
    for place, value in ((folder, 1), (other, 2)):
        place.mkdir(parents=True, exist_ok=True)
        (place / "_util.py").write_text(f"VALUE = {value}\n")
        (place / "late.py").write_text("from ._util import VALUE\n" + WORKFLOW.format(name="late", value=0).replace("0", "VALUE"))
        (place / "a.py").write_text("from ._util import VALUE\n" + WORKFLOW.format(name="it", value=0).replace("0", "VALUE"))
    assert run(
        f"""
        one, two = library, Library(Path({str(other)!r}), Path({str(other.parent)!r}))
        first, second = one.load("it"), two.load("it")
        third = one.load("late")
        show([result(first), result(second), result(third)], first.__module__ == second.__module__,
             one.load("it") is first, sys.modules[first.__module__].it is first, sys.path[-1])
        """
    ) == [[1, 2, 1], True, True, True, str(folder.parent)]


def test_a_new_library_on_the_same_folder_sees_the_edited_file(write: Write, folder: Path, run: Try) -> None:
    write("a.py", WORKFLOW.format(name="it", value=1))
    assert run(
        f"""
        first = result(library.load("it"))
        (folder / "a.py").write_text({WORKFLOW.format(name="it", value=2)!r})
        show(first, result(library.load("it")), result(Library(folder, folder.parent).load("it")))
        """
    ) == [1, 1, 2]


def test_finding_names_imports_neither_pydantic_nor_asyncio(write: Write, folder: Path) -> None:
    write("a.py", WORKFLOW.format(name="it", value=1))
    code = (
        "import sys; from pathlib import Path; from flowstone.authoring.names import Index;"
        f"Index(Path({str(folder)!r})).entries();"
        "print([name for name in ('pydantic', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
