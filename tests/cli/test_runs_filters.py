"""`flow runs`: each filter keeps what fits and nothing else."""

import pytest


@pytest.fixture(scope="module")
def filled(shared):
    shared.flow("run", "hello", "--set", "name=Ana", "--key", "first")
    shared.flow("run", "fails")
    shared.flow("run", "gated", "--no-wait")
    return shared


def workflows(project, *options: str) -> list[str]:
    return [run["workflow"] for run in project.flow("runs", "--all", *options, "--json").document["runs"]]


def test_a_text_is_looked_for_in_name_key_error_and_wait(filled):
    assert set(workflows(filled, "--grep", "GATED")) == {"gated"}
    assert set(workflows(filled, "--grep", "first")) == {"hello"}
    assert set(workflows(filled, "--grep", "valueerror")) == {"fails"}
    assert "gated" in workflows(filled, "--grep", "manager")
    assert workflows(filled, "--grep", "nowhere in any run") == []


def test_runs_are_told_apart_by_when_they_were_started(filled):
    everything = workflows(filled)
    assert workflows(filled, "--since", "1h") == everything
    assert workflows(filled, "--older", "1h") == []
    assert workflows(filled, "--since", "2000-01-01T00:00:00Z", "--older", "0s") == everything
    assert workflows(filled, "--since", "2100-01-01T00:00:00Z") == []


def test_runs_that_took_long_are_found(filled):
    assert workflows(filled, "--min-duration", "1h") == []
    assert set(workflows(filled, "--min-duration", "0s")) == set(workflows(filled))


@pytest.mark.parametrize("option", ["--since", "--older", "--min-duration"])
def test_what_is_no_duration_is_refused_with_the_option_named(filled, option):
    result = filled.flow("runs", option, "soon")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {option}: ")


def test_a_moment_without_a_time_zone_is_refused(filled):
    assert "names no time zone" in filled.flow("runs", "--older", "2030-01-01T00:00:00").err


def test_ascii_is_drawn_when_it_is_asked_for(filled):
    assert "✓" not in filled.terminal("runs", "-w", "hello", "--ascii").out
    assert "✓" in filled.terminal("runs", "-w", "hello").out


def test_every_verb_counts_the_same_steps_and_gates_and_sleeps_are_none(project):
    (project.root / "workflows" / "counted.py").write_text(
        """
from flowstone import Flow, workflow

def quick() -> None: ...

@workflow
async def inner(flow: Flow) -> None:
    await flow.do("score", quick)

@workflow
async def counted(flow: Flow) -> None:
    await flow.do("validate", quick)
    await flow.set_state("stage", "asked")
    await flow.do("check", inner)
    await flow.map("quotes", quick, [])
    await flow.sleep("cool off", "1ms")
    await flow.approval("manager")
    await flow.suspend("until monday")
"""
    )
    run = project.run_id("counted")
    assert "2 steps done" in project.terminal("status", run, NO_COLOR="1").out
    assert "2 of 2" in project.terminal("runs", "-w", "counted", columns=140, NO_COLOR="1").out
    assert "   2 steps done" in project.flow("approve", run, "manager").err
    assert "   2 steps done" in project.flow("watch", run).err
    assert "2 steps done" in project.flow("resume", run).err
    assert "2 of 2" in project.terminal("runs", "-w", "counted", columns=140, NO_COLOR="1").out
    assert project.flow("doctor").out.count("index\tok") == 1
