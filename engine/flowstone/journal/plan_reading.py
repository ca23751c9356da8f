"""Reads the plan of a body from the source of its file: the syntax tree is walked in the order in which the body runs.

Nothing is imported and nothing is run. What cannot be known is in the plan as unknown, never left out. Functions that the body
defines, and functions of its file that are given the flow, are followed.
"""

import ast
import warnings
from collections.abc import Callable, Collection, Mapping

from flowstone.errors import LoadFailed
from flowstone.journal.plan import Block, Exit, Node, Plan, Planned, holds_operation
from flowstone.journal.plan_blocks import Arm, Way
from flowstone.journal.plan_calls import Calls, Function, last_part, text
from flowstone.journal.plan_expressions import Expressions, Use
from flowstone.journal.plan_values import Callee, Scope, Sign
from flowstone.journal.versions import definitions, first_line


def plan_of(source: str, name: str, line: int | None = None, *, workflows: Collection[str] = ()) -> Plan:
    """The plan of the function `name` (or its qualified name) in a module's source text; `line` as for `version_of`.

    `workflows` are names that stand for child runs when they are given to `flow.do`; those of the file are known anyway.
    A variable of the module, such as a graph, has a plan of one unknown; so has a module that is nested too deep for Python's
    parser. Raises LoadFailed if there is neither function nor variable, SyntaxError if the source is no Python.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
    except (RecursionError, MemoryError):
        return Plan(name, (Planned("unknown", line or 0, text="the file is nested too deep"),))
    return plan_in([*definitions(tree)], name, line, workflows=workflows)


def plan_in(
    definitions: list[tuple[ast.stmt, str]], name: str, line: int | None = None, *, workflows: Collection[str] = ()
) -> Plan:
    """As `plan_of`, given every definition of the module with its qualified name."""
    placed = [one for one in definitions if line is None or line in (one[0].lineno, first_line(one[0]))]
    found = [one for one in placed if one[1] == name] or [one for one in placed if one[1].rpartition(".")[2] == name]
    if not found:
        raise LoadFailed(f"there is no function {name}" + (f" at line {line}" if line else "") + " in the source")
    node, qualified = found[-1]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return Plan(name.rpartition(".")[2], (Planned("unknown", node.lineno, text=f"{name} is no function"),))
    return _read(node, _functions_around(definitions, qualified), workflows)


def _functions_around(definitions: list[tuple[ast.stmt, str]], qualified: str) -> dict[str, Function]:
    """The functions that the code of a function sees: the module's, and those of the functions around it."""
    around: dict[str, Function] = {}
    for node, name in definitions:
        prefix = name.rpartition(".")[0]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            not prefix or (prefix.endswith("<locals>") and qualified.startswith(f"{prefix}."))
        ):
            around[node.name] = node
    return around


def _read(node: Function, functions: Mapping[str, Function], workflows: Collection[str]) -> Plan:
    module = Scope()
    module.names.update({name: Callee(one, module) for name, one in functions.items()})
    body = Callee(node, Scope(module))
    body.scope.names.update(dict.fromkeys(body.all_parameters))
    if body.parameters:
        body.scope.names[body.parameters[0]] = Sign.FLOW
    elif node.args.vararg is not None:
        body.scope.names[node.args.vararg.arg] = Sign.MAYBE
    reader = _Statements(body, Calls(functions, workflows))
    reader.block(node.body)
    found = reader.nodes
    while found and not holds_operation(found[-1:]):
        found.pop()  # where the body ends when nothing is asked for any more is of no interest
    return Plan(node.name, tuple(found))


