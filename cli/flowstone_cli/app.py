"""The command `flow`: a table of verbs, of which only the one asked for is imported, and the border where errors are told."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from flowstone.errors import BadData, FlowError, LoadFailed, UsageError
from flowstone_cli import VERSION, exit_codes
from flowstone_cli.clean import one_line
from flowstone_cli.options import Options, shared_parameters
from flowstone_cli.terminal import ReaderGone, width_of


class Verb(NamedTuple):
    """One line of the table of verbs."""

    module: str
    help: str
    group: str


VERBS = {
    "run": Verb("run", "Run a workflow and print its output.", "Run"),
    "approve": Verb("approve", "Say yes at a gate, and go on with the run.", "Run"),
    "reject": Verb("reject", "Say no at a gate, and go on with the run.", "Run"),
    "resume": Verb("resume", "Go on with a suspended or interrupted run.", "Run"),
    "retry": Verb("retry", "Retry a failed run where it failed.", "Run"),
    "fork": Verb("fork", "Start a new run from a step of another one.", "Run"),
    "resolve": Verb("resolve", "Resolve a step whose outcome is unknown.", "Run"),
    "cancel": Verb("cancel", "Cancel runs and undo what they did.", "Run"),
    "recover": Verb("recover", "Recover runs that are interrupted or due; for cron.", "Run"),
    "worker": Verb("worker", "Work on runs that are due, until stopped.", "Run"),
    "wait": Verb("wait", "Wait for runs, executing nothing.", "Look"),
    "audit": Verb("audit", "Show who did what.", "Look"),
    "status": Verb("status", "Show where a run is and what to type next.", "Look"),
    "timeline": Verb("timeline", "Show when a run did what.", "Look"),
    "state": Verb("state", "Show what a run knew at a point.", "Look"),
    "diff": Verb("diff", "Show what differs between runs, or points of one.", "Look"),
    "logs": Verb("logs", "Print what the steps of a run have printed.", "Look"),
    "output": Verb("output", "Print the output of a run or the result of a step.", "Look"),
    "watch": Verb("watch", "Watch a run of another process until it ends or parks.", "Look"),
    "runs": Verb("runs", "List runs, newest first.", "Look"),
    "list": Verb("list_workflows", "List the workflows of this project.", "Look"),
    "show": Verb("show", "Show what a workflow does and which input it takes.", "Look"),
    "check": Verb("check", "Check that a workflow can be started, or that a run can go on.", "Look"),
    "export": Verb("export", "Export runs with their journals as a file.", "Look"),
    "init": Verb("init", "Make a project: settings, a folder of workflows, an example.", "Keep"),
    "new": Verb("new", "Make the file of a new workflow.", "Keep"),
    "doctor": Verb("doctor", "Check the installation, the database and the workflows.", "Keep"),
    "backup": Verb("backup", "Copy the database into a new file.", "Keep"),
    "db": Verb("db", "Bring the database to this version of flow.", "Keep"),
    "delete": Verb("delete", "Delete runs with their journals and output.", "Keep"),
    "prune": Verb("prune", "Delete old runs that have ended.", "Keep"),
    "completion": Verb("completion", "Print the completion script of bash or zsh.", "About"),
    "config": Verb("config", "Show the settings and where each comes from.", "About"),
    "version": Verb("version", "Print the version.", "About"),
    "help": Verb("help", "Explain a verb, or exit-codes, json, environment, time, ids.", "About"),
}
"""Verb → its module in commands/, the line in the root help, and the group there."""

_EXAMPLES = (
    ("flow run hello --set name=Ana", "run the workflow hello"),
    ("flow status @last", "where the newest run is, and what to type next"),
)

_GOING_ON = (
    ("it waits for an answer", "flow approve RUN, or flow reject RUN"),
    ("it was stopped, or it sleeps", "flow resume RUN"),
    ("it failed", "flow retry RUN"),
    ("its process or machine died", "flow resume RUN; flow recover for all of them"),
    ("a step's outcome is unknown", "flow resolve RUN STEP"),
)
"""Why a run does not go on, and the verb for it: those that people take for each other."""

# typer has brought click along since 0.26 and used the package before: its own classes lead to the right ones.
ClickUsageError: Any = typer.BadParameter.__mro__[1]

_PATHS = ("-i", "--input", "--db", "--dir")

_CONTEXT: dict[str, Any] = {"max_content_width": 80}
NARROWEST_HELP = 52
"""Columns below which the help must be told how wide the window is: the parser takes it for wider."""


class Root(TyperGroup):
    """The group of all verbs, which imports a verb's module when that verb is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs, in the order of the help."""
        return list(VERBS)

    def get_command(self, ctx: Any, name: str) -> Any:
        """The verb's command, or None."""
        verb = VERBS.get(name)
        if verb is None:
            return None
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        function = import_module(f"flowstone_cli.commands.{verb.module}").command
        app.command(name, context_settings=_CONTEXT, add_help_option=False)(function)
        command: Any = typer.main.get_command(app)
        for parameter in command.params:
            if parameter.param_type_name == "argument" and parameter.required:
                parameter.get_usage_pieces = lambda _ctx, name=parameter.metavar: [name]  # RUN, not {RUN}
        command.params += shared_parameters(ctx.obj.options)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command for the arguments. Raises UsageError for an unknown verb, with the nearest one."""
        if args[0] not in VERBS:
            close = get_close_matches(args[0], VERBS, n=1)
            raise UsageError(f"flow has no verb {args[0]!r}", hint=f"flow {close[0]} --help" if close else "flow --help")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Two examples, the verbs by group, the options."""
        formatter.write_text("Durable workflows in plain Python, run from the terminal.")
        formatter.write("\nExamples:\n")
        formatter.write_dl(list(_EXAMPLES), col_max=min(40, formatter.width // 2))
        for group in dict.fromkeys(verb.group for verb in VERBS.values()):
            with formatter.section(group):
                formatter.write_dl([(name, verb.help) for name, verb in VERBS.items() if verb.group == group])
        with formatter.section("When a run does not go on"):
            formatter.write_dl(list(_GOING_ON), col_max=min(40, formatter.width // 2))
        with formatter.section("Options of every verb, before or after it"):
            records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
            formatter.write_dl([record for record in records if record])
        with formatter.indentation():
            formatter.write("\n")
            formatter.write_text("RUN is an id, the start of one, @last, @last~1, @failed, @waiting, @running or key:KEY.")


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out and return its exit code. Errors that we know are told on stderr here."""
    from flowstone_cli.render.error import tell
    from flowstone_cli.session import Session

    options = Options()
    session = Session(options, list(arguments))
    try:
        try:
            _refuse_bytes(arguments)
            code = _invoke(session, list(arguments))
            for left_out in session.left_out:
                tell(left_out, session)
                code = code or exit_codes.of_error(left_out)
            return code
        except FlowError as error:
            known = error
        except ReaderGone:
            return exit_codes.PIPE
        except ClickUsageError as error:
            known = _usage_error(error, arguments)
        except Exception as error:
            damage = session.damage_behind(error)
            if damage is None:
                raise
            known = damage
        options.json = options.json or wants_json(arguments)
        known.hint = known.hint or _hint(known, arguments, options)
        tell(known, session)  # before the store is closed: it knows how short an id may be
        return exit_codes.of_error(known)
    finally:
        session.close()


def _hint(error: FlowError, arguments: Sequence[str], options: Options) -> str | None:
    """For an error that has no hint of its own: the verb's help for a wrong command, the trace for what has a cause."""
    if isinstance(error, UsageError):
        verb = next((argument for argument in arguments if argument in VERBS), None)
        return f"flow {verb} --help" if verb else "flow --help"
    if isinstance(error, LoadFailed) and error.__cause__ is not None and not (options.verbose or options.json):
        from flowstone_cli.typed import again

        return again(arguments, "-v")
    return None


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` was asked for, told from the bare arguments: for errors before they are understood."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def _refuse_bytes(arguments: Sequence[str]) -> None:
    """Raise BadData for an argument that is no text (a name in another encoding); paths may be any bytes."""
    for number, (before, argument) in enumerate(pairwise(["", *arguments]), 1):
        if before in _PATHS or argument.partition("=")[0] in _PATHS:
            continue
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise BadData(f"argument {number} is not UTF-8: {one_line(argument)}", hint="flow --help") from None


def _invoke(session: Any, arguments: list[str]) -> int:
    parameters = shared_parameters(session.options)
    # The session's own streams cannot be asked yet: what decides about them stands in the arguments.
    width = width_of(sys.stdout, sys.stdout is not None and sys.stdout.isatty(), os.environ)
    context = {**_CONTEXT, "terminal_width": max(20, width - 2)} if width < NARROWEST_HELP else _CONTEXT
    root = Root(name="flow", params=parameters, rich_markup_mode=None, context_settings=context, add_help_option=False)
    root.params.insert(0, _version_option())
    if not arguments:
        arguments = ["--help"]
    try:
        with root.make_context("flow", arguments, obj=session) as ctx:
            return int(root.invoke(ctx) or 0)
    except typer.Exit as done:
        return done.exit_code


def _version_option() -> Any:
    def show(ctx: Any, _parameter: Any, wanted: bool) -> None:
        if wanted:
            ctx.obj.out.write(f"flow {VERSION}\n")
            raise typer.Exit

    return typer.core.TyperOption(
        param_decls=["--version"], is_flag=True, is_eager=True, expose_value=False, callback=show, help="Print the version."
    )


def _usage_error(error: Any, arguments: Sequence[str]) -> UsageError:
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "flow"
    if path == "flow" and (verb := next((argument for argument in arguments if argument in VERBS), None)) is not None:
        path = f"flow {verb}"
    hint = f"{path} --help"
    looks = context is not None and getattr(VERBS.get(context.info_name), "group", "") == "Look"
    if looks and type(error).__name__ == "MissingParameter" and "'RUN'" in error.format_message():
        hint = f"{path} @last"
    if type(error).__name__ == "NoSuchOption":
        hint = _with_the_nearest_option(error, arguments) or hint
        dashed = next((argument for argument in arguments if _is_no_option(argument, error.option_name)), None)
        if dashed is not None:
            import shlex

            words = [argument for argument in arguments if argument != dashed]
            hint = f"flow {shlex.join(words)} -- {shlex.quote(dashed)}"
            return UsageError(f"{dashed!r} begins with a dash, and was taken for options", hint=hint)
    return UsageError(_in_plain_words(error), hint=hint)


def _in_plain_words(error: Any) -> str:
    said: str = error.format_message().partition(" (Possible options")[0].rstrip(".")
    for theirs in ("is not a valid int range", "is not a valid integer range", "is not a valid integer"):
        said = said.replace(theirs, "is no whole number")
    return said


def _with_the_nearest_option(error: Any, arguments: Sequence[str]) -> str | None:
    """The command as it was typed, with the option that was probably meant; None if no option is like it."""
    from flowstone_cli.typed import again

    wrong = error.option_name
    takes_value = {opt: not param.is_flag for param in error.ctx.command.params for opt in param.opts if opt.startswith("--")}
    close = get_close_matches(wrong, takes_value, n=1, cutoff=0.7)
    place = next((place for place, one in enumerate(arguments) if one.partition("=")[0] == wrong), None)
    if not close or place is None:
        return None
    is_whole = not takes_value[close[0]] or "=" in arguments[place] or arguments[place + 1 :]
    return (
        again([*arguments[:place], close[0] + arguments[place].removeprefix(wrong), *arguments[place + 1 :]])
        if is_whole
        else None
    )


def _is_no_option(argument: str, option: str) -> bool:
    """Whether an argument was taken for options although it is text: `-looks fine`, `-ok`."""
    return argument.startswith("-") and len(argument) > 2 and argument[1] != "-" and option[1:] in argument
