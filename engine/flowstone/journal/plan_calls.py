"""What one call on the flow says: name, function, policy, undo, gate. From its syntax tree alone."""

import ast
from collections.abc import Collection, Mapping

from flowstone.journal.plan import HOLE, Planned
from flowstone.journal.plan_places import GAP

CUT = 80
"""Characters of source text that a plan keeps of one expression."""

PREFIXES = {
    "do": "",
    "map": "",
    "collect": "",
    "shell": "",
    "sleep": "sleep:",
    "sleep_until": "sleep:",
    "suspend": "suspend:",
    "approval": "approve:",
    "set_state": "state:",
}
"""The verbs of a flow that ask for an operation, with what their keys begin with."""

QUIET = frozenset({"now", "random", "uuid", "log", "run_id", "user", "input", "state"})
"""What a flow has that asks for nothing."""

_KINDS = {"map": "map", "collect": "map", "shell": "shell", "suspend": "suspend", "approval": "approval", "set_state": "state"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Calls:
    """Reads calls in one file: its functions, by name, tell which steps and workflows are its own."""

    def __init__(self, functions: Mapping[str, Function], workflows: Collection[str]) -> None:
        self._functions = functions
        self._workflows = workflows

    def planned(self, call: ast.Call, verb: str) -> Planned:
        """The operation that `flow.VERB(…)` asks for, with gaps (GAP) in its name, and without its key."""
        arguments = _plain_arguments(call)
        options = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        first = arguments[0] if arguments else options.get("reason")  # the gates' first parameter may be named
        name = GAP if first is None else _name(first)
        function = arguments[1] if len(arguments) > 1 and verb in ("do", "map", "collect") else None
        policy = (self._defined_policy(function) | options) if function is not None else options

        def said(option: str) -> str | None:
            value = policy.get(option)
            return None if value is None or _is_none(value) else text(value)

        kind = _KINDS.get(verb, "sleep" if verb.startswith("sleep") else "step")
        return Planned(
            kind="child" if verb == "do" and self._is_workflow(function) else kind,
            line=call.lineno,
            name=name,
            text="" if first is None or name != GAP else text(first),
            function=_program(arguments) if verb == "shell" else None if function is None else self._recorded(function),
            retries=said("retries"),
            retry_delay=said("retry_delay"),
            timeout=said("timeout"),
            undo=said("undo"),
            on_error=said("on_error"),
            description=said("description"),
            items=text(arguments[2]) if kind == "map" and len(arguments) > 2 else None,
            duration=_second(arguments, options, "duration", "moment") if kind == "sleep" else None,
            expiry=said("expiry"),
            approvers=said("approvers"),
            answer=said("schema"),
        )

    def _is_workflow(self, function: ast.expr | None) -> bool:
        match function:
            case ast.Constant(value=str(name)):
                return name in self._workflows
            case ast.Name(id=name) | ast.Attribute(attr=name):
                defined = self._functions.get(name)
                ours = defined is not None and any(last_part(_called(one)) == "workflow" for one in defined.decorator_list)
                return ours or name in self._workflows
        return False

    def _recorded(self, function: ast.expr) -> str:
        """What the journal calls the function, if it stands in this file; else its source text."""
        name = _decorator_options(self._functions, function).get("name")
        return text(name if name is not None else function)

    def _defined_policy(self, function: ast.expr) -> dict[str, ast.expr]:
        """What `@step(…)` says where the function is defined in this file; the call has the last word."""
        options = _decorator_options(self._functions, function)
        return {name: options[name] for name in ("retries", "retry_delay", "timeout") if name in options}


def shown_name(name: str | None) -> str | None:
    """A name with gaps as a plan has it."""
    return None if name is None or name == GAP else name.replace(GAP, HOLE)


def text(node: ast.AST) -> str:
    """The source text of an expression in one line, of a text literal its value; cut if it is long."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        said = node.value
    elif isinstance(node, ast.Lambda):
        return "lambda"
    else:
        try:
            said = ast.unparse(node)
        except (RecursionError, ValueError):  # nested too deep; a number with too many digits
            return "…"
    said = " ".join(said[: 4 * CUT].split())
    return said if len(said) <= CUT else said[: CUT - 1] + "…"


def last_part(called: ast.expr) -> str:
    """`gather` of `asyncio.gather`; nothing of what has no name."""
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _decorator_options(functions: Mapping[str, Function], function: ast.expr) -> dict[str | None, ast.expr]:
    defined = functions.get(function.id) if isinstance(function, ast.Name) else None
    for decorator in defined.decorator_list if defined is not None else ():
        if isinstance(decorator, ast.Call) and last_part(decorator.func) in ("step", "workflow"):
            return {keyword.arg: keyword.value for keyword in decorator.keywords}
    return {}


def _plain_arguments(call: ast.Call) -> list[ast.expr]:
    """The positional arguments up to the first `*`: what comes behind it stands nobody knows where."""
    plain = []
    for argument in call.args:
        if isinstance(argument, ast.Starred):
            break
        plain.append(argument)
    return plain


def _name(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(name)):
            return GAP if GAP in name else name  # the run will refuse it
        case ast.JoinedStr(values=values):
            return _joined([_name(value) for value in values])
        case ast.FormattedValue(value=ast.Constant(value=str(name)), conversion=-1, format_spec=None):
            return name
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined([_name(left), _name(right)])
    return GAP


def _joined(parts: list[str]) -> str:
    joined = "".join(parts)
    while GAP * 2 in joined:
        joined = joined.replace(GAP * 2, GAP)
    return joined


def _program(arguments: list[ast.expr]) -> str | None:
    match arguments:
        case [_, ast.List(elts=[program, *_]) | ast.Tuple(elts=[program, *_]), *_]:
            return text(program)
    return None


def _second(arguments: list[ast.expr], options: Mapping[str, ast.expr], *names: str) -> str | None:
    if len(arguments) > 1:
        return text(arguments[1])
    return next((text(options[name]) for name in names if name in options), None)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
