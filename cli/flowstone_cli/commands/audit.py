"""`flow audit [RUN]`: who did what by hand, newest first."""

import json
from typing import Annotated, Any

import typer

from flowstone.clock import to_rfc3339
from flowstone.ports import AuditEntry
from flowstone_cli import json_text
from flowstone_cli.render import audit
from flowstone_cli.session import Session


def command(
    ctx: typer.Context,
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Only this run's.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", metavar="N", help="At most so many.", min=1)] = 50,
    all: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> int:
    """Show who did what: runs started, answered, resumed, retried, cancelled; newest first."""
    session: Session = ctx.obj
    entries: list[AuditEntry] = []
    if run is not None or not session.is_fresh:
        run_id = None if run is None else session.find(run).id
        entries = session.store().audit(run_id, limit=None if all else limit)
    listed = [_fields(entry) for entry in entries]
    out = session.out
    if session.options.json:
        out.write(json_text.document({"schema": "flow.audit/1", "audit": listed}))
    elif out.terminal:
        out.write(audit.people(listed, out, session.short))
    else:
        out.write(audit.piped(listed))
    return 0


def _fields(entry: AuditEntry) -> dict[str, Any]:
    by = json.loads(entry.by)
    return {
        "at": to_rfc3339(entry.at),
        "run": entry.run_id,
        "event": entry.n,
        "action": entry.action,
        "user": by.get("user"),
        "by": by,
    }
