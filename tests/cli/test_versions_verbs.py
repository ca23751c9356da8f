"""`flow check`, `flow fork`, `flow diff` and `flow export`: what they say, and with which code they leave."""

import json
import stat

import pytest

from flowstone.testing.histories import replay_history
from support.acting import refused, words

WORKFLOWS = """
from flowstone import Flow, workflow

def hit(tag: str) -> str:
    with open("ledger", "a") as file:
        file.write(tag + "\\n")
    return tag

def release(done) -> None:
    hit(f"undo {done.step}")

@workflow
async def shop(flow: Flow, name: str = "ana", total: int = 1) -> list:
    stock = await flow.do("reserve", hit, f"reserve {total}", undo=release)
    await flow.set_state("quotes", [1, 1, 1])
    receipt = await flow.do("charge card", hit, f"charge {name}")
    await flow.suspend("look")
    await flow.set_state("quotes", [2, 2, 2])
    return [stock, receipt, await flow.do("ship", hit, f"ship {name}")]

@workflow
async def other(flow: Flow) -> None:
    await flow.sleep("nap", "3d")
"""


@pytest.fixture
def shop(project):
    (project.root / "workflows" / "examples.py").write_text(WORKFLOWS)
    return project


def edit(project, before: str, after: str) -> None:
    file = project.root / "workflows" / "examples.py"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def effects(project) -> list[str]:
    return (project.root / "ledger").read_text().split("\n")[:-1]


# check


def test_runs_that_fit_are_told_and_it_is_0(shop):
    run = shop.run_id("shop")
    nap = shop.run_id("other", "--no-wait")
    result = shop.flow("check")
    assert (result.code, result.out) == (0, f"fits\t{nap}\tother\trunning\t-\t-\t-\nfits\t{run}\tshop\tsuspended\t-\t-\t-\n")
    document = shop.flow("check", run, "--json").document
    assert document["schema"] == "flow.check/1"
    assert [(one["run"], one["fits"], one["cause"]) for one in document["runs"]] == [(run, True, None)]


def test_the_first_difference_is_told_with_its_place_and_cause_and_it_is_76(shop):
    run, before = shop.run_id("shop"), shop.flow("timeline", "@last", "--events").out
    shop.run_id("other", "--no-wait")
    edit(shop, '"charge card", hit', '"charge", hit')
    line = WORKFLOWS[: WORKFLOWS.index('"charge card"')].count("\n") + 1
    for arguments in ((run,), ("shop",), ("--all",), ("--all", "--since", "1h"), ()):
        result = shop.flow("check", *arguments, "--json")
        assert (result.code, result.err if arguments != (run,) else "") == (76, "")
        (found,) = [one for one in result.document["runs"] if not one["fits"]]
        assert (found["run"], found["workflow"], found["status"]) == (run, "shop", "suspended")
        assert (found["step"], found["recorded"], found["asked"]) == ("charge card", '"charge card" (hit)', '"charge" (hit)')
        assert (found["file"], found["line"]) == ("workflows/examples.py", line)
        assert found["cause"] == '"charge card" was renamed to "charge"'
        assert found["version"] != found["recorded_version"]
    shown = words(shop.terminal("check", "--all").out)
    assert 'differs step 3: the journal has "charge card" (hit), the code asks for "charge" (hit) at' in " ".join(shown)
    assert 'cause "charge card" was renamed to "charge"' in shown
    assert shown[-1] == "2 runs checked, 1 not fitting"
    assert shop.flow("resume", run).code == 76
    assert shop.flow("timeline", run, "--events").out == before
    assert effects(shop) == ["reserve 1", "charge ana"]


def test_ended_runs_are_checked_when_all_are(shop):
    run = shop.run_id("shop")
    assert shop.flow("resume", run).code == 0
    edit(shop, '"ship", hit', '"send", hit')
    assert shop.flow("check", "shop").code == 0
    assert shop.flow("check", "--all").code == shop.flow("check", "shop", "--all").code == shop.flow("check", run).code == 76
    assert shop.flow("check", "--all", "--since", "2099-01-01T00:00:00Z").code == 0
    refused(shop.flow("check", "--all", "--since", "yesterday", "--json"), 2, "usage")
    refused(shop.flow("check", run, "--all", "--json"), 2, "usage")


