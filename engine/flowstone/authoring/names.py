"""Which workflows and steps a folder holds, read from the syntax trees of its files without importing any.

What was read is kept in an index file, so that a name is found without parsing every file. Not here: importing (loader.py).
"""

import ast
import json
import os
import re
import tomllib
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Any

from flowstone.errors import LoadFailed, NotFound

INDEX_FORMAT = 1
"""Of the index file; to be raised when `scan` reads anything else than before."""


class Kind(StrEnum):
    """What a name stands for."""

    WORKFLOW = "workflow"
    STEP = "step"
    GRAPH = "graph"


_KINDS = {kind.value: kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Found:
    """One workflow or step in a file."""

    kind: Kind
    name: str
    attribute: str
    """What the module calls it."""
    file: Path
    line: int
    """Line of the function or of the assignment, not of its decorators."""
    doc: str
    """The first line of its description, for lists."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Scan:
    """What one file holds. `error` says why it cannot be read, then there is nothing else."""

    file: Path
    found: tuple[Found, ...] = ()
    error: str | None = None
    line: int | None = None
    """The line of the error, if it has one."""

    def __str__(self) -> str:
        return f"{self.file}{f':{self.line}' if self.line else ''}: {self.error}"

    @property
    def workflows(self) -> list[Found]:
        """The workflows, graphs among them, in the order of the file."""
        return [one for one in self.found if one.kind is not Kind.STEP]

    @property
    def steps(self) -> list[Found]:
        """The steps, in the order of the file."""
        return [one for one in self.found if one.kind is Kind.STEP]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of `flow list`: a workflow, or (without a name) a file that cannot be read. `error`: why it cannot run."""

    name: str | None
    file: Path
    line: int | None
    doc: str
    error: str | None


GRAPH_FILES = (".graph.toml", ".graph.json")
"""How the names of files end that hold one graph each."""


def scan(path: Path) -> Scan:
    """What the file at `path` defines. A file that cannot be read or parsed is a Scan with an error, never an exception."""
    if path.name.endswith(GRAPH_FILES):
        return _scan_graph(path)
    if "." in path.stem:
        return Scan(path, error="a module's name has no dot: rename the file")
    try:
        with warnings.catch_warnings(action="ignore"):  # the import will say them
            tree = ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        return Scan(path, error=f"cannot be read: {error.strerror}")
    except SyntaxError as error:
        return Scan(path, error=f"SyntaxError: {error.msg}", line=error.lineno or None)
    except (ValueError, RecursionError, MemoryError) as error:  # NUL bytes; nested too deep for the parser
        return Scan(path, error=f"{type(error).__name__}: {error}")
    marks = _Marks(tree)
    return Scan(path, tuple(one for node in _top_level(tree.body) if (one := marks.found(node, path))))


def _scan_graph(path: Path) -> Scan:
    """The graph of a file: named in it, else as the file is."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        return Scan(path, error=f"cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        return Scan(path, error=f"{type(error).__name__}: {error}")
    fields = document if isinstance(document, dict) else {}
    name, doc = fields.get("name"), fields.get("description")
    plain = name if isinstance(name, str) and name else path.name.removesuffix(path.suffix).removesuffix(".graph")
    found = Found(Kind.GRAPH, unicodedata.normalize("NFC", plain), "", path, 1, _first_line(doc if isinstance(doc, str) else ""))
    return Scan(path, (found,))


def index_file(root: Path) -> Path:
    """Where a project keeps its index file."""
    return root / ".flow" / "index.json"


class Index:
    """The names in a folder of workflows: its `*.py` files and its packages' `__init__.py`, except those that begin with `_`, and
    its graphs in files.

    `kept` is a file that remembers what each file held; a file that has changed since is read anew. It may be missing, broken
    or read-only: then everything is read.
    """

    def __init__(self, folder: Path, kept: Path | None = None) -> None:
        self.folder = folder
        self._kept = kept

    def scans(self, *, anew: bool = False) -> list[Scan]:
        """Every file's scan, by path. Raises LoadFailed if the folder itself cannot be read; a missing one is empty.

        `anew`: read every file, whatever the index file says.
        """
        try:
            paths = sorted(path for path in self.folder.iterdir() if not path.name.startswith(("_", ".")))
        except FileNotFoundError:
            return []
        except OSError as error:
            said = f"cannot read the folder {self.folder}: {error.strerror}"
            raise LoadFailed(said, hint=f"ls -ld {quote(str(self.folder))}") from error
        packages = [path for path in paths if (path / "__init__.py").is_file()]
        files = [path for path in paths if (path.suffix == ".py" or path.name.endswith(GRAPH_FILES)) and path.is_file()]
        hidden = [path for path in files if path.with_suffix("") in packages]
        scans = [Scan(path, error=f"hidden by the package {path.stem}/ beside it") for path in hidden]
        scans += self._scanned([path / "__init__.py" for path in packages] + [path for path in files if path not in hidden], anew)
        return sorted(scans, key=lambda one: one.file)

    def _scanned(self, paths: list[Path], anew: bool) -> list[Scan]:
        before = {} if anew else _read_index(self._kept)
        entries: dict[str, Any] = {}
        scans = []
        for path in paths:
            stamp = _stamp(path)
            known = _from_entry(path, before.get(str(path)), stamp)
            scans.append(known or scan(path))
            if stamp is not None:
                entries[str(path)] = _entry(scans[-1], stamp)
        if entries != before:
            _write_index(self._kept, entries)
        return scans

    def workflows(self) -> list[Found]:
        """Every workflow, by file and line; a name that is defined twice is there twice."""
        return [one for file in self.scans() for one in file.workflows]

    def entries(self) -> list[Entry]:
        """What `flow list` shows: every workflow and every file that cannot be read."""
        scans = self.scans()
        workflows = [one for file in scans for one in file.workflows]
        entries = []
        for file in scans:
            if file.error:
                entries.append(Entry(None, file.file, file.line, "", file.error))
            for one in file.workflows:
                others = [str(other) for other in workflows if other.name == one.name and other is not one]
                error = f"also defined in {', '.join(others)}" if others else None
                entries.append(Entry(one.name, one.file, one.line, one.doc, error))
        return entries

    def find(self, name: str) -> Found:
        """The workflow `name`. Raises NotFound with suggestions, LoadFailed if its file cannot be read or another has it too."""
        return self._find(name, "workflow")

    def find_step(self, name: str) -> Found:
        """The step `name`. Raises like `find`."""
        return self._find(name, "step")

    def _find(self, name: str, what: str) -> Found:
        scans = self.scans()
        try:
            return self._only(name, what, scans)
        except NotFound:
            if self._kept is None:
                raise
            return self._only(name, what, self.scans(anew=True))

    def _only(self, name: str, what: str, scans: list[Scan]) -> Found:
        name = unicodedata.normalize("NFC", name)
        known = [one for file in scans for one in (file.steps if what == "step" else file.workflows)]
        found = [one for one in known if one.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            places = ", ".join(map(str, found))
            raise LoadFailed(f'the {what} "{name}" is defined {len(found)} times: {places}', hint="give all but one another name")
        for file in scans:
            if file.error and _seems_to_define(file.file, name):
                raise LoadFailed(f'cannot load the {what} "{name}": {file}', hint="flow list")
        close = get_close_matches(name, sorted({one.name for one in known}), n=3)
        meant = "; did you mean " + " or ".join(f'"{one}"' for one in close) + "?" if close else ""
        if what == "step":
            hint = f"put a function with @step into a file in {self.folder}"
        elif close:
            hint = f"flow show {quote(close[0])}"
        else:
            hint = "flow list" if known else "flow new hello"
        broken = [str(file) for file in scans if file.error]
        raise NotFound(f'no {what} "{name}" in {self.folder}{meant}', hint=hint, details=broken)


def _seems_to_define(path: Path, name: str) -> bool:
    """Whether a file that cannot be parsed is the one that is meant: by its own name, or by a `def` in its text."""
    if name == (path.parent.name if path.name == "__init__.py" else path.stem):
        return True
    try:
        return re.search(rb"\bdef\s+" + re.escape(name.encode()) + rb"\s*\(", path.read_bytes()) is not None
    except OSError:
        return False


def _stamp(path: Path) -> list[int] | None:
    """What changes whenever a file is written; None if it cannot be looked at. Its ctime cannot be set back by hand."""
    try:
        found = path.stat()
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_ctime_ns, found.st_size]


def _read_index(kept: Path | None) -> dict[str, Any]:
    try:
        index = json.loads(kept.read_bytes()) if kept is not None else {}
        return dict(index["files"]) if index.get("format") == INDEX_FORMAT else {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _write_index(kept: Path | None, entries: dict[str, Any]) -> None:
    """Put a whole new file in the place of the old one; only where its folder is already there."""
    if kept is None or not kept.parent.is_dir():
        return
    unfinished = kept.with_name(f"{kept.name}-{os.getpid()}")
    with suppress(OSError, UnicodeError):
        try:
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  a descriptor
                json.dump({"format": INDEX_FORMAT, "files": entries}, file)
            unfinished.replace(kept)
        finally:
            unfinished.unlink(missing_ok=True)


def _entry(one: Scan, stamp: list[int]) -> dict[str, Any]:
    found = [[str(each.kind), each.name, each.attribute, each.line, each.doc] for each in one.found]
    return {"stamp": stamp, "found": found, "error": one.error, "line": one.line}


def _from_entry(path: Path, entry: Any, stamp: list[int] | None) -> Scan | None:
    """The scan that an entry of the index file stands for; None if it is of another stamp, or not as we write it."""
    try:
        if stamp is None or entry["stamp"] != stamp:
            return None
        found = tuple(
            Found(Kind(kind), str(name), str(attribute), path, int(line), str(doc))
            for kind, name, attribute, line, doc in entry["found"]
        )
        line = None if entry["line"] is None else int(entry["line"])
        return Scan(path, found, None if entry["error"] is None else str(entry["error"]), line)
    except (KeyError, TypeError, ValueError):
        return None


class _Marks:
    """What a module calls `workflow`, `step` and `graph`, from its imports."""

    def __init__(self, tree: ast.Module) -> None:
        # A decorator of the project's own may wrap ours under the same name; loading tells whether it does.
        # `graph` is too common a word for that.
        self.names = {"workflow": Kind.WORKFLOW, "step": Kind.STEP}
        self.modules: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                ours = (node.module or "").partition(".")[0] == "flowstone" and not node.level
                for alias in node.names:
                    if ours and alias.name == "*":
                        self.names["graph"] = Kind.GRAPH
                    elif (ours or node.level) and alias.name in _KINDS:
                        self.names[alias.asname or alias.name] = _KINDS[alias.name]
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.partition(".")[0] == "flowstone":
                        self.modules.add(alias.asname or "flowstone")

    def found(self, node: ast.stmt, file: Path) -> Found | None:
        """The workflow or step that a statement of the module defines, if it does."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                call = decorator if isinstance(decorator, ast.Call) else None
                kind = self._kind(call.func if call else decorator)
                if kind in (Kind.WORKFLOW, Kind.STEP):
                    plain = Found(kind, node.name, node.name, file, node.lineno, _first_line(ast.get_docstring(node)))
                    return _described(plain, call.keywords if call else [])
            return None
        match node:
            case ast.Assign(targets=[ast.Name(id=attribute)], value=ast.Call() as call):
                pass
            case ast.AnnAssign(target=ast.Name(id=attribute), value=ast.Call() as call):
                pass
            case _:
                return None
        match call.args:
            case [ast.Constant(value=str(name)), *_] if self._kind(call.func) is Kind.GRAPH:
                plain = Found(Kind.GRAPH, unicodedata.normalize("NFC", name), attribute, file, node.lineno, "")
                return _described(plain, call.keywords)
        return None

    def _kind(self, called: ast.expr) -> Kind | None:
        match called:
            case ast.Name(id=name):
                return self.names.get(name)
            case ast.Attribute(attr=name):
                inner = called.value
                while isinstance(inner, ast.Attribute):
                    inner = inner.value
                if isinstance(inner, ast.Name) and inner.id in self.modules:
                    return _KINDS.get(name)
        return None


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported, those under `if`, `try` and `with` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            for field in ("body", "orelse", "finalbody"):
                yield from _top_level(getattr(node, field, []))
            for handler in getattr(node, "handlers", []):
                yield from _top_level(handler.body)


def _described(plain: Found, keywords: list[ast.keyword]) -> Found:
    """With the literal `name=` and `description=` of its decorator. A computed name is found out when the file is loaded."""
    for keyword in keywords:
        match keyword:
            case ast.keyword(arg="name", value=ast.Constant(value=str(name))) if name and plain.kind is not Kind.GRAPH:
                plain = replace(plain, name=unicodedata.normalize("NFC", name))
            case ast.keyword(arg="description", value=ast.Constant(value=str(text))):
                plain = replace(plain, doc=_first_line(text))
    return plain


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0].strip()
