"""The entry of `flow`: makes the streams safe, runs the command, and leaves with its exit code. Imports `sys` only at the top."""

import sys

_GONE = 141


def main() -> None:
    """Run the command line of this process; does not return."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from flowstone_cli import VERSION

        _leave(_printed(f"flow {VERSION}\n"))
    if arguments in (["--help"], ["-h"], ["help"]) and _is_wide():
        _leave(_printed(_help()))
    if arguments[:1] == ["__complete"]:
        from flowstone_cli.commands.completing import complete

        _leave(complete(arguments[1:]))
    import gc

    gc.disable()  # reading makes much and drops nothing; what runs user code enables it again
    _hold_closed_descriptors()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    _leave(_run(arguments))


def _run(arguments: list[str]) -> int:
    try:
        from flowstone_cli.app import run

        return run(arguments)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from flowstone_cli.crash import report

        return report(error, arguments)


def _is_wide() -> bool:
    """Whether the help can be shown as it is stored: in 80 columns, as in a pipe."""
    import os

    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns) >= 80
    except (OSError, ValueError):
        return True


def _help() -> str:
    """What the parser says for `flow --help`, stored: nothing that it needs is imported."""
    with open(__file__.removesuffix("__main__.py") + "help.txt", encoding="ascii") as file:  # noqa: PTH123
        return file.read()


def _printed(text: str) -> int:
    try:
        if sys.stdout is None:
            return 74
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        return _GONE
    except OSError:
        return 74
    return 0


def _hold_closed_descriptors() -> None:
    # A descriptor 0, 1 or 2 that is closed would be given to the next file opened, the database perhaps,
    # and a step that prints would then write into it.
    import os

    while True:
        taken = os.open(os.devnull, os.O_RDWR)
        if taken > 2:
            os.close(taken)
            return


def _leave(code: int) -> None:
    # os._exit: a step's abandoned thread must not keep the process alive, and a broken stdout must not change the code.
    import os

    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError) as error:
            if stream is sys.stdout and code == 0:
                code = _GONE if isinstance(error, BrokenPipeError) else 74
    os._exit(code)


if __name__ == "__main__":
    main()