def test_a_workflow_that_is_gone_or_cannot_be_loaded(shop):
    shop.run_id("shop")
    edit(shop, "async def shop(", "async def store(")
    result = shop.flow("check", "shop", "--json")
    assert (result.code, result.document["workflow"], result.document["runs"][0]["version"]) == (76, None, None)
    assert "the workflow shop is gone" in result.document["runs"][0]["message"]
    edit(shop, "import Flow", "import Flows")
    refused(shop.flow("check", "store", "--json"), 69, "cannot_load")
    refused(shop.flow("check", "nothing", "--json"), 66, "not_found")


def test_an_empty_project_has_nothing_to_check(shop):
    assert (shop.flow("check").code, shop.flow("check", "--all").out) == (0, "checked\tno run\n")
    assert shop.flow("check", "shop").code == 0
    assert not (shop.root / ".flow").exists()


def test_a_patch_is_told_to_be_needed_until_no_open_run_needs_its_old_way(shop):
    old = shop.run_id("shop")
    edit(
        shop,
        "    receipt =",
        '    if flow.patched("two reviewers"):\n        await flow.do("review", hit, "review")\n    receipt =',
    )
    fresh = shop.run_id("shop")
    (patch,) = shop.flow("check", "shop", "--json").document["patches"]
    assert (patch["patch"], patch["workflow"], patch["needed_by"]) == ("two reviewers", "shop", [old])
    assert patch["line"] == WORKFLOWS[: WORKFLOWS.index("    receipt")].count("\n") + 1
    assert shop.flow("resume", old).code == 0
    result = shop.flow("check", "shop", "--all")
    assert (result.code, result.out.split("\n")[-2].split("\t")[-1]) == (0, "no open run needs the old way")
    assert "no open run needs the old way" in " ".join(words(shop.terminal("check").out))
    edit(shop, '    if flow.patched("two reviewers"):\n        await', "    await")
    assert shop.flow("resume", fresh).code == 0


def test_status_says_under_which_versions_a_run_went_on(shop):
    run = shop.run_id("shop")
    first = shop.flow("status", run, "--json").document["version"]
    edit(shop, '"ship", hit', '"send", hit')
    assert shop.flow("resume", run).code == 0
    second = shop.flow("status", run, "--json").document["version"]
    assert first != second
    (migrated,) = [line for line in shop.flow("timeline", run, "--events").out.split("\n") if "run.migrated" in line]
    n = migrated.split("\t")[0]
    assert f"version\t{first}\t0\nversion\t{second}\t{n}\n" in shop.flow("status", run).out
    assert f"versions begun under {first[:6]}, since event {n} {second[:6]}" in words(shop.terminal("status", run).out)


def plan_of(shop, run) -> list[str]:
    return [entry["name"] for entry in shop.flow("status", run, "--json").document["plan"]]


@pytest.mark.parametrize("verb", ["resume", "retry"])
def test_the_plan_of_a_run_is_that_of_the_version_it_went_on_under(shop, verb):
    run = shop.run_id("shop")
    assert plan_of(shop, run) == ["reserve", "quotes", "charge card", "look", "quotes", "ship"]
    if verb == "retry":
        assert shop.flow("cancel", run, "--no-undo").code == 0
    edit(shop, '"ship", hit', '"send", hit')
    edit(shop, "    return [stock", "    for at in range(total):\n        await flow.sleep('nap', '1s')\n    return [stock")
    assert plan_of(shop, run)[-1] == "ship"  # nothing has gone on yet
    shop.flow(verb, run, *(["--no-wait"] if verb == "retry" else []))
    assert plan_of(shop, run) == ["reserve", "quotes", "charge card", "look", "quotes", "nap", "send"]
    assert shop.flow("status", run, "--json").document["deterministic"] is False


# fork


def test_a_fork_keeps_what_was_done_before_the_step_and_leaves_the_old_run(shop):
    run = shop.run_id("shop")
    before = shop.flow("timeline", run, "--events").out
    result = shop.flow("fork", run, "--from", "charge card", "--set", "name=ben", "--json")
    assert (result.code, result.document["forked_from"], result.document["input"]) == (8, run, {"name": "ben"})
    assert effects(shop) == ["reserve 1", "charge ana", "charge ben"]
    assert shop.flow("resume", result.document["id"]).out == '["reserve 1","charge ben","ship ben"]\n'
    assert shop.flow("timeline", run, "--events").out == before


def test_set_changes_fields_of_the_old_input_and_a_file_replaces_it(shop):
    run = shop.run_id("shop", "--set", "name=ana", "--set", "total=7")
    changed = shop.flow("fork", run, "--from", "reserve", "--set", "total=8", "--json").document
    assert changed["input"] == {"name": "ana", "total": 8}
    replaced = shop.flow("fork", run, "--from", "reserve", "-i", "-", "--json", stdin='{"total": 9}').document
    assert replaced["input"] == {"total": 9}
    refused(shop.flow("fork", run, "--from", "reserve", "--set", "limit=8", "--json"), 65, "bad_data")
    assert shop.flow("runs", "--count").out == "3\n"


