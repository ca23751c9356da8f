"""`flow export`: the events, a chart, a trace and a page of a run; nothing from data becomes markup or script in any of them."""

import json
import os
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from flowstone.journal.timeline import spans
from flowstone_cli.render.exports.chrome import Family, chrome
from flowstone_cli.render.exports.html import MOST_STEPS, POLICY, html
from flowstone_cli.render.exports.run_chart import run_chart
from flowstone_cli.render.mermaid import MOST_NODES
from flowstone_cli.render.rows import Lane, tree
from support.journal_builder import SECOND, Journal
from support.order_runs import CHILD, catalog, order_seen, seen

HOSTILE = [
    "<script>alert(1)</script>",
    "</title><script>alert(2)</script>",
    "</style><script>alert(3)</script>",
    "</svg><img src=x onerror=alert(4)>",
    '" onmouseover="alert(5)" x="',
    "' onfocus='alert(6)' autofocus='",
    "</text></g></svg><svg onload=alert(7)>",
    "javascript:alert(8)",
    "]]><script>alert(9)</script>",
    "<!--><script>alert(10)</script>-->",
    "<iframe srcdoc='<script>alert(11)</script>'>",
    "&lt;script&gt;alert(12)&lt;/script&gt;",
    "</pre></details><script>alert(13)</script>",
    "<meta http-equiv=refresh content='0;url=https://example.org'>",
    'x"]; click n0 "javascript:alert(15)"; y["',
]


def words(text):
    return set(text.split())


TAGS = words("""
    html head meta title style body h1 h2 p code dl dt dd svg text line rect g
    table thead tbody tr th td details summary pre br span
""")
ATTRIBUTES = words("""
    lang http-equiv content charset class viewbox role aria-label x y x1 y1 x2 y2 width height text-anchor colspan
""")


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, markup):
        super().__init__()
        self.tags, self.attributes, self.values, self.texts, self.comments = set(), set(), [], [], []
        self.policy = None
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "meta" and ("http-equiv", "Content-Security-Policy") in attrs:
            assert not {"title", "style", "body"} & self.tags
            self.policy = dict(attrs)["content"]

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        self.comments.append(data)


def run_of(view):
    return Lane(spans(view.events), view.phase, view.row.finished_at is not None)


def page_of(view, children=None):
    return "".join(html(view, run_of(view), children or {}, view.now))


@pytest.fixture(scope="module")
def hostile():
    journal = Journal({"x": HOSTILE, **dict.fromkeys(HOSTILE, 1)}, workflow=HOSTILE[0]).claimed()
    for text in HOSTILE:
        journal.step(text, name=text).after(SECOND).step_failed(text, type=text, message=text, next_in=SECOND)
        journal.after(SECOND).step(text, 2).succeeded(text, {text: text}, 2)
        journal.state(text, text)
    for text in HOSTILE:
        journal.gate(text, key=f"approve:{text}").answered(f"approve:{text}", comment=text)
        journal.closed(f"approve:{text}", comment=text, data={text: text})
    return seen(journal.failed(HOSTILE[1], HOSTILE[2], HOSTILE[3]))


def test_no_hostile_text_becomes_markup_in_a_page(hostile):
    page = Page(page_of(hostile, {HOSTILE[4]: run_of(hostile)}))
    assert page.tags <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert page.comments == []
    assert page.policy == POLICY == "default-src 'none'; style-src 'unsafe-inline'"
    shown = "".join(page.texts)
    for text in HOSTILE:
        assert text in shown


