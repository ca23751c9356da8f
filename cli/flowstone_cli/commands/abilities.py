"""What stdout and stderr can show, and which variable has decided it: for `flow doctor`."""

from collections.abc import Iterator, Mapping

from flowstone.storage.sqlite.diagnosis import Finding
from flowstone_cli.progress import is_live
from flowstone_cli.terminal import Stream

NARROW = 40
"""Columns below which drawings leave most of their columns out."""


def abilities(streams: tuple[Stream, Stream], color: str, env: Mapping[str, str]) -> Iterator[Finding]:
    """A finding per stream. `color`: what the flag or the settings say."""
    for stream in streams:
        facts = [_kind(stream), _width(stream, env), _encoding(stream), _signs(stream, env), _colours(stream, color, env)]
        if stream.name == "stderr":
            facts.append(_progress(stream, env))
        said = ", ".join(fact for fact in facts if fact)
        lacks_signs = stream.terminal and stream.ascii and _reason_for_ascii(stream, env).startswith("the encoding")
        narrow = stream.terminal and stream.width < NARROW
        hint = "export PYTHONIOENCODING=utf-8" if lacks_signs else None
        yield Finding("terminal", "note" if lacks_signs or narrow else "ok", f"{stream.name}: {said}", hint)


def _kind(stream: Stream) -> str:
    return "closed" if stream.file is None else "a terminal" if stream.terminal else "a file or a pipe"


def _width(stream: Stream, env: Mapping[str, str]) -> str:
    by = " (COLUMNS)" if env.get("COLUMNS") == str(stream.width) else ""
    return f"{stream.width} columns{by}" if stream.terminal else ""


def _encoding(stream: Stream) -> str:
    return (getattr(stream.file, "encoding", None) or "no encoding").lower()


def _signs(stream: Stream, env: Mapping[str, str]) -> str:
    if stream.spoken:
        return "words and sentences instead of signs (ACCESSIBLE)"
    return f"signs in ASCII ({_reason_for_ascii(stream, env)})" if stream.ascii else "signs in Unicode"


def _reason_for_ascii(stream: Stream, env: Mapping[str, str]) -> str:
    if env.get("FLOW_ASCII", "0") not in ("", "0"):
        return "FLOW_ASCII or --ascii"
    if stream.terminal and env.get("TERM") in ("dumb", "linux"):
        return f"TERM={env['TERM']}"
    return "the encoding has no others"


def _colours(stream: Stream, color: str, env: Mapping[str, str]) -> str:
    if color in ("always", "never"):
        reason = "--color, FLOW_COLOR or the settings"
    elif env.get("NO_COLOR"):
        reason = "NO_COLOR"
    elif stream.color and not stream.terminal:
        reason = "FORCE_COLOR or CLICOLOR_FORCE"
    elif stream.terminal and env.get("TERM") == "dumb" and not stream.color:
        reason = "TERM=dumb"
    else:
        reason = ""
    return ("colours" if stream.color else "no colours") + (f" ({reason})" if reason else "")


def _progress(stream: Stream, env: Mapping[str, str]) -> str:
    if is_live(stream):
        return "progress in a live view"
    if stream.spoken:
        return "progress in sentences"
    reason = "CI" if stream.terminal and env.get("CI") else ""
    return "progress in plain lines" + (f" ({reason})" if reason else "")