def test_a_dry_run_of_a_fork_says_what_is_copied_and_touches_nothing(shop):
    run = shop.run_id("shop")
    result = shop.flow("fork", run, "--from", "charge card", "--dry-run", "--json")
    assert (result.code, result.document) == (
        0,
        {
            "schema": "flow.fork/1",
            "run": run,
            "from": "charge card",
            "copied": ["reserve", "state:quotes"],
            "again": ["charge card", "suspend:look"],
        },
    )
    assert words(shop.terminal("fork", run, "--from", "suspend: look", "--dry-run").out) == [
        "copied reserve, state:quotes, charge card",
        "again suspend: look",
    ]
    assert (shop.flow("runs", "--count").out, effects(shop)) == ("1\n", ["reserve 1", "charge ana"])


def test_what_a_fork_has_copied_it_does_not_undo(shop):
    run = shop.run_id("shop")
    forked = shop.flow("fork", run, "--from", "charge card", "--json").document["id"]
    assert shop.flow("cancel", forked).code == 0
    assert "undo reserve" not in effects(shop)
    assert shop.flow("cancel", run).code == 0
    assert effects(shop)[-1] == "undo reserve"


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ('"reserve", hit', '"keep", hit', '"reserve" was renamed to "keep"'),
        ("    stock = await", '    await flow.do("look first", hit, "x")\n    stock = await', '"look first" was inserted'),
    ],
)
def test_a_fork_that_todays_code_would_not_come_to_is_76_and_makes_nothing(shop, dry, before, after, cause):
    run = shop.run_id("shop")
    edit(shop, before, after)
    document = refused(shop.flow("fork", run, "--from", "charge card", *dry, "--json"), 76, "refused")
    assert document["message"].startswith(f'run {run}: step 1: the journal has "reserve"')
    assert cause in document["message"]
    assert "randomness, the clock" not in document["message"].partition("likely cause: ")[2].partition(";")[0]
    assert cause in shop.flow("check", run, "--json").document["runs"][0]["cause"]
    assert document["hint"] == f"flow check {run}"
    assert shop.flow("runs", "--count").out == "1\n"


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_fork_whose_new_input_leads_another_way_is_told_that_it_is_the_input(shop, dry):
    edit(shop, '    stock = await flow.do("reserve"', '    stock = await flow.do("reserve" if total < 5 else "order"')
    run = shop.run_id("shop")
    document = refused(shop.flow("fork", run, "--from", "charge card", "--set", "total=9", *dry, "--json"), 76, "refused")
    assert "likely cause: the input is another" in document["message"]
    assert document["hint"] == f"flow fork {run} --from reserve"
    unfit = refused(shop.flow("fork", run, "--from", "reserve", "--set", "total=x", *dry, "--json"), 65, "bad_data")
    assert "the fork's" in unfit["message"]
    assert shop.flow("fork", run, "--from", "reserve", "--set", "total=9", *dry).code == (0 if dry else 8)


def test_a_dry_run_of_a_retry_refuses_what_the_retry_would(shop):
    edit(shop, ", undo=release", "")
    edit(shop, '"charge card", hit, f"charge {name}"', '"charge card", int, name')
    run = shop.run_id("shop")
    assert shop.flow("retry", run, "--dry-run").code == 0
    edit(shop, '"reserve", hit', '"keep", hit')
    told = [refused(shop.flow("retry", run, *dry, "--json"), 76, "refused") for dry in ((), ("--dry-run",))]
    assert told[0] == told[1]


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_fork_needs_a_step_that_was_reached(shop, dry):
    run = shop.run_id("shop")
    refused(shop.flow("fork", run, "--from", "ship", *dry, "--json"), 66, "not_found")
    refused(shop.flow("fork", run, *dry, "--json"), 2, "usage")


# diff


def test_two_points_of_a_run_differ_by_paths(shop):
    run = shop.run_id("shop")
    shop.flow("resume", run)
    result = shop.flow("diff", f"{run}@before:suspend:look", run, "--json")
    changes = {change["path"]: (change["op"], change["before"], change["after"]) for change in result.document["changes"]}
    assert result.document["schema"] == "flow.diff/1"
    assert changes["status"] == ("replace", "running", "completed")
    assert changes["state.quotes[0]"] == ("replace", 1, 2)
    assert changes["results.ship"] == ("add", None, "ship ana")
    shown = words(shop.terminal("diff", f"{run}@before:suspend:look", run).out)
    assert "~ state.quotes[0..2] 1 → 2" in shown
    assert '+ results.ship "ship ana"' in shown


