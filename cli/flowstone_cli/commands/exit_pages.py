"""The page of each exit code for `flow help CODE`: what it means, why it comes, what to type next."""

from flowstone_cli import exit_codes

PAGES = {
    exit_codes.OK: """\
The command did what was asked. For run, resume, approve, reject and retry: the
run has completed, and its output is on stdout. For status and the others that
only look, 0 says nothing about the run: flow wait RUN, or --exit-status, does.
""",
    exit_codes.RUN_FAILED: """\
The workflow's own code failed: a step failed for good, or the body raised. What
had been done is undone, as far as it has an undo. 1 is never a fault of flow's.

  flow status RUN      what failed, and where
  flow logs RUN --failed   what it printed
  flow retry RUN       go on from the step that failed
""",
    exit_codes.USAGE: """\
The command line is wrong: an unknown verb or option, an argument that is
missing, or a question that nobody was there to answer (--yes). Or the run is in
a state that the verb is not for: a completed run is not retried, a failed one not
resumed. Nothing was touched.

  flow VERB --help     what the verb takes
  flow status RUN      what the run is, and the command for it
""",
    exit_codes.CANCELLED: """\
The run ended cancelled: by flow cancel, or by its own flow.cancel(...). What
had been done is undone.

  flow status RUN      who cancelled it, and why
""",
    exit_codes.UNDO_FAILED: """\
The run failed or was cancelled, and then an undo failed too: something is still
done that should not be. Somebody must look.

  flow status RUN      which undo, and its error
  flow retry RUN       try the undo again
""",
    exit_codes.NOT_FINISHED: """\
The run has not ended: it waits for an answer, sleeps, waits for its next
attempt, or another process executes it. So `flow run deploy && notify` does not
notify.

  flow status RUN      what it waits for, and the command for it
  flow wait RUN        wait until it has ended
  flow recover         goes on with what is due; made for cron
""",
    exit_codes.BAD_DATA: """\
An input or an answer is not JSON, or does not fit. stderr names the file, the
line, and each field that is missing, unknown or of the wrong kind; nothing was
started and nothing was recorded.

  flow show NAME       the input that a workflow takes
  flow status RUN      the fields that a gate takes
""",
    exit_codes.NOT_FOUND: """\
There is no such run, step, gate, workflow or file, or several runs fit what was
given. stderr lists the nearest, or the candidates.

  flow runs --all      all runs
  flow list            all workflows
  flow help ids        what RUN may be
""",
    exit_codes.CANNOT_LOAD: """\
The file of a workflow cannot be imported: it has a syntax error, a module is
missing, or two files define one name. Runs are as they were.

  flow check           loads them all: which file, and why
  flow check NAME      that of one workflow
""",
    exit_codes.INTERNAL: """\
A bug of flow's. What was recorded is intact; the trace is in .flow/crash-*.log,
without the values of variables. Please report it with that file.

  flow recover         goes on with a run that was cut off
""",
    exit_codes.CANNOT_CREATE: """\
A file that was named for output cannot be made: its folder is not there or may
not be written to, or something lies there that is never replaced (a link, a
folder, any file for flow backup, flow init and flow new). Nothing was changed.

  ls -ld FOLDER        who may write to it
""",
    exit_codes.STORAGE: """\
The database, the disk or stdout failed: the disk is full, the file was removed
or is damaged, stdout is closed. All that was recorded before is intact; a
result that could not be recorded is on stderr.

  flow doctor          what is wrong with the file and where it lies
  flow recover         go on, when it is mended
""",
    exit_codes.TRY_AGAIN: """\
Not now: another process executes the run or writes to the database, or the gate
has its answer already. stderr says who. Nothing was changed.

  flow status RUN      where the run is
  flow watch RUN       look on while the other process works
""",
    exit_codes.REFUSED: """\
The recorded history and today's code disagree: the body asks for other steps
than those that have been carried out, or there is no such body any more. The run
is as it was. stderr names the step, the file and the line.

  flow check RUN       the same, without starting anything
  flow fork RUN --from STEP   a new run with today's code, from there on
""",
    exit_codes.NOT_ALLOWED: """\
You may not: the gate's policy wants somebody else (not the one who started the
run, or one of a list in flow.toml), or the database may only be read.

  flow status RUN      who may answer
  flow doctor          the rights of the database
""",
    exit_codes.CONFIG: """\
flow.toml or [tool.flow] in pyproject.toml holds an unknown key or a value that
does not fit; or flow doctor has found something wrong.

  flow config show     what is in force, and where it comes from
  flow doctor          all checks
""",
    exit_codes.TIMED_OUT: """\
The time that was given with --timeout is up. The run is as it is, and goes on
if a process executes it.

  flow status RUN      where it is
""",
    exit_codes.SIGHUP: """\
The terminal was closed (SIGHUP). The run is interrupted: what was recorded is
intact, and steps that had not ended run again.

  flow recover         goes on; so does flow resume RUN
""",
    exit_codes.SIGINT: """\
Ctrl-C. Steps that ran had ten seconds to end; a second Ctrl-C leaves at once.
The run is stopped, and only flow resume goes on with it.

  flow resume RUN
""",
    exit_codes.PIPE: """\
The reader of the output went away, as in flow runs --all | head. A run goes on
all the same; only its output was not printed.

  flow output RUN      prints it
""",
    exit_codes.SIGTERM: """\
Somebody asked the process to end (SIGTERM): a service manager, a shutdown. The
run is interrupted, and flow recover goes on with it.

  flow recover
""",
}
"""Code → its page, without the title."""


def page(code: int) -> str:
    """A code's page with its title. Raises KeyError for a code that flow does not have."""
    name, when = next((name, when) for known, name, when in exit_codes.TABLE if known == code)
    return f"exit {code}, {name}:\n{when}\n\n{PAGES[code]}"
