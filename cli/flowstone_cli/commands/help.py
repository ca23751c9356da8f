"""`flow help [TOPIC]`: a verb's help, or a page on a topic."""

from difflib import get_close_matches
from typing import Annotated, Any

import typer

from flowstone.errors import UsageError
from flowstone_cli import exit_codes, json_text
from flowstone_cli.session import Session

_IDS = """\
RUN is one of
  k7f2qd9xmc4w     a whole id
  k7f              the start of one, 3 characters or more, if no other starts so
  @last            the newest run that is no child run; @last~1 the one before
  @failed          the failed run, @waiting the one that waits, @running the one
                   that runs; of several, exit 66 lists them and @failed~0 is
                   the newest
  @last:deploy     each of these for one workflow
  key:A-1001       the run that was started with --key A-1001

STEP is a step's name, or its key where several have one name: quotes[dhl],
[1]/fetch#1. STEP~2 is its second attempt. A gate is named by its reason.
"""

_JSON = """\
--json prints exactly one document on stdout, on one line. Its `schema` says
what it is; names are fixed, fields may be added.

  flow.run/1       run, status, approve, and all else that acts on one run
  flow.runs/1      runs                flow.timeline/1  timeline
  flow.state/1     state               flow.logs/1      logs
  flow.output/1    output              flow.list/1      list
  flow.show/1      show                flow.config/1    config
  flow.check/1     check               flow.diff/1      diff, state --diff
  flow.doctor/1    doctor              flow.audit/1     audit
  flow.delete/1    delete              flow.prune/1     prune
  flow.error/1     on stderr, when a command is refused (exit 2, 64 and above);
                   stdout is then empty

Every field is always there, null when unknown. Instants are RFC 3339 in UTC
with milliseconds, durations whole milliseconds (..._ms), ids whole, integers
beyond 2^53 text. `phase` says what a run is doing, `next` the command to type.
Control characters are escaped. --jsonl prints one object per line, as it comes
(logs, timeline --follow).

Values of fields that look like secrets are shown as three dots, here, on the
screen and in exports, unless --reveal is given: *password*, *passwd*, *pwd*,
*passphrase*, *token*, *secret*, *credential*, *cookie*, *bearer*, *api_key*,
*access_key*, *private_key*, authorization, proxy_authorization, and those that
the setting secrets adds. The _ may be missing (apiKey). Numbers of tokens, as in
max_tokens, are shown. flow run and flow output print the output itself as it is.

  flow run deploy --input v.json --json 2>/dev/null | jq -r '.phase, .next'
"""

_ENVIRONMENT = """\
A flag beats a variable, a variable beats flow.toml (or [tool.flow] in
pyproject.toml), that beats $XDG_CONFIG_HOME/flow/config.toml. What is in force:
flow config show.

  FLOW_DB            the database; else .flow/flow.db in the project
  FLOW_DIR           the folder of the workflows; else workflows/ in the project
  FLOW_USER          who acts; else the user of the system
  FLOW_COLOR         auto, always or never
  FLOW_RETRIES       how often a step is retried
  FLOW_RETRY_DELAY   the time between its attempts
  FLOW_PARK_AFTER    the longest sleep that a process waits for
  FLOW_ASCII         1: signs and bars in ASCII
  NO_COLOR           no colours
  FORCE_COLOR        colours in a pipe too; so does CLICOLOR_FORCE
  COLUMNS            the width of the window
  CI, TERM=dumb      plain lines instead of the live view
  ACCESSIBLE         the same, and words and sentences instead of signs and bars
"""

_TIME = """\
Durations are a number and a unit: 500ms, 2s, 10m, 12h, 2d. A bare number is
refused: nobody can tell seconds from milliseconds.

AT is a point of a run's past
  12                     just after event 12; -1 is the last event
  2026-11-27T08:56:40Z   an instant, with its time zone
  +1.5s                  since the start
  STEP, STEP~2           when that step or attempt ended
  before:STEP            before it began

People are shown at most three digits that matter. Files, pipes and JSON get
instants in UTC (2026-11-27T08:56:40.012Z). Events are ordered by their number:
a clock that was set back changes no order.

A sleep longer than park_after (60s) parks the run: exit 8, and `flow resume` or
`flow recover` goes on when it is due. --wait waits, --no-wait never does.
"""


def _exit_codes() -> str:
    width = max(len(name) for _, name, _ in exit_codes.TABLE)
    table = "".join(f"{code:>3}  {name:<{width}}  {when}\n" for code, name, when in exit_codes.TABLE)
    return f"{table}\nflow help CODE says more: why it comes, and what to type next.\n"


TOPICS = {"exit-codes": _exit_codes(), "json": _JSON, "environment": _ENVIRONMENT, "time": _TIME, "ids": _IDS}
"""Topic → its page."""


def command(
    ctx: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help=f"A verb, an exit code, {', '.join(TOPICS)}.", show_default=False)
    ] = None,
) -> int:
    """Explain a verb, an exit code, or exit-codes, json, environment, time, ids."""
    session: Session = ctx.obj
    page = _page(ctx, topic)
    fields = {"schema": "flow.help/1", "topic": topic, "text": page}
    session.out.write(json_text.document(fields) if session.options.json else page)
    return 0


def _exit_page(text: str) -> str:
    from flowstone_cli.commands.exit_pages import page

    codes = [code for code, _, _ in exit_codes.TABLE]
    if int(text) not in codes:
        raise UsageError(f"flow never exits with {text}", hint="flow help exit-codes")
    return page(int(text))


def _page(ctx: typer.Context, topic: str | None) -> str:
    if topic in TOPICS:
        return TOPICS[topic]
    if topic is not None and topic.isdecimal():
        return _exit_page(topic)
    root = ctx.parent
    assert root is not None
    if topic is None:
        return root.get_help() + "\n"
    group: Any = root.command
    verb = group.get_command(root, topic)
    if verb is None:
        known = [*TOPICS, *group.list_commands(root)]
        close = get_close_matches(topic, known, n=1)
        hint = f"flow help {close[0]}" if close else "flow help"
        raise UsageError(f"there is no help on {topic!r}", hint=hint, details=[f"topics: {', '.join(TOPICS)}"])
    with type(ctx)(verb, info_name=topic, parent=root) as inner:
        return inner.get_help() + "\n"
