"""Loads the files of a folder of workflows, each only when something in it is asked for.

The files are modules of a private package, so that a file named like a module of Python or of the project hides nothing, and
recorded exception classes have the same names in every process. They are compiled from their source each time: no .pyc.
Not here: which file holds what (names.py).
"""

import ast
import importlib
import shlex
import signal
import sys
import threading
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from flowstone.authoring.definition import WorkflowDefinition, definition_of
from flowstone.authoring.names import GRAPH_FILES, Entry, Found, Index, index_file
from flowstone.errors import FlowError, LoadFailed
from flowstone.journal.plan import Plan
from flowstone.journal.versions import Version, version_of

PACKAGE = "flowstone_workflows"
"""Frozen: journals name exception classes by it."""


class Library:
    """The workflows and steps of one folder. `root`, the project, is appended to `sys.path` for the project's own modules.

    What is loaded stays: an edited file counts from the next process on. There is one package for all libraries of a process,
    and it belongs to the one that loaded last; the functions of the others keep working, but an import that they make while
    they run, and a look-up of a class by its module's name, find the newest library's files.
    """

    def __init__(self, folder: Path, root: Path, *, read_graph: Callable[[Path, str], Any] | None = None) -> None:
        """`read_graph` makes the graph of a file, given its name; without it graphs in files cannot be loaded."""
        self.folder = folder.absolute()
        self.root = root.absolute()
        self._read_graph = read_graph
        self.index = Index(self.folder, index_file(self.root))
        self._sources: dict[str, str] = {}
        self._modules: dict[str, ModuleType] = {}
        self._on_path = False
        self._loaded: dict[tuple[str, str], tuple[Any, Found]] = {}
        self.importing: Path | None = None
        """The file whose import goes on just now: for whoever looks on from another thread."""

    def load(self, name: str) -> Any:
        """The workflow `name`: the decorated function (or the graph) itself.

        Raises NotFound for an unknown name, LoadFailed if the name is defined twice or its file cannot be imported.
        """
        return self._load("workflow", name)[0]

    def step(self, name: str) -> Any:
        """The step `name`: the decorated function itself. Raises like `load`."""
        return self._load("step", name)[0]

    def require_single_steps(self, name: str) -> None:
        """Raise LoadFailed if the workflow `name` gives a step by a name that more than one file defines."""
        steps = Counter(one.name for file in self.index.scans() for one in file.steps)
        doubles = {step for step, times in steps.items() if times > 1}
        if not doubles:
            return
        loaded, found = self._load("workflow", name)
        definition = definition_of(loaded)
        plan = definition.plan if isinstance(definition, WorkflowDefinition) else None
        if plan is not None:  # a graph
            named = {str(entry.operation.function) for entry in plan.entries}
        else:
            named = _steps_named(self._sources[_module_name(found)])
        for step in sorted(doubles & named):
            self.index.find_step(step)

    def version(self, name: str) -> Version:
        """The version of the workflow `name`, from the source that was loaded, whatever the file says by now."""
        loaded, found = self._load("workflow", name)
        definition = definition_of(loaded)
        if isinstance(definition, WorkflowDefinition) and definition.version is not None:
            return definition.version
        return version_of(self._sources[_module_name(found)], found.attribute)

    def plan(self, name: str) -> Plan:
        """What the body of the workflow `name` asks for, read from the source that was loaded."""
        from flowstone.journal.plan_reading import plan_of

        loaded, found = self._load("workflow", name)
        definition = definition_of(loaded)
        if isinstance(definition, WorkflowDefinition) and definition.plan is not None:
            return definition.plan
        names = {known for one in self.index.workflows() for known in (one.name, one.attribute)}
        return plan_of(self._sources[_module_name(found)], found.attribute, workflows=names)

    def entries(self) -> list[Entry]:
        """The folder's workflows and its broken files, for `flow list`; imports nothing."""
        return self.index.entries()

    def names(self) -> frozenset[str]:
        """The names of the workflows that the folder has; imports nothing."""
        return frozenset(one.name for one in self.index.workflows())

    def _load(self, what: str, name: str) -> tuple[Any, Found]:
        key = (what, unicodedata.normalize("NFC", name))
        with _lock:
            if key not in self._loaded:
                found = self.index.find(name) if what == "workflow" else self.index.find_step(name)
                if found.file.name.endswith(GRAPH_FILES) and self._read_graph is not None:
                    self._loaded[key] = (self._read_graph(found.file, found.name), found)
                else:
                    self._loaded[key] = (_checked(self._import(found), found), found)
            return self._loaded[key]

    def _import(self, found: Found) -> ModuleType:
        _bind(self)
        before = set(_present())
        self.importing = found.file
        try:
            with _interrupts() as interrupted:
                return importlib.import_module(_module_name(found))
        except BaseException as error:
            # What this import brought in goes with it, so that a later try sees every file as it is then.
            for name in set(_present()) - before:
                _forget(name)
            if interrupted and isinstance(error, KeyboardInterrupt):
                raise
            raise _refusal(found, error, self.folder) from error
        finally:
            self.importing = None

    def _spec(self, name: str) -> ModuleSpec | None:
        """How the package's module `name` is loaded: a package, a file or a plain folder, in Python's own order."""
        place = self.folder.joinpath(*name.split(".")[1:])
        inside = [str(place)]
        if (file := place / "__init__.py").is_file():
            return spec_from_file_location(
                name, file, loader=_FromSource(name, str(file), self._sources), submodule_search_locations=inside
            )
        if name != PACKAGE and (file := place.with_name(place.name + ".py")).is_file():
            return spec_from_file_location(name, file, loader=_FromSource(name, str(file), self._sources))
        if place.is_dir():
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = inside
            return spec
        return None