def test_two_runs_differ_and_exit_code_says_so(shop):
    first, second = shop.run_id("shop"), shop.run_id("shop", "--set", "name=ben")
    result = shop.flow("diff", first, second)
    assert (result.code, result.out) == (
        0,
        'replace\tinput\tnull\t{"name":"ben"}\nreplace\tresults["charge card"]\t"charge ana"\t"charge ben"\n',
    )
    assert shop.flow("diff", "@last", f"{first}@-1", "--exit-code").code == 1
    same = shop.flow("diff", first, f"{first}@-1", "--exit-code")
    assert (same.code, same.out) == (0, "")
    assert "nothing differs" in shop.terminal("diff", first, first).out


def test_times_can_be_left_out_of_a_diff(shop):
    first, second = shop.run_id("other", "--no-wait"), shop.run_id("other", "--no-wait", "--key", "ana@example.org")
    assert "waiting[0].wake_at" in shop.flow("diff", first, "key:ana@example.org").out
    assert shop.flow("diff", first, "key:ana@example.org@-1", "--ignore-times", "--exit-code").code == 0
    refused(shop.flow("diff", first, f"{second}@99", "--json"), 66, "not_found")


# export


def test_an_exported_run_is_one_document_that_is_replayed(shop, monkeypatch):
    run = shop.run_id("shop")
    result = shop.flow("export", run, "--format", "json")
    document = result.document
    assert (result.code, document["schema"], document["run"]["id"]) == (0, "flow.export/1", run)
    assert [event["n"] for event in document["journal"]] == list(range(document["run"]["events"]))
    assert document["source"].startswith("@workflow\nasync def shop")
    (shop.root / "it.json").write_text(result.out)
    monkeypatch.chdir(shop.root)
    replay_history("it.json")


def test_a_file_is_replaced_whole_is_the_owners_alone_and_is_never_a_link(shop):
    run = shop.run_id("shop")
    file = shop.root / "it.json"
    file.write_text("old")
    file.chmod(0o644)
    assert (shop.flow("export", run, "-o", "it.json").out, stat.S_IMODE(file.stat().st_mode)) == ("", 0o600)
    assert json.loads(file.read_text())["run"]["id"] == run
    (shop.root / "link.json").symlink_to("precious")
    for target in ("link.json", "workflows", "/dev/null", "nowhere/it.json"):
        refused(shop.flow("export", run, "-o", target, "--json"), 73, "cannot_create")
    assert not (shop.root / "precious").exists()
    assert sorted(path.name for path in shop.root.iterdir() if path.name.startswith(".")) == [".flow"]
    refused(shop.flow("export", run, "--format", "pdf", "--json"), 2, "usage")


CLOCK = """
import time
from flowstone import Flow, workflow

@workflow
async def dated(flow: Flow) -> None:
    await flow.do("a", print, time.time())
    await flow.suspend("look")
"""


def test_what_a_replay_cannot_repeat_is_warned_of_by_file_and_line_and_it_is_0(shop):
    file = shop.root / "workflows" / "dated.py"
    file.write_text(CLOCK)
    said = {"workflow": "dated", "file": str(file), "line": 7, "call": "time.time()", "hint": "flow.now()"}
    for arguments in (("dated",), ()):
        result = shop.flow("check", *arguments, "--json")
        (warning,) = result.document["warnings"]
        assert (result.code, {name: warning[name] for name in said}) == (0, said)
    message = "reads the clock, which has gone on at the next replay"
    assert shop.flow("check", "dated").out.endswith(f"warning\tdated\t{file}:7\ttime.time()\t{message}\tflow.now()\n")
    shown = words(shop.terminal("check", "dated").out)
    assert shown[-2:] == [f"time.time() {message}", "use flow.now()"]
    assert shop.flow("check", "shop", "--json").document["warnings"] == []


def test_a_run_that_does_not_fit_is_told_with_what_its_body_cannot_repeat(shop):
    (shop.root / "workflows" / "dated.py").write_text(CLOCK)
    run = shop.run_id("dated")
    result = shop.flow("check", run, "--json")
    assert (result.code, [one["call"] for one in result.document["warnings"]]) == (76, ["time.time()"])
    fits = shop.run_id("shop")
    assert shop.flow("check", fits, "--json").document["warnings"] == []
