"""Reads a body for what a replay cannot repeat: the clock, randomness, the environment, files, the order of a set.

From the syntax tree alone, like the plan: nothing is imported and nothing is run. Looked at are the body, and what it calls of
its file; not what it gives to a step. It says too little rather than too much.
"""

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from flowstone.journal.lint_names import (
    BUILTINS,
    FIRST_ARGUMENTS,
    MODULES,
    NAMES,
    NO_ORDER,
    OF_PATHS,
    OF_PATHS_ALONE,
    READ,
    SEEDED,
    Habit,
)
from flowstone.journal.lint_scopes import FileNames, annotated_as, bindings, inside, parameters_of
from flowstone.journal.plan_calls import Function, last_part, text
from flowstone.journal.versions import definitions, first_line


@dataclass(frozen=True, slots=True)
class Doubt:
    """One place where a body asks something else than the journal."""

    line: int
    call: str
    """As written, cut if it is long: `datetime.now()`."""
    message: str
    """What is wrong with it, without the call."""
    cure: str
    """What to write instead."""


def doubts_in(source: str, name: str, line: int | None = None) -> list[Doubt]:
    """The doubts about the body `name` in a module's source text, by line; `line` as for `version_of`.

    None for what is no function, or for source that cannot be read: whoever loads it says so.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
    except (SyntaxError, RecursionError, MemoryError):
        return []
    placed = [one for one, qualified in definitions(tree) if qualified == name and line in (None, one.lineno, first_line(one))]
    if not placed or not isinstance(placed[-1], Function):
        return []
    module = _Module(tree)
    found = {(doubt.line, doubt.call): doubt for doubt in module.read(placed[-1])}
    return [found[place] for place in sorted(found)]


_NO_FUNCTION = next(one for one in ast.walk(ast.parse("def module(): ...")) if isinstance(one, ast.FunctionDef))
"""Stands for the file itself where a function is asked for."""


class _Module:
    """A file: its names, its functions, and which of its variables are sets and paths."""

    def __init__(self, tree: ast.Module) -> None:
        self.names = FileNames(tree)
        self.functions = self.names.functions
        reader = _Reader(self, _Frame(_NO_FUNCTION, {}, frozenset(), frozenset(), frozenset()))
        reader.learn(self.names.values)
        self.sets, self.paths = reader.sets, reader.paths

    def read(self, body: Function) -> Iterator[Doubt]:
        """The doubts about a body, and about what it calls in this file."""
        waiting = [_Frame(body, self.functions, frozenset(), self.sets, self.paths)]
        known = {body}
        for frame in waiting:  # grows while it is walked
            reader = _Reader(self, frame)
            yield from reader.doubts()
            for called in reader.called:
                if called.function not in known:
                    known.add(called.function)
                    waiting.append(called)


@dataclass(frozen=True, slots=True)
class _Frame:
    """A function to be read, with what is around it."""

    function: Function
    functions: Mapping[str, Function]
    """Those that it can call, by name."""
    bound: frozenset[str]
    sets: frozenset[str]
    paths: frozenset[str]


@dataclass(slots=True)
class _Reader:
    """Reads one function. Without recursion: a long sum is a deep tree."""

    module: _Module
    frame: _Frame
    called: list[_Frame] = field(default_factory=list)
    """Functions of the file that it calls."""
    bound: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    functions: Mapping[str, Function] = field(default_factory=dict)
    _unordered: set[int] = field(default_factory=set)
    """Ids of nodes whose order does not matter where they stand."""

    def doubts(self) -> Iterator[Doubt]:
        """All in the function's own code."""
        function, frame = self.frame.function, self.frame
        nodes = [*inside(function.body)]
        own = {one.name: one for one in nodes if isinstance(one, Function)}
        values: dict[str, list[ast.expr | None]] = {}
        for node in nodes:
            for name, value in bindings(node):
                values.setdefault(name, []).append(value)
        parameters = parameters_of(function)
        here = parameters.keys() | values.keys()
        self.functions = {name: one for name, one in frame.functions.items() if name not in here} | own
        self.bound = frame.bound | here | own.keys()
        self.sets = (frame.sets - here) | {name for name, one in parameters.items() if annotated_as(one, _SETS)}
        self.paths = (frame.paths - here) | {name for name, one in parameters.items() if annotated_as(one, _PATHS)}
        self.learn({name: all_of for name, all_of in values.items() if name not in parameters})
        for node in nodes:
            yield from self._doubts(node)

    def learn(self, values: Mapping[str, list[ast.expr | None]]) -> None:
        """Which names are sets and which are paths: those that are bound to nothing else."""
        for name, bound_to in values.items():
            if all(one is not None and self._is_set(one) for one in bound_to):
                self.sets |= {name}
            if all(one is not None and self._is_path(one) for one in bound_to):
                self.paths |= {name}

    def _doubts(self, node: ast.AST) -> Iterator[Doubt]:
        match node:
            case ast.Call():
                yield from self._call(node)
            case ast.Attribute() | ast.Name():
                habit = READ.get(self._full_name(node) or "")
                if habit is not None:
                    yield _doubt(node, text(node), habit)
            case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated):
                yield from self._over(iterated)
            case ast.ListComp() | ast.DictComp() | ast.GeneratorExp() | ast.SetComp():
                if id(node) not in self._unordered and not (isinstance(node, ast.SetComp) and not _awaits(node)):
                    for generator in node.generators:
                        yield from self._over(generator.iter)
                elif isinstance(node, ast.SetComp):
                    self._unordered.update(id(generator.iter) for generator in node.generators)
            case ast.Starred(value=value) if id(node) not in self._unordered:
                yield from self._over(value)
            case ast.Set(elts=elements):
                self._unordered.update(map(id, elements))
            case ast.ExceptHandler(type=kind, body=body) if _is_everything(kind) and not _raises(body):
                yield _doubt(node, "except:" if kind is None else f"except {text(kind)}:", Habit.SWALLOW)
            case ast.Global(names=names):
                yield _doubt(node, f"global {', '.join(names)}", Habit.GLOBAL)

    def _call(self, node: ast.Call) -> Iterator[Doubt]:
        name = last_part(node.func)
        if isinstance(node.func, ast.Name):
            if name in NO_ORDER and name not in self.bound:
                self._unordered.update(map(id, node.args))
            if name in ("list", "tuple", "enumerate", "iter", "next", "zip", "map", "filter") and name not in self.bound:
                for argument in node.args:
                    yield from self._over(argument)
            if (function := self.functions.get(name)) is not None:
                yield from self._own(node, function)
        elif name in ("map", "collect"):
            for argument in node.args[2:3]:
                yield from self._over(argument)
        elif name in ("join", "extend"):
            for argument in node.args:
                yield from self._over(argument)
        if (habit := self._habit(node)) is not None:
            yield _doubt(node, f"{text(node.func)}()", habit)

    def _own(self, node: ast.Call, function: Function) -> Iterator[Doubt]:
        """A call of a function of the file."""
        marks = {last_part(one.func if isinstance(one, ast.Call) else one) for one in function.decorator_list}
        if "step" in marks:
            yield _doubt(node, f"{function.name}()", Habit.DIRECT, name=function.name)
        elif not marks:
            inner = function.name not in self.module.functions or self.module.functions[function.name] is not function
            around = (self.bound, self.sets, self.paths) if inner else (frozenset(), self.module.sets, self.module.paths)
            self.called.append(_Frame(function, self.functions if inner else self.module.functions, *around))

    def _habit(self, node: ast.Call) -> Habit | None:
        func, given = node.func, len(node.args) + len(node.keywords)
        if isinstance(func, ast.Attribute) and (
            func.attr in OF_PATHS_ALONE or (func.attr in OF_PATHS and self._is_path(func.value))
        ):
            return Habit.FILE
        full = self._full_name(func)
        if full is None or full.endswith(("Error", "Exception", "Warning")) or (full in SEEDED and given):
            return None
        if full in FIRST_ARGUMENTS:
            return Habit.CLOCK if given < FIRST_ARGUMENTS[full] else None
        if full == "asyncio.sleep":
            return None if _is_zero(node.args) else Habit.WAIT
        if full in NAMES:
            return NAMES[full]
        module, _, builtin = full.partition(".")
        if module == "builtins":
            return BUILTINS.get(builtin)
        return next((MODULES[one] for one in _prefixes(full) if one in MODULES), None)

    def _full_name(self, node: ast.expr) -> str | None:
        return self.module.names.full_name(node, self.bound)

    def _over(self, node: ast.expr) -> Iterator[Doubt]:
        """Something goes over it in its order."""
        if id(node) not in self._unordered and self._is_set(node):
            self._unordered.add(id(node))
            yield _doubt(node, text(node), Habit.SET)

    def _is_set(self, node: ast.expr) -> bool:
        """Whether it is certainly a set, and not one of numbers alone, whose order is the same everywhere."""
        match node:
            case ast.Set(elts=elements):
                return not all(isinstance(one, ast.Constant) and isinstance(one.value, int | None) for one in elements)
            case ast.SetComp():
                return True
            case ast.Subscript(value=ast.Await(value=ast.Call(func=func))):
                return self._full_name(func) == "asyncio.wait"  # (done, pending)
            case ast.Name(id=name):
                return name in self.sets
            case ast.Call(func=ast.Name(id="set" | "frozenset" as name)):
                return name not in self.bound and self.module.names.is_builtin(name)
            case ast.Call(func=ast.Attribute(value=base, attr=method)):
                return method in _SET_METHODS and self._is_set(base)
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
                return any(self._is_set(one) or _is_keys(one) for one in (left, right))
        return False

    def _is_path(self, node: ast.expr) -> bool:
        """Whether it is certainly a path."""
        while True:
            match node:
                case ast.Name(id=name):
                    return name in self.paths
                case ast.Call(func=ast.Attribute(value=base)) if self._full_name(node.func) != "pathlib.Path":
                    node = base
                case ast.Call(func=func):
                    return self._full_name(func) == "pathlib.Path"
                case ast.BinOp(left=left, op=ast.Div()):
                    node = left
                case ast.Attribute(value=base, attr="parent"):
                    node = base
                case _:
                    return False


_SETS = frozenset({"set", "frozenset", "Set", "AbstractSet", "FrozenSet"})
_PATHS = frozenset({"Path"})
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})


def _awaits(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Await) for one in ast.walk(node))


def _is_everything(kind: ast.expr | None) -> bool:
    """Whether an `except` of that class catches what is no Exception."""
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(one is None or last_part(one) == "BaseException" for one in kinds)


def _raises(body: Iterable[ast.AST]) -> bool:
    return any(isinstance(one, ast.Raise) for one in inside(body))


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items")


def _is_zero(arguments: list[ast.expr]) -> bool:
    return bool(arguments) and isinstance(arguments[0], ast.Constant) and arguments[0].value == 0


def _prefixes(full: str) -> Iterator[str]:
    while "." in full:
        full = full.rpartition(".")[0]
        yield full


def _doubt(node: ast.AST, call: str, habit: Habit, **names: str) -> Doubt:
    return Doubt(getattr(node, "lineno", 0), call, habit.said, habit.cure.format(**names) if names else habit.cure)
