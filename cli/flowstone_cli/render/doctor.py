"""`flow doctor`: one line per check, and what to do about it."""

from flowstone.storage.sqlite.diagnosis import Finding
from flowstone_cli.clean import clean, left
from flowstone_cli.render.text import line, told, tsv, typed
from flowstone_cli.terminal import Stream

_SIGNS = {"ok": "succeeded", "note": "planned", "warning": "waiting", "failed": "failed"}
NARROW = 60
"""Cells of a window below which the sentence stands under the name of the check."""
_CHECK = 13
"""Cells of the name of a check, with the blanks after it."""


def people(one: Finding, stream: Stream) -> str:
    """The sentence, wrapped, and the command under it."""
    sign = _SIGNS[one.grade]
    if stream.spoken:
        said = told(stream, clean(f"{one.check}: {one.grade}. {one.message}").replace("\n", "; "), indent="")
        return said + (told(stream, f"try: {clean(one.hint)}", indent="") if one.hint is not None else "")
    message = clean(one.message).replace("\n", "; ")
    if stream.width < NARROW:
        made = line(stream, (stream.glyph(sign), sign), f" {one.check}") + told(stream, message, start="  ")
        return made + (typed(stream, clean(one.hint), start="  try: ") if one.hint is not None else "")
    indent = " " * (2 + _CHECK)
    start = f"{stream.glyph(sign)} {left(one.check, _CHECK)}"
    made = told(stream, message, start=start, indent=indent)
    made = stream.paint(stream.glyph(sign), sign) + made.removeprefix(stream.glyph(sign))
    return made + (typed(stream, clean(one.hint), start=f"{indent}try: ") if one.hint is not None else "")


def piped(one: Finding) -> str:
    """Check, grade, message, hint."""
    return tsv(one.check, one.grade, one.message, one.hint)