class _Statements(Expressions):
    def block(self, statements: list[ast.stmt]) -> Way:
        for statement in statements:
            way = self._guarded(statement)
            if way is not None:
                return way
        return None

    def _guarded(self, node: ast.stmt) -> Way:
        found = len(self.nodes)
        try:
            return self._statement(node)
        except RecursionError:  # source that is nested deeper than we can follow, such as a sum of a thousand terms
            del self.nodes[found:]
            if any(isinstance(one, ast.Name) and self.matters(one) for one in ast.walk(node)):
                self.unknown(node.lineno, f"line {node.lineno}: nested too deep")
            return None

    def _statement(self, node: ast.stmt) -> Way:
        match node:
            case ast.Expr(value=value):
                found = self.value(value)
                return self._exit("cancel", node) if found is Sign.CANCEL else None
            case ast.Return(value=value):
                self.visit(value, Use.GIVE)
                return self._exit("return", node)
            case ast.Raise(exc=exc, cause=cause):
                self.visit(exc, Use.LOOK)
                self.visit(cause, Use.LOOK)
                return self._exit("raise", node)
            case ast.Break() | ast.Continue():
                return "loop"
            case ast.Assign(targets=targets, value=value):
                self._assigned(targets, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assigned([target], value)
            case ast.AugAssign(target=target, value=value):
                self.visit(value, Use.GIVE)
                self.assign(target, None, None)
            case ast.If():
                return self._if(node)
            case ast.For(target=target, iter=iterated) | ast.AsyncFor(target=target, iter=iterated):
                self.visit(iterated, Use.LOOK)

                def around() -> None:
                    self.assign(target, None, None)
                    self.block(node.body)

                self.loop(lambda: f"for {text(target)} in {text(iterated)}", node.lineno, around)
                self._loop_else(node)
            case ast.While(test=test):

                def again() -> None:
                    self.visit(test, Use.LOOK)
                    self.block(node.body)

                self.loop(lambda: f"while {text(test)}", node.lineno, again)
                self._loop_else(node)
            case ast.Try() | ast.TryStar():
                return self._try(node)
            case ast.With(items=items) | ast.AsyncWith(items=items):
                return self._with(node, items)
            case ast.Match():
                return self._match(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._defaults(node.args)
                for decorator in node.decorator_list:
                    self.visit(decorator, Use.LOOK)
                self.scope.names[node.name] = Callee(node, self.scope)
            case ast.ClassDef():
                for base in (*node.bases, *node.decorator_list, *(keyword.value for keyword in node.keywords)):
                    self.visit(base, Use.GIVE)
                if any(isinstance(one, ast.Name) and self.matters(one) for part in node.body for one in ast.walk(part)):
                    self.unknown(node.lineno, f"class {node.name}")
                self.scope.names[node.name] = None
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                self.scope.elsewhere.update(names)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                for alias in aliases:
                    self.scope.names[(alias.asname or alias.name).partition(".")[0]] = None
            case ast.Assert(test=test, msg=message):
                self.visit(test, Use.LOOK)
                with self.inside():
                    self.visit(message, Use.LOOK)
            case ast.Delete(targets=targets):
                for target in targets:
                    self.assign(target, None, None)
            case _:
                pass
        return None

    def _exit(self, how: Way, node: ast.stmt) -> Way:
        """The function is left here; told in the plan if it is only perhaps."""
        if self.depth > self.frame.depth and how in ("return", "cancel", "raise"):
            if how == "return" and self.frame.left is None:
                self.frame.left = len(self.place.log)
            self.nodes.append(Exit("leave" if how == "return" and not self.frame.whole_body else how, node.lineno))
        return how

    def _assigned(self, targets: list[ast.expr], value: ast.expr) -> None:
        match targets, value:
            case [ast.Tuple(elts=names)], ast.Tuple(elts=values) if len(names) == len(values) and not any(
                isinstance(one, ast.Starred) for one in (*names, *values)
            ):
                found = [self.value(one) for one in values]
                for name, one, source in zip(names, found, values, strict=True):
                    self.assign(name, one, source)
                return
        one = self.value(value)
        for target in targets:
            self.assign(target, one, value)

    def _if(self, node: ast.If) -> Way:
        self.visit(node.test, Use.LOOK)
        arms: list[Arm] = [("if", lambda: text(node.test), False, lambda: self.block(node.body))]
        last = node
        while len(last.orelse) == 1 and isinstance(last.orelse[0], ast.If):
            last = last.orelse[0]
            arms.append(self._elif(last))
        if last.orelse:
            arms.append(("else", lambda: "", False, lambda: self.block(last.orelse)))
        return self.branch(arms, node.lineno, total=bool(last.orelse))

    def _elif(self, node: ast.If) -> Arm:
        def read() -> Way:
            self.visit(node.test, Use.LOOK)
            return self.block(node.body)

        return "if", lambda: text(node.test), not self.quiet(node.test), read

    def _loop_else(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        if node.orelse:
            self.branch([("else", lambda: "", False, lambda: self.block(node.orelse))], node.lineno, total=False)

    def _try(self, node: "ast.Try | ast.TryStar") -> Way:
        def body() -> Way:
            return self.block(node.body) or self.block(node.orelse)

        if node.handlers:
            handlers = [(self._caught(handler), self._handler(handler)) for handler in node.handlers]
            way = self._caught_in(node.lineno, body, handlers)
        else:
            way = body()
        return self.block(node.finalbody) or way

    def _caught(self, handler: ast.ExceptHandler) -> str:
        return "" if handler.type is None else text(handler.type)

    def _handler(self, handler: ast.ExceptHandler) -> Callable[[], Way]:
        def read() -> Way:
            self.visit(handler.type, Use.LOOK)
            if handler.name:
                self.scope.names[handler.name] = None
            return self.block(handler.body)

        return read

    def _caught_in(self, line: int, body: Callable[[], Way], handlers: list[tuple[str, Callable[[], Way]]]) -> Way:
        """Code whose failure is caught. Handlers that only raise again change nothing for a run that goes well."""
        mark = len(self.place.log)
        with self.inside(), self.collected() as tried:
            ways = [body()]
        went_well = self.place.counts
        self.place.unsure_since(mark)
        anywhere = self.place.counts
        arms: list[Node] = [Block("try", "", line, tuple(tried))]
        transparent = True
        for caught, read in handlers:
            self.place.restore(anywhere)
            with self.inside(), self.collected() as nodes:
                ways.append(read())
            arms.append(Block("except", caught, line, tuple(nodes)))
            transparent = transparent and ways[-1] in ("raise", "cancel") and not holds_operation(nodes)
        if transparent:
            self.place.restore(went_well)
            self.nodes += tried
            return ways[0]
        self.place.restore(anywhere)
        self.place.unsure_since(mark)
        self.close("branch", "", line, arms)
        return "return" if all(ways) else None

    def _with(self, node: ast.With | ast.AsyncWith, items: list[ast.withitem]) -> Way:
        kinds = set()
        for item in items:
            made = item.context_expr
            kinds.add(last_part(made.func) if isinstance(made, ast.Call) else "")
            self.visit(made, Use.GIVE)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, None, None)
        if "suppress" in kinds:
            return self._caught_in(node.lineno, lambda: self.block(node.body), [("suppressed", lambda: None)])
        if "TaskGroup" not in kinds:
            return self.block(node.body)
        with self.collected() as nodes:
            way = self.block(node.body)
        flat: list[Node] = []
        for found in nodes:  # everything in a task group is a task: no need to say it again
            flat += found.body if isinstance(found, Block) and (found.kind, found.text) == ("parallel", "task") else [found]
        self.close("parallel", "task group", node.lineno, flat)
        return way

    def _match(self, node: ast.Match) -> Way:
        self.visit(node.subject, Use.LOOK)
        arms = [self._case(node.subject, case) for case in node.cases]
        last = node.cases[-1]
        total = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        return self.branch(arms, node.lineno, total=total)

    def _case(self, subject: ast.expr, case: ast.match_case) -> Arm:
        def read() -> Way:
            for part in ast.walk(case.pattern):
                bound = getattr(part, "rest", None) if isinstance(part, ast.MatchMapping) else getattr(part, "name", None)
                if isinstance(bound, str):
                    self.scope.names[bound] = None
            self.visit(case.guard, Use.LOOK)
            return self.block(case.body)

        def label() -> str:
            guard = "" if case.guard is None else f" if {text(case.guard)}"
            return f"{text(subject)} is {text(case.pattern)}{guard}"

        return "case", label, not self.quiet(case.guard), read

    def _defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            self.visit(default, Use.GIVE)
