"""Checking: whether recorded runs fit today's code, and which patches in it are still needed; nothing is run or written."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from flowstone.errors import Damaged, Diverged
from flowstone.journal.damage import blaming
from flowstone.journal.states import SETTLED
from flowstone.ports import RunRow
from flowstone.running.recognition import Difference
from flowstone.running.taking import Differs, Taking


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check of one run has found."""

    row: RunRow
    recorded: str
    """The version under which the run was last carried on."""
    version: str | None
    """Today's; None if there is no such workflow any more."""
    refusal: Diverged | Damaged | None = None
    """Why the run cannot go on; None if it fits."""
    patches: dict[str, bool] = field(default_factory=dict)
    """By the id of each `flow.patched` that the replay has reached: whether the run goes the new way."""

    @property
    def difference(self) -> Difference | None:
        """The first difference, if an operation differs."""
        return self.refusal.difference if isinstance(self.refusal, Differs) else None


def checked(taking: Taking, row: RunRow, version: str | None) -> Checked:
    """Replay a run to its frontier; of one whose undo has begun only that is left, which needs no body. Raises LoadFailed."""
    try:
        with blaming(taking.store, row.id):
            taken = taking.replayed(row)
    except (Diverged, Damaged) as refusal:
        return Checked(row, row.version, version, refusal)
    if taken.body is None:
        return Checked(row, row.version, version)
    taken.body.close()
    return Checked(row, row.version, version, patches=taken.body.patches)


def patches_in(source: str, line: int) -> dict[str, int]:
    """The ids of the calls of `flow.patched` in the function at that line of a file's source, with their lines."""
    found: dict[str, int] = {}
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for node in (part for function in functions if function.lineno == line for part in ast.walk(function)):
        match node:
            case ast.Call(func=ast.Attribute(attr="patched"), args=[ast.Constant(value=str(patch)), *_]):
                found.setdefault(patch, node.lineno)
    return found


def needing_the_old_way(patch: str, found: Iterable[Checked]) -> list[str]:
    """The ids of the unfinished runs that were recorded before the patch existed, or of which that cannot be told."""
    unfinished = (one for one in found if one.row.status not in SETTLED)
    return [one.row.id for one in unfinished if one.refusal is not None or one.patches.get(patch) is False]
