"""How RUN is written, and what it stands for."""


def test_a_prefix_and_a_whole_id(project):
    run = project.run_id("hello")
    for form in (run, run[:3], run[:7].upper()):
        assert project.flow("status", form, "--json").document["id"] == run
    assert project.flow("status", run[:2]).code == 2
    assert project.flow("status", "").code == 66


def test_signs_stand_for_runs_and_say_which(project):
    first = project.run_id("hello")
    failed = project.run_id("fails")
    last = project.run_id("gated")
    forms = {
        "@last": last,
        "@last~1": failed,
        "@last~2": first,
        "@last:hello": first,
        "@failed": failed,
        "@waiting": last,
        "@waiting:gated": last,
    }
    for form, run in forms.items():
        result = project.flow("status", form, "--json")
        assert result.document["id"] == run
        assert result.err.startswith(f"{form} is {run} ")
    for form in ("@last~3", "@failed:hello", "@running", "@last:nope"):
        assert project.flow("status", form).code == 66
    assert project.flow("status", "@first").code == 2


def test_a_key_stands_for_its_run(project):
    run = project.run_id("hello", "--key", "A-1001")
    assert project.flow("status", "key:A-1001", "--json").document["id"] == run


def test_several_candidates_are_listed(project):
    runs = [project.run_id("fails") for _ in range(2)]
    result = project.flow("status", "@failed")
    assert (result.code, result.out) == (66, "")
    assert all(run in result.err for run in runs)
    assert project.flow("status", "@failed~0", "--json").document["id"] == runs[1]
    assert project.flow("status", "@failed~1", "--json").document["id"] == runs[0]


def test_no_run_starts_so(project):
    run = project.run_id("hello")
    wrong = run[:3] + ("a" if run[3] != "a" else "b") * 3
    result = project.flow("status", wrong)
    assert result.code == 66
    assert f"closest: {run} (hello, completed" in result.err


def test_ids_are_short_for_people(project):
    run = project.run_id("gated")
    shown = project.terminal("status", run).out
    assert f"gated {run}\n" in shown
    assert f"next     flow approve {run[:6]} manager" in shown
    assert run[6:] not in project.terminal("runs").out


CHILDREN = """
from flowstone import Flow, workflow

def broken() -> None:
    raise ValueError("no")

@workflow
async def inner(flow: Flow, how: str) -> str:
    if how == "asks":
        await flow.approval("manager")
    if how == "fails":
        await flow.do("break", broken)
    return how

@workflow
async def outer(flow: Flow, how: str = "ends") -> str:
    return await flow.do("inner", inner, how)
"""


def test_the_last_run_is_the_one_that_was_started_by_name(project):
    (project.root / "workflows" / "families.py").write_text(CHILDREN)
    first, second = project.run_id("hello"), project.run_id("outer")
    assert project.flow("status", "@last", "--json").document["id"] == second
    assert project.flow("status", "@last~1", "--json").document["id"] == first
    assert project.flow("status", "@last~2").code == 66
    assert project.flow("status", "@last:inner", "--json").document["parent"] == second


def test_of_a_parent_and_its_child_a_sign_stands_for_the_one_to_be_dealt_with(project):
    (project.root / "workflows" / "families.py").write_text(CHILDREN)
    failed = project.run_id("outer", "--set", "how=fails")
    assert project.flow("status", "@failed", "--json").document["id"] == failed
    asking = project.run_id("outer", "--set", "how=asks")
    assert project.flow("status", "@waiting", "--json").document["workflow"] == "inner"
    assert project.flow("approve", "@waiting").code == 0
    assert project.flow("status", asking, "--json").document["phase"] == "completed"
