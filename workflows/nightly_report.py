"""A report as a graph: three sources are read side by side and joined; if there is anything, it is published with a person's yes.

flow run nightly_report --input workflows/nightly_report.json --key nightly:2030-01-01
flow approve @waiting

What it shows: nodes and the ways between them as data. The join waits for all three sources; it chooses what comes next by the
branch that its step names; nodes to which no way led are told as skipped, and why. With a key a night has one run.
"""

from pathlib import Path

from pydantic import BaseModel

from flowstone import current_step, graph, ref, step, template, trigger


class Job(BaseModel):
    """The input. Relative paths count from where `flow run` was typed."""

    folder: Path
    report_dir: Path
    publish_dir: Path


class Row(BaseModel):
    """One line of the report."""

    name: str
    bytes: int


class Report(BaseModel):
    """What the sources have given together."""

    rows: list[Row]
    bytes: int


@step(name="list files", retries=3, retry_delay="2s")
def list_files(folder: Path, pattern: str) -> list[Row]:
    """The regular files of a folder that fit a pattern."""
    found = sorted(path for path in folder.resolve(strict=True).glob(pattern) if path.is_file())
    return [Row(name=path.name, bytes=path.stat().st_size) for path in found]


@step(name="combine")
def combine(sources: list[list[Row] | None]) -> Report:
    """Put the sources one behind the other (None: not read, as with --start), and say whether there is anything to report."""
    rows = [row for source in sources for row in source or []]
    current_step().branch("data" if rows else "empty")
    return Report(rows=rows, bytes=sum(row.bytes for row in rows))


@step(name="render report")
def render(report: Report, report_dir: Path) -> Path:
    """Write the report, whole or not at all: a second attempt replaces what the first has left."""
    lines = [f"{row.bytes:>10,}  {row.name}\n" for row in report.rows]
    return _replace(report_dir.resolve() / "report.txt", "".join([*lines, f"{report.bytes:>10,}  in all\n"]))


def publish(report: Path, publish_dir: Path) -> Path:
    """Put the report where others read it."""
    return _replace(publish_dir.resolve() / report.name, report.read_text())


def _replace(target: Path, text: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(text)
    partial.replace(target)
    return target


nightly_report = graph(
    "nightly_report",
    description="Report on a folder: read, join, ask, publish.",
    input=Job,
    nodes={
        "modules": {"run": list_files, "input": {"folder": trigger("folder"), "pattern": "*.py"}, "next": "join"},
        "inputs": {"run": list_files, "input": {"folder": trigger("folder"), "pattern": "*.json"}, "next": "join"},
        "graphs": {"run": list_files, "input": {"folder": trigger("folder"), "pattern": "*.toml"}, "next": "join"},
        "join": {
            "run": combine,
            "input": [ref("modules"), ref("inputs"), ref("graphs")],
            "next": {"data": "render", "empty": []},
        },
        "render": {"run": render, "input": {"report": ref("join"), "report_dir": trigger("report_dir")}, "next": "publish it"},
        "publish it": {
            "approval": {"message": template("publish $0 ($1 bytes)?", ref("render"), ref("join", "bytes")), "expiry": "12h"},
            "next": {"approved": "publish", "rejected": [], "expired": []},
        },
        "publish": {"run": publish, "input": {"report": ref("render"), "publish_dir": trigger("publish_dir")}},
    },
    output={"bytes": ref("join", "bytes"), "report": ref("render"), "published": ref("publish"), "by": ref("publish it", "by")},
)
