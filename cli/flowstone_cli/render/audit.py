"""`flow audit`: one line per thing that somebody did."""

from collections.abc import Callable, Sequence
from typing import Any

from flowstone_cli.clean import cells, left, one_line
from flowstone_cli.render.text import line, tsv
from flowstone_cli.terminal import Stream

Entry = dict[str, Any]
"""One entry of flow.audit/1."""


def people(entries: Sequence[Entry], stream: Stream, short: Callable[[str, Stream], str]) -> str:
    """When, what, on which run, who, from where."""
    if not entries:
        return "nothing was done\n"
    made = ""
    for entry in entries:
        what = f"{entry['at'][:19].replace('T', ' ')}Z  {left(one_line(entry['action']), 8)}  {short(entry['run'], stream)}"
        who = one_line(_who(entry))
        fits = not stream.terminal or cells(f"{what}  {who}") <= stream.width
        made += line(stream, f"{what}  {who}") if fits else line(stream, what) + line(stream, f"  {who}")
    return made


def piped(entries: Sequence[Entry]) -> str:
    """at, run, event, action, user, uid, user behind sudo, host, terminal."""
    return "".join(
        tsv(
            entry["at"],
            entry["run"],
            entry["event"],
            entry["action"],
            entry["user"],
            *(entry["by"].get(name) for name in ("uid", "sudo_user", "host", "tty")),
        )
        for entry in entries
    )


def _who(entry: Entry) -> str:
    by = entry["by"]
    sudo = f" (sudo by {by['sudo_user']})" if by.get("sudo_user") else ""
    where = " ".join(str(by[name]) for name in ("host", "tty") if by.get(name))
    return f"{entry['user'] or '-'}{sudo}" + (f" on {where}" if where else "")
