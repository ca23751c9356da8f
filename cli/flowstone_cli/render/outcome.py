"""How a run stands, in a block of a few lines: what it is, why, and the command to type next."""

import shlex
from typing import Any

from flowstone.journal.labels import label_of
from flowstone.journal.notes import cancel_note, refused_note, said_note
from flowstone.journal.phase import Phase
from flowstone.journal.waits import PERSON, WORD, Wait, expired
from flowstone_cli.clean import cells, clean, fit, left, one_line
from flowstone_cli.render import schema as schema_words
from flowstone_cli.render import spoken
from flowstone_cli.render.text import Part, count, field, instant_words, line
from flowstone_cli.terminal import Stream
from flowstone_cli.view import RunView


def block(view: RunView, stream: Stream) -> str:
    """The block that acting commands end with, on stderr."""
    return headline(view, stream, view.id, facts(view, stream)) + details(view, stream) + next_lines(view, stream)


def headline(view: RunView, stream: Stream, run_id: str, said: str) -> str:
    """`✗ failed   deploy k7f2qd   …`; over several lines where the window is too narrow for one."""
    phase = view.phase.value
    if stream.spoken:
        return spoken.sentence(f"{phase}: {view.row.workflow} {run_id}" + (f", {said}." if said else "."), stream)
    start = f"{stream.glyph(phase)} {left(phase, 7)}"
    workflow, width = one_line(view.row.workflow), stream.width
    signed: Part = (start, phase)
    if not stream.terminal or cells(f"{start}  {workflow} {run_id}   ") + min(cells(one_line(said)), 24) <= width:
        return line(stream, signed, f"  {workflow} {run_id}", f"   {said}" if said else "")
    made = line(stream, (start.rstrip(), phase))
    made += line(stream, f"  {fit(workflow, max(0, width - 3 - len(run_id)), stream.glyph('…'))} {run_id}")
    return made + (line(stream, f"  {said}") if said else "")


def facts(view: RunView, stream: Stream) -> str:
    """What the headline says beside the phase."""
    done = f"{count(view.steps_done, 'step')} done"
    match view.phase:
        case Phase.COMPLETED:
            return f"{spoken.lasted(stream, view.took)}, {done}"
        case Phase.CANCELLED:
            return f"{spoken.lasted(stream, view.took)}, {done}"
        case Phase.FAILED:
            return _where_failed(view, stream)
        case Phase.INTERRUPTED:
            return view.whose_process()
        case Phase.RUNNING | Phase.UNDOING:
            owner = f" in process {view.owner_pid}" if view.owner_pid else ""
            return f"{done}, goes on{owner}"
    return done


def _where_failed(view: RunView, stream: Stream) -> str:
    error = view.ledger.error or {}
    if error.get("undo"):
        return "failed, and undo failed" + (f", at {label_of(error['step'])}" if error.get("step") else "")
    operation = view.failed_operation
    parts = []
    if operation is not None:
        tries = len(operation.attempts)
        parts += [f"at {label_of(operation.key)}", "not retried" if tries == 1 else f"after {count(tries, 'try')}"]
    elif view.failed_node is not None:
        parts.append(f"at {one_line(view.failed_node)}")
    site = error.get("site") or (operation.opened.get("site") if operation is not None else None)
    if site:
        parts.append(str(site))
    return ", ".join(parts) or spoken.lasted(stream, view.took)


def details(view: RunView, stream: Stream) -> str:
    """Why the run stands as it does; with -v also the traces."""
    return _details(view, stream) + "".join(_trace(step, trace, stream) for step, trace in view.traces)


def _trace(step: str, trace: str, stream: Stream) -> str:
    """Where an error was raised, each line whole."""
    made = field(stream, "trace", f"of {label_of(step)}" if step else "of the body", whole=True)
    return made + "".join(f"    {clean(one)}\n" for one in trace.rstrip("\n").split("\n"))


def _details(view: RunView, stream: Stream) -> str:
    if view.phase is Phase.FAILED and view.ledger.error is not None:
        error = view.ledger.error
        undo = error.get("undo")
        made = field(stream, "error", _error_words(error), whole=True)
        return made + (field(stream, "undo", _undo_words(undo), whole=True) if undo else "")
    if view.phase is Phase.CANCELLED:
        cancelled = view.ledger.cancelled or {}
        by = (cancelled.get("by") or {}).get("user")
        made = field(stream, "reason", str(cancelled.get("reason") or "-"), whole=True)
        return made + field(stream, "by", by or "the workflow itself", whole=True)
    made = _begun_by(view, stream) + _cancel_asked(view, stream) + _kept_answers(view, stream)
    if view.phase in (Phase.WAITING, Phase.SLEEPING, Phase.RETRYING):
        return made + "".join(_wait(wait, view, stream) for wait in view.waits)
    if view.phase is Phase.RUNNING:  # its process works on, and a person is asked all the same
        made += "".join(_wait(wait, view, stream) for wait in view.waits if wait["step"] and wait["kind"] in (*PERSON, *WORD))
    return made


def _begun_by(view: RunView, stream: Stream) -> str:
    """The error or the cancel that a run ends with once what it has done is undone."""
    cause = view.ledger.undoing
    if cause is None:
        return ""
    if cause["verb"] == "cancel":
        return field(stream, "reason", str(cause.get("reason") or "-"), whole=True)
    return field(stream, "error", _error_words(cause["error"]), whole=True)


def _error_words(error: dict[str, Any]) -> str:
    """`ValueError: not fixed yet (CODE)`."""
    sentence = ": ".join(str(part) for part in (error.get("type"), error.get("message")) if part)
    return sentence + (f" ({error['code']})" if error.get("code") and not error.get("undo") else "")


