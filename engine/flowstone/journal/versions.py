"""The version of a body: a hash of what its source does, the same on every Python version.

It is our own walk over the fields of the syntax tree that FIELDS lists, so that a new Python's extra fields change nothing.
Counted: every statement and expression of the body, functions and classes inside it (with their decorators), defaults, and
the annotations of parameters and of the return (they decide how the input is read and the output written).
Not counted: comments, docstrings, formatting, the body's own decorators, annotations of local variables, and whatever the
body calls (helpers of the module, steps): those may change under a run.
"""

import ast
import hashlib
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flowstone.errors import LoadFailed

FIELDS = {
    name: tuple(fields.split())
    for name, fields in {
        "FunctionDef": "name args returns decorator_list body",
        "AsyncFunctionDef": "name args returns decorator_list body",
        "Lambda": "args body",
        "ClassDef": "name bases keywords decorator_list body",
        "arguments": "posonlyargs args vararg kwonlyargs kw_defaults kwarg defaults",
        "arg": "arg annotation",
        "Return": "value",
        "Delete": "targets",
        "Assign": "targets value",
        "AugAssign": "target op value",
        "AnnAssign": "target annotation value",
        "TypeAlias": "name value",
        "For": "target iter body orelse",
        "AsyncFor": "target iter body orelse",
        "While": "test body orelse",
        "If": "test body orelse",
        "With": "items body",
        "AsyncWith": "items body",
        "withitem": "context_expr optional_vars",
        "Match": "subject cases",
        "match_case": "pattern guard body",
        "MatchValue": "value",
        "MatchSingleton": "value",
        "MatchSequence": "patterns",
        "MatchMapping": "keys patterns rest",
        "MatchClass": "cls patterns kwd_attrs kwd_patterns",
        "MatchStar": "name",
        "MatchAs": "pattern name",
        "MatchOr": "patterns",
        "Raise": "exc cause",
        "Try": "body handlers orelse finalbody",
        "TryStar": "body handlers orelse finalbody",
        "ExceptHandler": "type name body",
        "Assert": "test msg",
        "Import": "names",
        "ImportFrom": "module names level",
        "alias": "name asname",
        "Global": "names",
        "Nonlocal": "names",
        "Expr": "value",
        "Pass": "",
        "Break": "",
        "Continue": "",
        "BoolOp": "op values",
        "NamedExpr": "target value",
        "BinOp": "left op right",
        "UnaryOp": "op operand",
        "IfExp": "test body orelse",
        "Dict": "keys values",
        "Set": "elts",
        "ListComp": "elt generators",
        "SetComp": "elt generators",
        "DictComp": "key value generators",
        "GeneratorExp": "elt generators",
        "comprehension": "target iter ifs is_async",
        "Await": "value",
        "Yield": "value",
        "YieldFrom": "value",
        "Compare": "left ops comparators",
        "Call": "func args keywords",
        "keyword": "arg value",
        "FormattedValue": "value conversion format_spec",
        "JoinedStr": "values",
        "Interpolation": "value str conversion format_spec",
        "TemplateStr": "values",
        "Constant": "value",
        "Attribute": "value attr",
        "Subscript": "value slice",
        "Starred": "value",
        "Name": "id",
        "List": "elts",
        "Tuple": "elts",
        "Slice": "lower upper step",
    }.items()
}
"""Class of the syntax tree → its fields that count, in the order hashed. Frozen: a change is a new version of every body.

Operators (`Add`, `And`, …) have no fields and need no entry. A class that is not here (a future Python's) counts with all its
fields: better a version that differs than two bodies that look the same.
"""


@dataclass(frozen=True, slots=True)
class Version:
    """A body's version: 12 hex digits, and the text of the function with its decorators."""

    hash: str
    source: str


def version_of(source: str, name: str, line: int | None = None) -> Version:
    """The version of the function `name` (or its qualified name) in a module's source text.

    `line`, if given, is where the function or its first decorator starts; it decides between several of one name, else
    the last one counts. `name` may also be a variable of the module: then its assignment counts, as for a graph.
    Raises LoadFailed if there is none, SyntaxError if the source is no Python.
    """
    with warnings.catch_warnings(action="ignore"):  # reading is no compilation: nothing is to be said twice
        tree = ast.parse(source)
    placed = [one for one in definitions(tree) if line is None or line in (one[0].lineno, first_line(one[0]))]
    found = [node for node, qualified in placed if qualified == name]
    found = found or [node for node, qualified in placed if qualified.rpartition(".")[2] == name]
    if not found:
        raise LoadFailed(f"there is no function {name}" + (f" at line {line}" if line else "") + " in the source")
    return Version(hash=hash_of(found[-1]), source=_text(source, found[-1]))