def test_a_page_shows_the_gantt_with_its_cut_the_steps_and_their_values():
    made = order_seen()
    page = Page(page_of(made.view, made.children))
    texts = [text.strip() for text in page.texts]
    assert "order_fulfilment k7f2qd9xmc4w" in texts
    assert "2d03h with nothing running" in texts
    assert "1 cut(s) hide 2d03h in which nothing ran." in texts
    for name in ("validate", "quotes  3×", "approve: manager", "undo reserve_stock"):
        assert any(text.endswith(name) for text in texts), name
    assert any(text.endswith("score") for text in texts)
    assert any("A-1001" in text for text in texts)
    assert any("CardDeclined: no funds" in text for text in texts)
    markup = page_of(made.view, made.children)
    assert markup.count('class="work"') >= 12
    assert markup.count('class="undo"') == 1
    assert markup.count('class="person"') == 1
    assert markup.count('class="backoff"') == 3


def test_a_page_of_very_many_steps_stays_readable():
    view = seen(catalog(MOST_STEPS + 50, failing=7).failed("fetch[0007]"))
    markup = page_of(view)
    assert markup.count("<tr>") == MOST_STEPS + 2
    assert "… 50 more" in markup
    assert markup.count('class="row"') < 60


def test_a_trace_is_json_with_lanes_that_do_not_overlap():
    made = order_seen()
    trace = json.loads("".join(chrome([Family(made.view, run_of(made.view), made.children, made.view.now)])))
    events = trace["traceEvents"]
    attempts = [event for event in events if event["ph"] == "X"]
    assert len(attempts) == 13
    by_lane = {}
    for event in attempts:
        by_lane.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for lane in by_lane.values():
        assert all(one[1] <= other[0] for one, other in zip(sorted(lane), sorted(lane)[1:], strict=False))
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} == {"order_fulfilment k7f2qd9xmc4w", CHILD}
    assert [event["name"] for event in events if event["ph"] in "be"] == ["approve: manager"] * 2
    assert sum(event["name"].startswith("failed: ") for event in events) == 4
    assert [event["pid"] for event in events if event["ph"] in "sf"] == [1, 2]


def test_a_trace_of_hostile_texts_is_json(hostile):
    events = json.loads("".join(chrome([Family(hostile, run_of(hostile), {}, hostile.now)])))["traceEvents"]
    assert {event["name"] for event in events if event["ph"] == "X"} == set(HOSTILE)


def test_a_chart_shows_what_came_after_what():
    made = order_seen()
    chart = run_chart(made.view, tree(run_of(made.view), made.children), made.view.now)
    lines = [line.strip() for line in chart.splitlines()]
    assert lines[0] == "flowchart TD"
    assert 'n0["validate<br/>succeeded, 12ms"]' in lines
    assert "run --> n0" in lines
    assert "n0 --> n1" in lines
    assert "n0 --> n2" not in lines
    assert "class n5 failed" in lines


def test_steps_beside_each_other_have_the_same_step_before_and_after_them():
    journal = Journal().claimed().ran("first").step("left").step("right").succeeded("left").succeeded("right").ran("last")
    chart = run_chart(seen(journal), tree(run_of(seen(journal)), {}), journal.at)
    arrows = {tuple(line.strip().split(" --> ")) for line in chart.splitlines() if "-->" in line}
    assert arrows == {("run", "n0"), ("n0", "n1"), ("n0", "n2"), ("n1", "n3"), ("n2", "n3")}


def test_no_hostile_text_gets_out_of_its_quotes_in_a_chart(hostile):
    chart = run_chart(hostile, tree(run_of(hostile), {}), hostile.now)
    for line in chart.splitlines()[1:]:
        assert line.count('"') in (0, 2), line
        assert "script" not in line or "<" not in line.replace("<br/>", ""), line
        assert not line.strip().startswith("click")


def test_a_long_chart_is_folded():
    journal = Journal().claimed()
    for number in range(MOST_NODES + 30):
        journal.ran(f"step {number}")
    chart = run_chart(seen(journal), tree(run_of(seen(journal)), {}), journal.at)
    assert "… 30 more" in chart
    assert chart.count("[") <= MOST_NODES + 3


# the command