def _kept_answers(view: RunView, stream: Stream) -> str:
    """Answers to gates that the run has not reached."""
    made = ""
    for answer in view.ledger.early.values():
        body = answer.body()
        who = (body.get("by") or {}).get("user")
        said = f"{body['decision']}{f' by {who}' if who else ''}, kept for when the run gets there"
        made += line(stream, "  " + left("early", 9), f"approve: {one_line(body['name'])}")
        made += field(stream, "answer", said, whole=True)
    return made


def _cancel_asked(view: RunView, stream: Stream) -> str:
    """That somebody has asked for the cancel of a run which no process has begun to cancel."""
    if view.ledger.cancel_request is None or view.ledger.cancelling is not None or view.phase is Phase.INTERRUPTED:
        return ""
    return field(stream, "cancel", f"{cancel_note(view.ledger)}, not taken up yet", whole=True)


def _undo_words(undo: dict[str, Any]) -> str:
    """`charge card:undo: ConnectionError: the bank does not answer`."""
    return ": ".join(str(part) for part in (label_of(undo["step"]), undo.get("type"), undo.get("message")) if part)


def _wait(wait: Wait, view: RunView, stream: Stream) -> str:
    match wait["kind"]:
        case "approval" | "suspend" if wait["step"] is not None:
            verb = "approve" if wait["kind"] == "approval" else "suspend"
            made = _pair(stream, "gate", f"{verb}: {wait['reason']}", _deadline(wait, view.now, stream))
            if said := said_note(view.ledger, wait["step"]):
                made = line(stream, "  " + left("gate", 9), f"{verb}: {wait['reason']}")
                return made + field(stream, "answer", said, whole=True)
            if refused := refused_note(view.ledger, wait["step"]):
                made += field(stream, "refused", refused, whole=True)
            if wait["message"]:
                made += field(stream, "asks", wait["message"], whole=True)
            who = _who_may_answer(wait, view)
            made += field(stream, "who", who, whole=True) if who else ""
            asked = _asked(wait["schema"])
            return made + (field(stream, "answer", asked, whole=True) if asked else "")
        case "suspend":
            return field(stream, "stopped", "by Ctrl-C; it goes on only when it is told to", whole=True)
        case "queue":
            return field(stream, "waits", "for flow worker or flow recover to take it up", whole=True)
        case "function":
            return field(stream, "missing", f"the function {wait['reason']}; put it back, then resume", whole=True)
        case "sleep" | "retry":
            due = f"due {spoken.due(stream, wait['wake_at'] - view.now)} ({instant_words(wait['wake_at'])})"
            name = label_of(wait["step"])
            words = name if wait["kind"] == "sleep" else f"{name}, attempt {wait['round']}"
            return _pair(stream, "timer", words, due)
    said = said_note(view.ledger, wait["step"])
    if wait["kind"] == "resolve" and not said:
        name = label_of(wait["step"])
        why = f"whether {name} was done: it was cut off, and is not to be done twice (repeatable=False)"
        ways = "--result FILE: it was done; --failed: it was not; --retry: do it again"
        return field(stream, "unknown", why, whole=True) + field(stream, "say", ways, whole=True)
    made = field(stream, "waits", f"for {wait['kind']} {wait['reason'] or ''}".rstrip(), whole=True)
    return made + (field(stream, "said", said, whole=True) if said else "")


def _who_may_answer(wait: Wait, view: RunView) -> str:
    """Whose answer the gate's policy takes; empty for anybody's."""
    opened = view.ledger.operations[str(wait["step"])].opened
    told = {"owner": f"only {view.row.user}, who started the run", "not-initiator": f"not {view.row.user}, who started the run"}
    said = [told.get(opened.get("approvers") or "", "")]
    said += [f"only the scope {opened['scope']}: see [approvers] in flow.toml"] if opened.get("scope") else []
    return "; ".join(part for part in said if part)


def _pair(stream: Stream, label: str, name: str, said: str) -> str:
    """A labelled line of a name and what is said of it, in columns."""
    if stream.spoken:
        return field(stream, label, f"{name}, {said}" if said else name)
    if stream.terminal and said and cells(one_line(said)) > stream.width - 2 - 9 - 26:
        return field(stream, label, f"{name}, {said}", whole=True)
    return line(stream, "  " + left(label, 9), left(name, 25), f" {said}" if said else "")


def _deadline(wait: Wait, now: int, stream: Stream) -> str:
    if wait["deadline"] is None:
        return ""
    word = "expired" if expired(wait, now) else "expires"
    return f"{word} {spoken.due(stream, wait['deadline'] - now)} ({instant_words(wait['deadline'], seconds=False)})"


def _asked(schema: Any) -> str:
    """The fields that an answer may carry: `limit: whole number = 0, note: text`."""
    if not isinstance(schema, dict):
        return ""
    fields = [field for field in schema_words.fields_of(schema) if field.path not in ("approved", "approved[]")]
    shown = [field for field in fields if "." not in field.path]
    return ", ".join(f"{field.path}: {field.words}" if field.path else field.words for field in shown)


def next_lines(view: RunView, stream: Stream) -> str:
    """The command to type next, whole; for a sleeping run also the line for cron."""
    if view.next is None:
        return ""
    made = field(stream, "next", view.next, typed=True)
    if view.phase in (Phase.SLEEPING, Phase.RETRYING):
        made += field(stream, "cron", f"* * * * * cd {shlex.quote(str(view.root))} && flow recover", whole=True)
    return made