def hash_of(node: ast.stmt) -> str:
    """The 12 hex digits for a function, or an assignment with a value, of a syntax tree; without its decorators."""
    digest = hashlib.sha256()
    (root,) = _statements([node], in_class=False)
    for token in _tokens(root):
        digest.update(token.encode("ascii"))
    return digest.hexdigest()[:12]


def definitions(tree: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    """Every function, and every assignment to one variable, with its qualified name, in the order of the source."""
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, prefix = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, prefix + node.name
            prefix += f"{node.name}.<locals>."
        elif isinstance(node, ast.ClassDef):
            prefix += f"{node.name}."
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node, prefix + node.targets[0].id
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node, prefix + node.target.id
        stack += [(child, prefix) for child in reversed([*ast.iter_child_nodes(node)]) if not isinstance(child, ast.expr)]


def first_line(node: ast.stmt) -> int:
    """The line where a function or its first decorator starts."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _text(source: str, node: ast.stmt) -> str:
    # The parser counts lines by \n and \r only; str.splitlines would also cut at \f and others.
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return textwrap.dedent("\n".join(lines[first_line(node) - 1 : node.end_lineno])) + "\n"


class _Token(str):
    """A piece of text that goes into the hash as it is."""

    __slots__ = ()


def _tokens(root: ast.AST) -> Iterator[str]:
    """The tree as text that no other tree gives. Without recursion: a long chain of `+` is a deep tree."""
    stack: list[Any] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, _Token):
            yield item
        elif isinstance(item, list):
            stack += [_Token("]"), *reversed(item), _Token("[")]
        elif isinstance(item, ast.AST):
            node = _plain(item)
            stack += [_Token(")"), *reversed(_children(node, item is root)), _Token(f"({type(node).__name__} ")]
        else:
            yield _constant(item)


def _children(node: ast.AST, is_root: bool) -> list[Any]:
    name = type(node).__name__
    children: list[Any] = []
    for field in FIELDS.get(name, node._fields):
        value: Any = getattr(node, field, None)
        if field == "decorator_list" and is_root:
            continue
        if field in ("body", "orelse", "finalbody") and isinstance(value, list):
            value = _statements(value, in_class=name == "ClassDef")
        elif name in ("JoinedStr", "TemplateStr") and field == "values":
            value = _merged(value)
        children.append(value)
    return children


def _statements(body: list[ast.stmt], *, in_class: bool) -> list[ast.stmt]:
    """The statements that do something: no docstrings and other bare constants; local variables without annotations."""
    kept: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.AnnAssign) and not in_class:
            if node.value is not None:
                kept.append(ast.Assign(targets=[node.target], value=node.value))
            continue
        kept.append(node)
    return kept


def _plain(node: ast.AST) -> ast.AST:
    """An f-string without a value in it is a plain text; an empty format is none. Pythons differ in how they say so."""
    if isinstance(node, ast.JoinedStr):
        values = _merged(node.values)
        if not values:
            return ast.Constant(value="")
        if len(values) == 1 and isinstance(values[0], ast.Constant):
            return values[0]
    if isinstance(node, ast.FormattedValue):
        spec = node.format_spec
        if isinstance(spec, ast.JoinedStr) and not _merged(spec.values):
            return ast.FormattedValue(value=node.value, conversion=node.conversion, format_spec=None)
    return node


def _merged(values: list[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string with neighbouring texts joined and empty ones gone: Pythons split them differently."""
    merged: list[ast.expr] = []
    for value in values:
        last = merged[-1] if merged else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            if isinstance(last, ast.Constant) and isinstance(last.value, str):
                merged[-1] = ast.Constant(value=last.value + value.value)
            elif value.value:
                merged.append(value)
        else:
            merged.append(value)
    return merged


def _constant(value: object) -> str:
    """Type and value in ASCII. Not repr: what it escapes in a text follows the Python's Unicode tables."""
    # Decimal digits of a huge integer are refused by Python; hexadecimal ones are not.
    text = hex(value) if isinstance(value, int) else ascii(value)
    return f"<{type(value).__name__} {text}>"
