"""A refused command: `error: …`, what is known about it, and a command to type; with --json the document flow.error/1."""

from collections.abc import Callable
from typing import Protocol

from flowstone.errors import FlowError
from flowstone_cli import exit_codes, json_text
from flowstone_cli.clean import clean, one_line
from flowstone_cli.options import Options
from flowstone_cli.render.text import told, typed
from flowstone_cli.terminal import ReaderGone, Stream


class Teller(Protocol):
    """What telling an error needs of the session."""

    options: Options

    @property
    def err(self) -> Stream:
        """stderr."""
        ...

    def shortened(self, text: str) -> str:
        """The text with ids as people are shown them."""
        ...


def tell(error: FlowError, session: Teller) -> None:
    """Write the error to stderr; a stderr that takes nothing changes nothing."""
    stream = session.err
    try:
        text = _unsaved(error) + document(error) if session.options.json else lines(error, stream, session.shortened)
        stream.write(text + _trace(error) if session.options.verbose and not session.options.json else text)
    except (FlowError, ReaderGone):
        return


def _trace(error: FlowError) -> str:
    """For -v: what the error comes from, such as the failed import of a workflow's file."""
    if error.__cause__ is None:
        return ""
    import traceback

    return clean("".join(traceback.format_exception(error.__cause__)))


def document(error: FlowError) -> str:
    """The document flow.error/1."""
    message = error.message
    if error.details:
        message += ": " + "; ".join(detail.strip() for detail in error.details)
    code = exit_codes.of_error(error)
    return json_text.document(
        {"schema": "flow.error/1", "code": code, "kind": error.kind, "message": message, "hint": hint_of(error)}
    )


def hint_of(error: FlowError) -> str:
    """What to type next: the error's own hint, else the page of its exit code."""
    return error.hint or f"flow help {exit_codes.of_error(error)}"


def lines(error: FlowError, stream: Stream, shortened: Callable[[str], str] = str) -> str:
    """The error for people. `shortened`: makes ids as people are shown them."""
    text = told(stream, shortened(clean(error.message)), start="error: ").replace("error:", stream.paint("error:", "error"), 1)
    for detail in error.details:
        text += told(stream, shortened(clean(detail)), start="  ", indent="    ")
    text += typed(stream, shortened(one_line(hint_of(error))), start="  try: ")
    return text + _unsaved(error)


def _unsaved(error: FlowError) -> str:
    """The result that a failed disk has kept from being recorded: it is nowhere else."""
    unsaved = getattr(error, "unsaved", None)
    return f"  the result that could not be recorded:\n  {clean(unsaved)}\n" if unsaved else ""
