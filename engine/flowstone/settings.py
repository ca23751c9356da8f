"""Settings: where the project is, what it sets, and where each value comes from. Cheap to import; durations stay text here."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from flowstone.errors import BadSettings

PROJECT_FILE = "flow.toml"
PYPROJECT = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one process. Paths are absolute; `origins` says for each value where it comes from."""

    root: Path
    """The project: nearest folder upwards with flow.toml, [tool.flow], .flow/ or workflows/; else the working directory."""
    db: Path
    dir: Path
    """The folder of the workflows."""
    color: str
    retries: int
    retry_delay: str
    """`exponential` or a duration."""
    park_after: str
    """A duration: a sleep beyond it parks the run."""
    user: str | None
    approvers: dict[str, list[str]]
    """Scope → the users who may answer gates of that scope."""
    secrets: list[str]
    """More names of fields whose values are not shown; `*` is any text."""
    origins: dict[str, str]
    """Name → `flow.toml:3`, `FLOW_DB`, `--db` or `default`."""
    warnings: tuple[str, ...]
    file: Path | None = None
    """The project's settings file, if it has one."""


class _Key(NamedTuple):
    takes: str
    fits: Callable[[object], bool]
    path: bool = False


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) and name.strip("* ") for name in value)


def _is_scopes(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(users, list) and all(map(_is_text, users)) for users in value.values())


_KEYS = {
    "db": _Key("a path", _is_text, path=True),
    "dir": _Key("a path", _is_text, path=True),
    "color": _Key('"auto", "always" or "never"', lambda value: value in ("auto", "always", "never")),
    "retries": _Key("a whole number, 0 or more", _is_count),
    "retry_delay": _Key('"exponential" or a duration as text, such as "2s"', _is_text),
    "park_after": _Key('a duration as text, such as "60s"', _is_text),
    "user": _Key("a name as text", _is_text),
    "secrets": _Key('a list of names, such as ["iban", "*_pin"]', _is_names),
    "approvers": _Key('a table of lists of users, such as finance = ["ana"]', _is_scopes),
}


class _Given(NamedTuple):
    """A value, where it was given, and the folder to which a relative path belongs."""

    value: Any
    origin: str
    folder: Path


def load(start: Path, *, flags: Mapping[str, Any], env: Mapping[str, str] | None = None) -> Settings:
    """The settings seen from the working directory `start`.

    Order: flags (None means not given) > `FLOW_*` in `env` (default: the process's) > the nearest project file >
    `$XDG_CONFIG_HOME/flow/config.toml` > defaults. Raises BadSettings for an unknown key or a value that does not fit.
    """
    start = start.absolute()
    env = os.environ if env is None else env
    root, file, warnings = _find(start)
    given: dict[str, _Given] = {}
    for path in (_user_file(env), file):
        if path is not None:
            given |= _from_file(path, start)
    given |= _from_environment(env, start)
    given |= _from_flags(flags, start)

    def value(name: str, default: Any) -> Any:
        return given[name].value if name in given else default

    return Settings(
        root=root,
        db=value("db", root / ".flow" / "flow.db"),
        dir=value("dir", root / "workflows"),
        color=value("color", "auto"),
        retries=value("retries", 5),
        retry_delay=value("retry_delay", "exponential"),
        park_after=value("park_after", "60s"),
        user=value("user", None),
        approvers=value("approvers", {}),
        secrets=value("secrets", []),
        origins={name: given[name].origin if name in given else "default" for name in _KEYS},
        warnings=warnings,
        file=file,
    )


def _find(start: Path) -> tuple[Path, Path | None, tuple[str, ...]]:
    """The project's root, its file, and warnings. The search ends at the folder that holds `.git`."""
    root = file = None
    warnings: tuple[str, ...] = ()
    for folder in (start, *start.parents):
        if file is None:
            file, warnings = _project_file(folder)
        if root is None and (file or (folder / ".flow").is_dir() or (folder / "workflows").is_dir()):
            root = folder
        if file or (folder / ".git").exists():
            break
    return root or start, file, warnings


