"""`flow approve`, `flow reject` and `flow resume` at the command line."""


def test_an_answer_goes_on_with_the_run(project):
    run = project.run_id("gated")
    result = project.flow("approve", run, "manager", "--comment", "within budget")
    assert (result.code, result.out) == (0, '"done"\n')
    assert "approved by ana" in project.terminal("status", run).out
    assert 'approved by ana: "within budget"' in project.terminal("status", run, columns=120).out


def test_the_reason_may_be_left_out_if_one_gate_is_open(project):
    run = project.run_id("gated")
    assert project.flow("approve", run).code == 0


def test_no_resume_only_records(project):
    run = project.run_id("gated")
    result = project.flow("approve", run, "--no-resume", "--json")
    assert (result.code, result.document["phase"]) == (0, "waiting")
    assert project.flow("resume", run).out == '"done"\n'


def test_early_keeps_an_answer_for_a_gate_not_reached(project):
    file = project.root / "workflows" / "examples.py"
    file.write_text(file.read_text().replace("answer = await", 'await flow.suspend("first")\n    answer = await'))
    run = project.run_id("gated")
    result = project.flow("approve", run, "manager", "--early")
    assert (result.code, "recorded for when the run gets there" in result.err) == (0, True)
    assert project.flow("resume", run).out == '"done"\n'


def test_resume_passes_a_suspend_gate_and_leaves_a_completed_run_alone(project):
    run = project.run_id("pauses")
    assert project.flow("resume", run).out == '"went on"\n'
    again = project.flow("resume", run)
    assert (again.code, again.out) == (0, '"went on"\n')
    assert "completed already" in again.err


def test_resume_of_a_gate_that_is_not_there_is_66(project):
    run = project.run_id("pauses")
    assert project.flow("resume", run, "nope").code == 66
    assert project.flow("resume", run, "until monday").code == 0


def test_the_waiting_block_says_what_is_asked(project):
    err = project.flow("run", "gated").err
    assert "  gate     approve: manager" in err
    assert "expires in 2d00h (2" in err
    assert "  asks     sign off 129.90 EUR\n" in err


def test_a_run_whose_process_was_killed_is_interrupted_at_once(project):
    import os

    os.mkfifo(project.root / "fifo")
    process = project.start("run", "holds", "--set", "path=fifo")
    with (project.root / "fifo").open("w"):  # opens once the step reads
        process.kill()
        process.communicate(timeout=60)
    shown = project.terminal("status", "@last").out
    assert f"its process (pid {process.pid}) is gone" in shown
    assert "  next     flow resume " in shown
    (project.root / "fifo").unlink()
    (project.root / "fifo").write_text("now a file")
    assert project.flow("resume", "@last").out == '"let go"\n'
