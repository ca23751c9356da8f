"""What a name in a body may stand for, as far as a plan cares: the flow, one of its verbs, a function of the file, a task."""

import ast
from dataclasses import dataclass
from enum import Enum

from flowstone.journal.plan_calls import Function, last_part


class Sign(Enum):
    """A value that has no parts."""

    FLOW = "the flow"
    MAYBE = "perhaps the flow, or something of it"
    OPERATION = "a coroutine that flow gave"
    TASK = "a task"
    CANCEL = "nothing: flow.cancel raises"


@dataclass(frozen=True, slots=True)
class Verb:
    """`flow.NAME`, not yet called."""

    name: str


class Scope:
    """The names of a function, and those of the function around it."""

    def __init__(self, outer: "Scope | None" = None) -> None:
        self.outer = outer
        self.names: dict[str, Value] = {}
        self.elsewhere: set[str] = set()
        """Declared global or nonlocal."""

    def __getitem__(self, name: str) -> "Value":
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def doubt(self, before: "dict[str, Value]") -> None:
        """Names that stood for something in `before` and have changed since may stand for either."""
        for name, value in before.items():
            if value not in (None, Sign.OPERATION, Sign.TASK) and self.names.get(name) is not value:
                self.names[name] = Sign.MAYBE


@dataclass(frozen=True, slots=True, eq=False)
class Callee:
    """A function whose code can be followed, with the scope that it was defined in."""

    node: Function | ast.Lambda
    scope: Scope

    @property
    def name(self) -> str:
        """As people call it."""
        return "lambda" if isinstance(self.node, ast.Lambda) else self.node.name

    @property
    def runs_once(self) -> bool:
        """Whether a call runs its code once and in one go: no generator, no decorator that we do not know."""
        if isinstance(self.node, ast.Lambda):
            return True
        ours = all(last_part(_undressed(one)) in ("workflow", "step") for one in self.node.decorator_list)
        return ours and not _yields(self.node)

    @property
    def parameters(self) -> list[str]:
        """Those that can be given by position."""
        arguments = self.node.args
        return [one.arg for one in (*arguments.posonlyargs, *arguments.args)]

    @property
    def all_parameters(self) -> list[str]:
        """Every name that the call binds."""
        arguments = self.node.args
        stars = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
        return [*self.parameters, *(one.arg for one in (*arguments.kwonlyargs, *stars))]


@dataclass(frozen=True, slots=True, eq=False)
class Called:
    """A coroutine of the author's own: a function with its arguments bound, whose code runs where it is awaited."""

    callee: Callee
    scope: Scope
    line: int


Value = Sign | Verb | Callee | Called | None


def _undressed(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _yields(function: Function) -> bool:
    stack: list[ast.AST] = [*function.body]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            stack += ast.iter_child_nodes(node)
    return False
