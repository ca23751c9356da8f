"""Which workflows and steps a folder holds, read from the syntax trees of its files without importing any.

Not here: importing (loader.py).
"""

import ast
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path

from flowstone.errors import LoadFailed, NotFound


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


def scan(path: Path) -> Scan:
    """What the file at `path` defines. A file that cannot be read or parsed is a Scan with an error, never an exception."""
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


class Index:
    """The names in a folder of workflows: its `*.py` files and its packages' `__init__.py`, except those that begin with `_`.

    Every call reads the files anew, so that nothing here is ever stale.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def scans(self) -> list[Scan]:
        """Every file's scan, by path. Raises LoadFailed if the folder itself cannot be read; a missing one is empty."""
        try:
            paths = sorted(path for path in self.folder.iterdir() if not path.name.startswith(("_", ".")))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LoadFailed(f"cannot read the folder {self.folder}: {error.strerror}") from error
        packages = [path for path in paths if (path / "__init__.py").is_file()]
        scans = [scan(path / "__init__.py") for path in packages]
        for file in (path for path in paths if path.suffix == ".py" and path.is_file()):
            hidden = file.with_suffix("") in packages
            scans.append(Scan(file, error=f"hidden by the package {file.stem}/ beside it") if hidden else scan(file))
        return sorted(scans, key=lambda one: one.file)

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
        """The workflow `name`. Raises NotFound with suggestions, LoadFailed if it is defined more than once."""
        scans = self.scans()
        return self._only(name, "workflow", [one for file in scans for one in file.workflows], scans)

    def find_step(self, name: str) -> Found:
        """The step `name`. Raises NotFound with suggestions, LoadFailed if it is defined more than once."""
        scans = self.scans()
        return self._only(name, "step", [one for file in scans for one in file.steps], scans)

    def _only(self, name: str, what: str, known: list[Found], scans: list[Scan]) -> Found:
        name = unicodedata.normalize("NFC", name)
        found = [one for one in known if one.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            places = ", ".join(map(str, found))
            raise LoadFailed(f'the {what} "{name}" is defined {len(found)} times: {places}', hint="give all but one another name")
        close = get_close_matches(name, {one.name for one in known}, n=3)
        if close:
            hint = "did you mean " + " or ".join(f'"{one}"' for one in close) + "?"
        elif known:
            hint = "flow list"
        else:
            hint = f"put a function with @{what} into a file in {self.folder}"
        broken = [f"{file.file}{f':{file.line}' if file.line else ''}: {file.error}" for file in scans if file.error]
        raise NotFound(f'no {what} "{name}" in {self.folder}', hint=hint, details=broken)


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
