"""Settings: which file counts, which value wins, what is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from flowstone.errors import BadSettings
from flowstone.settings import load


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)  # nothing above the test's folder counts
    return folder


def test_without_any_file_everything_is_a_default(project: Path) -> None:
    settings = load(project, flags={}, env={})
    assert settings.root == project
    assert settings.db == project / ".flow" / "flow.db"
    assert settings.dir == project / "workflows"
    assert (settings.color, settings.retries, settings.retry_delay, settings.park_after) == ("auto", 5, "exponential", "60s")
    assert (settings.user, settings.approvers, settings.warnings) == (None, {}, ())
    assert set(settings.origins.values()) == {"default"}


@pytest.mark.parametrize("marker", ["flow.toml", "pyproject.toml", ".flow/", "workflows/"])
def test_the_root_is_the_nearest_folder_upwards_with_a_mark(project: Path, marker: str) -> None:
    below = project / "src" / "deep"
    below.mkdir(parents=True)
    if marker.endswith("/"):
        (project / marker).mkdir()
    else:
        (project / marker).write_text("[tool.flow]\n" if marker == "pyproject.toml" else "")
    assert load(below, flags={}, env={}).root == project


def test_a_folder_without_a_mark_is_its_own_root_and_the_search_ends_at_git(project: Path) -> None:
    (project.parent / "flow.toml").write_text("retries = 9\n")
    below = project / "src"
    below.mkdir()
    settings = load(below, flags={}, env={})
    assert (settings.root, settings.retries) == (below, 5)


def test_a_pyproject_without_our_table_is_no_mark_even_if_it_is_broken(project: Path) -> None:
    below = project / "package"
    below.mkdir()
    (below / "pyproject.toml").write_text("[tool.other\n")
    (project / "workflows").mkdir()
    assert load(below, flags={}, env={}).root == project


def test_flag_beats_variable_beats_project_beats_user_file(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "config"
    (home / "flow").mkdir(parents=True)
    (home / "flow" / "config.toml").write_text('retries = 1\ncolor = "never"\npark_after = "1s"\nretry_delay = "1s"\n')
    (project / "flow.toml").write_text('# ours\nretries = 2\npark_after = "2s"\nretry_delay = "2s"\n')
    env = {"XDG_CONFIG_HOME": str(home), "FLOW_RETRIES": "3", "FLOW_PARK_AFTER": "3s"}
    settings = load(project, flags={"retries": 4, "color": None}, env=env)
    assert (settings.retries, settings.park_after, settings.retry_delay, settings.color) == (4, "3s", "2s", "never")
    assert settings.origins["retries"] == "--retries"
    assert settings.origins["park_after"] == "FLOW_PARK_AFTER"
    assert settings.origins["retry_delay"] == "flow.toml:4"
    assert settings.origins["color"] == f"{home}/flow/config.toml:2"


def test_relative_paths_belong_to_the_file_or_to_the_working_directory(project: Path) -> None:
    below = project / "below"
    below.mkdir()
    (project / "flow.toml").write_text('db = "data/runs.db"\ndir = "flows"\n')
    settings = load(below, flags={"dir": Path("mine")}, env={})
    assert settings.db == project / "data" / "runs.db"
    assert settings.dir == below / "mine"
    assert load(below, flags={}, env={"FLOW_DB": "x.db"}).db == below / "x.db"


def test_tool_flow_in_pyproject_is_read_with_its_lines(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[project]\nretries = 7\n[tool.flow]\nretries = 2\n[tool.flow.approvers]\nfinance = ["ana", "bo"]\n'
    )
    settings = load(project, flags={}, env={})
    assert settings.retries == 2
    assert settings.approvers == {"finance": ["ana", "bo"]}
    assert settings.origins["retries"] == "pyproject.toml:4"
    assert settings.origins["approvers"] == "pyproject.toml:5"


def test_flow_toml_beats_pyproject_in_one_folder_with_a_warning(project: Path) -> None:
    (project / "flow.toml").write_text("retries = 1\n")
    (project / "pyproject.toml").write_text("[tool.flow]\nretries = 2\ncolor = 'never'\n")
    settings = load(project, flags={}, env={})
    assert (settings.retries, settings.color) == (1, "auto")
    assert len(settings.warnings) == 1
    assert "flow.toml is used" in settings.warnings[0]


@pytest.mark.parametrize("key", ["park_aftr", "park-after", "Park_After"])
def test_an_unknown_key_is_refused_with_a_suggestion(project: Path, key: str) -> None:
    (project / "flow.toml").write_text(f'retries = 1\n{key} = "2s"\n')
    with pytest.raises(BadSettings) as caught:
        load(project, flags={}, env={})
    assert caught.value.message == f'flow.toml:2: unknown key "{key}"; did you mean "park_after"?'
    assert caught.value.hint == "flow help environment"


@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("retries = true", "a whole number"),
        ("retries = -1", "a whole number"),
        ("park_after = 60", "a duration as text"),
        ('color = "blue"', '"auto", "always" or "never"'),
        ("db = 3", "a path"),
        ('user = ""', "a name"),
        ('approvers = ["ana"]', "a table of lists"),
        ('approvers = { finance = "ana" }', "a table of lists"),
    ],
)
def test_a_value_of_the_wrong_type_names_file_key_and_what_it_takes(project: Path, line: str, takes: str) -> None:
    (project / "flow.toml").write_text(line + "\n")
    with pytest.raises(BadSettings) as caught:
        load(project, flags={}, env={})
    assert caught.value.message.startswith(f'flow.toml:1: "{line.split()[0]}" takes {takes}')


def test_a_variable_that_does_not_fit_is_named(project: Path) -> None:
    with pytest.raises(BadSettings, match=r'FLOW_RETRIES: "retries" takes a whole number'):
        load(project, flags={}, env={"FLOW_RETRIES": "many"})


def test_an_empty_variable_counts_as_unset(project: Path) -> None:
    assert load(project, flags={}, env={"FLOW_USER": ""}).user is None


@pytest.mark.parametrize(("data", "says"), [(b"retries = \n", "is not TOML"), (b"user = '\xff'\n", "is not UTF-8")])
def test_a_file_that_cannot_be_read_is_named(project: Path, data: bytes, says: str) -> None:
    (project / "flow.toml").write_bytes(data)
    with pytest.raises(BadSettings, match=says):
        load(project, flags={}, env={})


def test_a_project_without_settings_imports_neither_tomli_nor_pydantic(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project]\ndependencies = ['flowstone']\n")
    code = (
        "import sys; from pathlib import Path; from flowstone.settings import load; load(Path.cwd(), flags={}, env={});"
        "print([name for name in ('tomli', 'pydantic', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
