"""What names stand for in a file, for lint.py: imports, variables, parameters; and what of a function is its own code."""

import ast
from collections.abc import Iterable, Iterator

from flowstone.journal.lint_names import MODULES, SEEDED
from flowstone.journal.plan_calls import Function, last_part

_STEP_VERBS = frozenset({"do", "map", "collect"})


class FileNames:
    """The names of a file's top level."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions = {node.name: node for node in tree.body if isinstance(node, Function)}
        self.values: dict[str, list[ast.expr | None]] = {}
        """By the name of a variable, what it is bound to; None for what is not known."""
        self._full: dict[str, str | None] = {}
        """Names by what they stand for; None for what is the file's own."""
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=aliases):
                    for one in aliases:
                        top = one.name.partition(".")[0]
                        self._full[one.asname or top] = one.name if one.asname else top
                case ast.ImportFrom(module=module, names=aliases, level=level):
                    self._full.update({one.asname or one.name: None if level else f"{module}.{one.name}" for one in aliases})
        for node in tree.body:
            for name, value in bindings(node):
                self._full[name] = self._stands_for(value)
                self.values.setdefault(name, []).append(value)
        self._full.update(dict.fromkeys(self.functions))

    def _stands_for(self, value: ast.expr | None) -> str | None:
        """Of a variable of the module: `now = datetime.now`, `client = httpx.Client()`."""
        if isinstance(value, ast.Call):
            made = self.full_name(value.func, frozenset())
            module = None if made is None else next((one for one in MODULES if made.startswith(one + ".")), None)
            return None if made in SEEDED and isinstance(value, ast.Call) and value.args else module
        return None if value is None else self.full_name(value, frozenset())

    def full_name(self, node: ast.expr, bound: frozenset[str]) -> str | None:
        """The full name of `a.b.c`; None for what is bound by the function around, or by the file."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in bound:
            return None
        root = self._full.get(node.id, f"builtins.{node.id}")
        return None if root is None else ".".join([root, *reversed(parts)])

    def is_builtin(self, name: str) -> bool:
        """Whether the file leaves that name to Python."""
        return name not in self._full


def inside(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of a function's own code, in the order of the source: not of the functions in it, nor what it gives to steps."""
    stack = [*reversed([*body])]
    while stack:
        node = stack.pop()
        yield node
        children: list[ast.AST]
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                children = [*node.decorator_list, *node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
            case ast.Call(func=ast.Attribute(attr=verb), args=[_, given, *_]) if verb in _STEP_VERBS and isinstance(
                given, ast.Name | ast.Attribute | ast.Lambda
            ):
                kept = [one for one in node.keywords if one.arg not in ("undo", "on_error")]
                children = [node.func, *(one for one in node.args if one is not given), *kept]
            case ast.AnnAssign():
                children = [one for one in (node.target, node.value) if one is not None]
            case _:
                children = [*ast.iter_child_nodes(node)]
        stack += reversed(children)


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a node binds right here, with their values; None for a value that is not known."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, value
                elif isinstance(target, ast.Tuple) and all(isinstance(one, ast.Name) for one in target.elts):
                    for place, one in enumerate(target.elts):
                        yield one.id, ast.Subscript(value, ast.Constant(place))  # type: ignore[attr-defined]
                else:
                    yield from ((name, None) for name in _stored(target))
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
            yield name, value
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, value
        case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
            yield from ((name, None) for name in _stored(target))
        case ast.withitem(optional_vars=target) if target is not None:
            yield from ((name, None) for name in _stored(target))
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name, None
        case ast.ClassDef(name=name):
            yield name, None
        case ast.Lambda(args=arguments):
            yield from ((one.arg, None) for one in ast.walk(arguments) if isinstance(one, ast.arg))


def _stored(target: ast.AST) -> list[str]:
    return [one.id for one in ast.walk(target) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]


def parameters_of(function: Function) -> dict[str, ast.expr | None]:
    """The parameters of a function with their annotations."""
    return {one.arg: one.annotation for one in ast.walk(function.args) if isinstance(one, ast.arg)}


def annotated_as(annotation: ast.expr | None, names: frozenset[str]) -> bool:
    """Whether an annotation is one of these classes, or an alias such as `set[str]`."""
    named = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return named is not None and last_part(named) in names