def _project_file(folder: Path) -> tuple[Path | None, tuple[str, ...]]:
    flow, pyproject = folder / PROJECT_FILE, folder / PYPROJECT
    if not flow.is_file():
        return (pyproject if _has_our_table(pyproject) else None), ()
    try:
        both = _has_our_table(pyproject)
    except BadSettings:
        both = False
    return flow, (f"{folder} has both {PROJECT_FILE} and [tool.flow] in {PYPROJECT}: {PROJECT_FILE} is used",) if both else ()


def _has_our_table(pyproject: Path) -> bool:
    # Most pyproject files have nothing for us: they are not parsed, and their mistakes are not ours to report.
    if not pyproject.is_file() or not re.search(r"\bflow\b", _text(pyproject)):
        return False
    tool = _parsed(pyproject).get("tool")
    return isinstance(tool, dict) and "flow" in tool


def _user_file(env: Mapping[str, str]) -> Path | None:
    home = env.get("XDG_CONFIG_HOME") or (f"{env['HOME']}/.config" if env.get("HOME") else None)
    file = Path(home) / "flow" / "config.toml" if home else None
    return file if file is not None and file.is_file() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadSettings(f"cannot read {path}: {error.strerror}", hint=f"ls -l {quote(str(path))}") from error
    except UnicodeDecodeError as error:
        raise BadSettings(f"{path} is not UTF-8: byte {error.start} does not fit") from error


def _parsed(path: Path) -> dict[str, Any]:
    import tomli  # not at the top: a project without a settings file must not pay for it

    try:
        return tomli.loads(_text(path))
    except tomli.TOMLDecodeError as error:
        raise BadSettings(f"{path} is not TOML: {error}") from error


def _from_file(path: Path, start: Path) -> dict[str, _Given]:
    table = _parsed(path)
    header = ""
    if path.name == PYPROJECT:
        table, header = table["tool"]["flow"], "tool.flow"
    shown = str(path.relative_to(start) if path.is_relative_to(start) else path)
    if not isinstance(table, dict):
        raise BadSettings(f"[{header}] in {shown} takes a table, not {table!r}", hint="flow help environment")
    text = _text(path)
    return {name: _given(name, value, _place(shown, text, header, name), path.parent) for name, value in table.items()}


def _place(shown: str, text: str, header: str, name: str) -> str:
    """`file:line` of a key, for people; only `file` where the key is written in a way that this does not know."""
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            inside = found[1]
            if inside == (f"{header}.{name}" if header else name):
                return f"{shown}:{number}"
        elif inside == header and re.match(rf"\s*\"?{re.escape(name)}\"?\s*[.=]", line):
            return f"{shown}:{number}"
    return shown


def _from_environment(env: Mapping[str, str], start: Path) -> dict[str, _Given]:
    given = {}
    for name in _KEYS:
        variable = f"FLOW_{name.upper()}"
        text = env.get(variable)
        if text and name not in ("approvers", "secrets"):  # a table or a list has no place in a variable
            value = int(text) if name == "retries" and re.fullmatch("[0-9]{1,9}", text) else text
            given[name] = _given(name, value, variable, start)
    return given


def _from_flags(flags: Mapping[str, Any], start: Path) -> dict[str, _Given]:
    return {
        name: _given(name, str(value) if isinstance(value, Path) else value, f"--{name.replace('_', '-')}", start)
        for name, value in flags.items()
        if value is not None
    }


def _given(name: str, value: Any, origin: str, folder: Path) -> _Given:
    key = _KEYS.get(name)
    if key is None:
        close = get_close_matches(name.lower().replace("-", "_"), _KEYS, n=1)
        meant = f'; did you mean "{close[0]}"?' if close else ""
        known = () if close else (f"known keys: {', '.join(_KEYS)}",)
        raise BadSettings(f'{origin}: unknown key "{name}"{meant}', hint="flow help environment", details=known)
    if not key.fits(value):
        raise BadSettings(f'{origin}: "{name}" takes {key.takes}, not {value!r}', hint="flow help environment")
    return _Given(folder / Path(value).expanduser() if key.path else value, origin, folder)
