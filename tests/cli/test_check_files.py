"""`flow check` loads every file and tells what does not load; what two files define is told before a run exists."""

import pytest

from support.acting import refused

GOOD = """
from flowstone import Flow, step, workflow

@step
async def charge() -> str:
    return "good"

@workflow
async def fine(flow: Flow) -> str:
    return await flow.do("charge", charge)
"""

BROKEN = {
    "bad.py": "import nosuchmod\nfrom flowstone import Flow, step, workflow\n"
    "@workflow\nasync def bad(flow: Flow) -> None: ...\n@workflow\nasync def bad_too(flow: Flow) -> None: ...\n",
    "only_steps.py": "import nosuchmodule\nfrom flowstone import step\n@step\ndef lonely() -> None: ...\n",
    "syn.py": "from flowstone import workflow\n@workflow\nasync def syn(flow:\n",
    "way.graph.toml": 'name = "way"\n[nodes.a]\nrun = "charge"\nnext = "nowhere"\n',
    "gone.graph.toml": 'name = "gone"\n[nodes.a]\nrun = "no step of that name"\n',
    "raises.py": "from flowstone import Flow, workflow\n@workflow\nasync def raises(flow: Flow): ...\nraise OSError('at once')\n",
    "takes.py": "from flowstone import Flow, workflow\n@workflow\nasync def takes(flow: Flow, *many: int) -> None: ...\n",
}


@pytest.fixture
def files(project):
    (project.root / "workflows" / "good.py").write_text(GOOD)
    return project


def test_a_folder_in_which_all_loads_is_0(files):
    result = files.flow("check", "--json")
    assert (result.code, result.document["broken"]) == (0, [])
    assert files.flow("check").out == "checked\tno run\n"


@pytest.mark.parametrize("name", BROKEN)
def test_each_kind_of_file_that_does_not_load_is_told_once_and_is_69(files, name):
    (files.root / "workflows" / name).write_text(BROKEN[name])
    result = files.flow("check", "--json")
    assert result.code == 69
    (one,) = result.document["broken"]
    assert one["file"].endswith(name)
    assert one["message"]
    assert name in files.flow("check").out
    assert "does not load" in files.terminal("check").out
    assert files.flow("run", "fine").out == '"good"\n'


def test_all_that_do_not_load_are_told_at_once(files):
    for name, text in BROKEN.items():
        (files.root / "workflows" / name).write_text(text)
    result = files.flow("check", "--json")
    assert result.code == 69
    assert sorted(one["file"].rpartition("/")[2] for one in result.document["broken"]) == sorted(BROKEN)


def test_the_page_of_69_names_what_finds_them(files):
    assert "flow check " in files.flow("help", "69").out


BY_NAME = """
from flowstone import Flow, workflow

@workflow
async def asks(flow: Flow) -> str:
    await flow.do("before", print, "before")
    return await flow.do("pay", "charge")

@workflow
async def maps(flow: Flow) -> list:
    return await flow.map("pay", "charge", [1])
"""


@pytest.mark.parametrize("workflow", ["asks", "maps", "noded"])
def test_a_step_of_two_files_that_is_given_by_name_is_refused_before_a_run_exists(files, workflow):
    (files.root / "workflows" / "asks.py").write_text(BY_NAME)
    (files.root / "workflows" / "noded.graph.toml").write_text('name = "noded"\n[nodes.a]\nrun = "charge"\n')
    assert files.flow("check").code == 0
    (files.root / "workflows" / "other.py").write_text(GOOD.replace("async def fine", "async def other"))
    runs = files.flow("runs", "--count").out
    for verb in ("check", "run"):
        said = refused(files.flow(verb, workflow, "--json"), 69, "cannot_load")
        assert 'the step "charge" is defined 2 times' in said["message"]
        assert "good.py" in said["message"]
        assert "other.py" in said["message"]
    assert files.flow("runs", "--count").out == runs
    everything = files.flow("check", "--json")
    assert (everything.code, len(everything.document["broken"])) == (69, 1)
    assert files.flow("run", "fine").out == '"good"\n'  # it has its own, and names nobody else's
