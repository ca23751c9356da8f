"""How RUN is written on the command line: an id, the start of one, @last, @failed, @waiting, @running, key:KEY."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from typing import NamedTuple

from flowstone.errors import NotFound, UsageError
from flowstone.identity import ALPHABET, RUN_ID_LENGTH
from flowstone.journal.ledger import Ledger
from flowstone.journal.notes import note_of
from flowstone.journal.phase import Phase, is_waiting, phase_of
from flowstone.journal.states import SETTLED, Status
from flowstone.journal.words import ago_words
from flowstone.ports import Filter, RunRow, Store

SHORTEST = 3
"""Characters of an id that must at least be given."""
ONE_OF_THEM = "flow status "
"""How the hint begins that names one of several candidates."""
SHOWN = 10
"""Candidates that an error lists."""

_PAGE = 100
"""Runs that are read at a time in search of the last one."""

_FORM = re.compile(r"@(?P<which>last|failed|waiting|running)(?:~(?P<back>\d{1,6}))?(?::(?P<workflow>.+))?")


class Reader(NamedTuple):
    """What is needed to find a run and to speak of it."""

    store: Store
    life: Callable[[RunRow], str | None]
    now: int


class Choice(NamedTuple):
    """The run that a form stands for."""

    row: RunRow
    echo: bool
    """Whether people should be told which run it is."""


def find(form: str, reader: Reader) -> Choice:
    """The run that `form` stands for. Raises NotFound (also for several candidates), UsageError for what is no form."""
    if form.startswith("@"):
        return Choice(_by_sign(form, reader), echo=True)
    if form.startswith("key:"):
        return Choice(_by_key(form.removeprefix("key:"), reader), echo=True)
    return _by_id(form, reader)


def _by_sign(form: str, reader: Reader) -> RunRow:
    match = _FORM.fullmatch(form)
    if match is None:
        raise UsageError(f"{form} stands for no run", hint="flow help ids")
    back, workflow = match["back"], match["workflow"]
    if match["which"] == "last":
        found = next(islice(_started_by_people(workflow, reader), int(back or 0), None), None)
        if found is None:
            of = f" of {workflow}" if workflow else ""
            raise NotFound(f"{form}: there are not that many runs{of}", hint="flow runs")
        return found
    candidates = _in_phase(match["which"], workflow, reader)
    if not candidates:
        raise NotFound(f"{form}: no run is {match['which']}" + (f" of {workflow}" if workflow else ""), hint="flow runs")
    if back is not None:
        if int(back) >= len(candidates):
            raise NotFound(f"{form}: there are only {len(candidates)}", hint="flow runs")
        return candidates[int(back)]
    return _only(f"{form} stands for {len(candidates)} runs", candidates, reader, f"{ONE_OF_THEM}@{match['which']}~0")


def _started_by_people(workflow: str | None, reader: Reader) -> Iterator[RunRow]:
    """The runs, newest first; child runs only if their workflow is asked for: nobody has started them by name."""
    for offset in count(0, _PAGE):
        page = reader.store.runs(Filter(workflow=workflow), limit=_PAGE, offset=offset)
        yield from (row for row in page if workflow is not None or row.parent_run is None)
        if len(page) < _PAGE:
            return


def _in_phase(which: str, workflow: str | None, reader: Reader) -> list[RunRow]:
    """The runs in a phase. Of a parent and its child only the one that is to be dealt with."""
    if which == "failed":
        found = reader.store.runs(Filter(workflow=workflow, status=Status.FAILED))
    else:
        found = [row for row in reader.store.runs(Filter(workflow=workflow, unfinished=True)) if _is_in(which, row, reader)]
    if which == "waiting":  # a parent waits for its child
        parents = {row.parent_run for row in found}
        return [row for row in found if row.id not in parents]
    ids = {row.id for row in found}  # a parent goes on with its child
    return [row for row in found if row.parent_run not in ids]


def _is_in(which: str, row: RunRow, reader: Reader) -> bool:
    life = reader.life(row)
    return is_waiting(row, life) if which == "waiting" else phase_of(row, life) in (Phase.RUNNING, Phase.RETRYING, Phase.UNDOING)


def _by_key(key: str, reader: Reader) -> RunRow:
    found = reader.store.runs(Filter(key=key), limit=1)
    if not found:
        raise NotFound(f'no run has the key "{key}"', hint="flow runs")
    return found[0]


def _by_id(form: str, reader: Reader) -> Choice:
    prefix = form.lower()
    if not prefix or len(prefix) > RUN_ID_LENGTH or any(char not in ALPHABET for char in prefix):
        raise NotFound(f'no run has an id like "{form}"', hint="flow runs")
    if len(prefix) < SHORTEST:
        raise UsageError(f'"{form}" is too short for a run: give at least {SHORTEST} characters', hint="flow runs")
    found = reader.store.with_prefix(prefix, limit=SHOWN + 1)
    if not found:
        raise NotFound(f'no run starts with "{form}"', hint="flow runs", details=_closest(prefix, reader))
    many = f"more than {SHOWN}" if len(found) > SHOWN else str(len(found))
    row = _only(f'"{form}" stands for {many} runs', found, reader, f"{ONE_OF_THEM}{found[0].id}")
    return Choice(row, echo=len(prefix) < reader.store.prefix_length())


def _only(sentence: str, candidates: list[RunRow], reader: Reader, hint: str) -> RunRow:
    if len(candidates) == 1:
        return candidates[0]
    shown = [f"{row.id}  {row.workflow}  {in_words(row, reader)}" for row in candidates[:SHOWN]]
    more = [f"and {len(candidates) - SHOWN} more"] if len(candidates) > SHOWN else []
    raise NotFound(sentence, hint=hint, details=shown + more)


def _closest(prefix: str, reader: Reader) -> list[str]:
    for length in range(len(prefix) - 1, 0, -1):
        near = reader.store.with_prefix(prefix[:length], limit=1)
        if near:
            return [f"closest: {near[0].id} ({near[0].workflow}, {in_words(near[0], reader)})"]
    return []


def in_words(row: RunRow, reader: Reader) -> str:
    """What a run is and since when: `failed, started 2d ago`."""
    phase = phase_of(row, reader.life(row))
    note = note_of(row, phase, reader.now, unread([row], reader).get(row.id))
    since = f"{phase.value}, started {ago_words(reader.now - row.created_at)}"
    return f"{since}, {note}" if note else since


def unread(rows: Iterable[RunRow], reader: Reader) -> dict[str, Ledger]:
    """By id the ledgers of those runs that may have mail which nobody has read: their rows do not tell."""
    return {
        row.id: Ledger(reader.store.events(row.id))
        for row in rows
        if row.mail and row.status not in SETTLED and reader.life(row) in (None, "dead")
    }