def test_every_format_of_a_real_run(shared):
    run = shared.flow("status", "@last:fails", "--json").document["id"]
    events = [json.loads(line) for line in shared.flow("export", run, "--format", "jsonl").out.splitlines()]
    assert [event["n"] for event in events] == list(range(len(events)))
    assert json.loads(shared.flow("export", run, "--format", "chrome").out)["otherData"]["run"] == run
    assert shared.flow("export", run, "--format", "mermaid").out.startswith("flowchart TD\n")
    result = shared.flow("export", run, "--format", "html", "-o", "page.html")
    assert (result.code, result.out) == (0, "")
    page = (shared.root / "page.html").read_text()
    assert Page(page).policy == POLICY
    for form in ("jsonl", "chrome", "mermaid", "html"):
        text = shared.flow("export", run, "--format", form).out
        assert not any(char in text for char in "\x1b\x9b\u202e"), form


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "headless_shell"))), None)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page is only parsed")
def test_a_browser_shows_the_gantt_and_runs_no_script(hostile, tmp_path):
    (tmp_path / "page.html").write_text(page_of(hostile))
    command = [BROWSER, "--headless", "--disable-gpu", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    shown = subprocess.run(
        [*command, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=120, env={**os.environ}, check=True
    ).stdout
    assert "<rect" in shown
    assert "<script" not in shown
    assert Page(shown).tags <= TAGS


FAMILY = """
from flowstone import Flow, workflow

def quick() -> None: ...

@workflow
async def inner(flow: Flow) -> None:
    await flow.do("score", quick)

@workflow
async def outer(flow: Flow) -> None:
    await flow.do("inner", inner)
"""


@pytest.fixture
def several(project):
    (project.root / "workflows" / "family.py").write_text(FAMILY)
    return project, [project.run_id("hello"), project.run_id("outer"), project.run_id("gated")]


def test_several_runs_are_an_array_of_documents_and_one_is_a_document(several):
    project, runs = several
    result = project.flow("export", *runs, runs[0])
    documents = json.loads(result.out)
    assert [one["run"]["id"] for one in documents] == runs, "each once, in the order given"
    assert documents == [
        json.loads(project.flow("export", run).out) | {"run": document["run"]}
        for run, document in zip(runs, documents, strict=True)
    ]
    assert json.loads(project.flow("export", runs[0], runs[0]).out)["run"]["id"] == runs[0]
    assert project.flow("export", *runs, "-o", "all.json").err == "all.json holds 3 runs\n"
    assert len(json.loads((project.root / "all.json").read_text())) == 3


def test_lines_of_events_name_their_run(several):
    project, runs = several
    lines = [json.loads(line) for line in project.flow("export", *runs, "--format", "jsonl").out.splitlines()]
    assert list(dict.fromkeys(line["run"] for line in lines)) == runs
    for run in runs:
        assert [line["n"] for line in lines if line["run"] == run] == list(
            range(project.flow("status", run, "--json").document["events"])
        )
    alone = [json.loads(line) for line in project.flow("export", runs[0], "--format", "jsonl").out.splitlines()]
    assert alone == [line for line in lines if line["run"] == runs[0]]


def test_a_trace_of_several_runs_has_a_process_for_each(several):
    project, runs = several
    child = project.flow("status", runs[1], "--json").document["steps"][0]["child"]
    trace = json.loads(project.flow("export", *runs, child, "--format", "chrome").out)
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"]
    assert [name.rpartition(" ")[2] for name in names] == [*runs, child]
    assert [one["run"] for one in trace["otherData"]["runs"]] == [*runs, child]
    assert min(event["ts"] for event in trace["traceEvents"] if "ts" in event) >= 0
    assert {event["pid"] for event in trace["traceEvents"] if event["ph"] in "sf"} == {2, 4}


@pytest.mark.parametrize("format", ["html", "mermaid"])
def test_a_page_and_a_chart_show_one_run(several, format):
    project, runs = several
    refused = project.flow("export", *runs, "--format", format)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.endswith(f"  try: flow export {runs[0]} --format {format}\n")
    assert project.flow("export", runs[0], "--format", format).code == 0
