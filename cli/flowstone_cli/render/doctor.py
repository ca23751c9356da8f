"""`flow doctor`: one line per check, and what to do about it."""

from flowstone.storage.sqlite.diagnosis import Finding
from flowstone_cli.clean import clean, left
from flowstone_cli.render.text import line, told, tsv, wrap
from flowstone_cli.terminal import Stream

_SIGNS = {"ok": "succeeded", "note": "planned", "warning": "waiting", "failed": "failed"}
_CHECK = 13
"""Cells of the name of a check, with the blanks after it."""


def people(one: Finding, stream: Stream) -> str:
    """The sentence, wrapped, and the command under it."""
    sign = _SIGNS[one.grade]
    if stream.spoken:
        said = told(stream, clean(f"{one.check}: {one.grade}. {one.message}").replace("\n", "; "), indent="")
        return said + (told(stream, f"try: {clean(one.hint)}", indent="") if one.hint is not None else "")
    first, *more = wrap(clean(one.message).replace("\n", "; ").replace("\t", " "), max(8, stream.width - 2 - _CHECK))
    made = line(stream, (stream.glyph(sign), sign), " " + left(one.check, _CHECK), first)
    made += "".join(line(stream, " " * (2 + _CHECK), piece) for piece in more)
    if one.hint is not None:
        for piece in wrap(f"try: {clean(one.hint)}", max(8, stream.width - 2 - _CHECK)):
            made += line(stream, " " * (2 + _CHECK), piece)
    return made


def piped(one: Finding) -> str:
    """Check, grade, message, hint."""
    return tsv(one.check, one.grade, one.message, one.hint)