class _FromSource(SourceFileLoader):
    """Compiles the file's bytes, and keeps the text that was compiled; reads and writes no .pyc.

    A .pyc is trusted by size and time of change: an edit within a second that keeps the size would go unseen.
    """

    def __init__(self, name: str, path: str, sources: dict[str, str]) -> None:
        super().__init__(name, path)
        self._sources = sources

    def get_code(self, fullname: str) -> CodeType:
        data = self.get_data(self.path)
        code: CodeType = self.source_to_code(data, self.path)
        self._sources[fullname] = decode_source(data)
        return code


class _Finder(MetaPathFinder):
    """Finds the modules of the private package in the folder of the library that it is bound to; no others."""

    bound: Library | None = None

    def find_spec(self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /) -> ModuleSpec | None:
        if self.bound is None or fullname.partition(".")[0] != PACKAGE:
            return None
        return self.bound._spec(fullname)


_lock = threading.RLock()
_finder = _Finder()


def _bind(library: Library) -> None:
    """Make the package that library's: its modules come in, those of the one before are kept for its return."""
    before = _finder.bound
    if before is library:
        return
    if before is None:
        sys.meta_path.insert(0, _finder)
    else:
        before._modules = {name: sys.modules.pop(name) for name in _present()}
        if before._on_path and str(before.root) in sys.path:
            sys.path.remove(str(before.root))
    sys.modules.update(library._modules)
    library._on_path = str(library.root) not in sys.path
    if library._on_path:
        sys.path.append(str(library.root))
    _finder.bound = library
    importlib.invalidate_caches()


def _present() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == PACKAGE]


def _forget(name: str) -> None:
    sys.modules.pop(name, None)
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        vars(sys.modules[parent]).pop(child, None)


def _module_name(found: Found) -> str:
    stem = found.file.parent.name if found.file.name == "__init__.py" else found.file.stem
    return f"{PACKAGE}.{stem}"


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collects the SIGINTs that arrive inside: a KeyboardInterrupt without one was raised by the module itself."""
    arrived: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield arrived
        return

    def note(number: int, frame: Any) -> Any:
        arrived.append(number)
        return handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield arrived
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # else the module has set its own
            signal.signal(signal.SIGINT, handler)


def _checked(module: ModuleType, found: Found) -> Any:
    """The object that the syntax tree promised, or LoadFailed."""
    loaded = getattr(module, found.attribute, None)
    definition = definition_of(loaded)
    what = found.kind
    if definition is None:
        raise LoadFailed(
            f"{found}: {found.attribute} looks like a {what}, but after the import it carries no definition",
            hint=f"from flowstone import {what}",
        )
    name = unicodedata.normalize("NFC", definition.name)
    if name != found.name:
        raise LoadFailed(
            f'{found}: the {what} {found.attribute} names itself "{name}" when it is imported, the source reads "{found.name}": '
            f"name= must be a literal, since names are found without importing",
            hint=f'@{what}(name="{name}")',
        )
    return loaded


def _refusal(found: Found, error: BaseException, folder: Path) -> LoadFailed:
    """Why the file of `found` cannot be imported: the sentence with file and line, and the cure where there is one."""
    place = _place(error, folder) or str(found.file)
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    details: list[str] = []
    hint = error.hint if isinstance(error, FlowError) else None
    if isinstance(error, FlowError):
        details += error.details
    if isinstance(error, SyntaxError):
        reason = f"SyntaxError: {error.msg}"
    elif isinstance(error, ModuleNotFoundError) and error.name:
        top, _, rest = error.name.partition(".")
        if top == PACKAGE:
            reason = f"there is no {rest.replace('.', '/')}.py in {folder}"
        elif (folder / f"{top}.py").is_file() or (folder / top).is_dir():
            hint = f"from .{error.name} import ..."
            details.append(f"{top} lies beside the workflow: its import begins with a dot")
        else:
            reason += f" (searched by {sys.executable})"
            hint = f"{shlex.quote(sys.executable)} -m pip install {top}"
    frames = traceback.extract_tb(error.__traceback__)
    if frames and f"{frames[-1].filename}:{frames[-1].lineno}" != place and not isinstance(error, ImportError | SyntaxError):
        details.append(f"raised at {frames[-1].filename}:{frames[-1].lineno}")
    return LoadFailed(f'cannot load the {found.kind} "{found.name}": {place}: {reason}', hint=hint, details=details)


def _steps_named(source: str) -> set[str]:
    """The texts that a file gives to `flow.do` and `flow.map` in place of a function."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and len(node.args) > 1)
    asked = (node.args[1] for node in calls if isinstance(node.func, ast.Attribute) and node.func.attr in ("do", "map"))
    return {node.value for node in asked if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _place(error: BaseException, folder: Path) -> str | None:
    """`file:line` of the innermost line in the folder; of a SyntaxError the line that is wrong."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}" if error.lineno else error.filename
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return f"{frame.filename}:{frame.lineno}"
    return None
