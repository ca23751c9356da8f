"""Reads the expressions of a body for its plan: calls on the flow, functions that are followed, tasks, and where the flow goes.

Statements are read by plan_reading.py, which builds on this.
"""

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum

from flowstone.journal.plan import Block, holds_operation
from flowstone.journal.plan_blocks import Arm, Blocks, Frame, Way
from flowstone.journal.plan_calls import PREFIXES, QUIET, Calls, last_part, shown_name, text
from flowstone.journal.plan_places import Place
from flowstone.journal.plan_values import Called, Callee, Scope, Sign, Value, Verb

MOST_CALLS = 500
"""How many calls of the file's own functions are followed."""

_TASK_MAKERS = frozenset({"gather", "create_task", "ensure_future", "wait", "as_completed", "shield", "wait_for"})
_HARMLESS = frozenset({"isinstance", "print", "type", "id", "repr", "str", "bool"})
"""Called with the flow they ask it for nothing."""


class Use(Enum):
    """What becomes of an expression's value."""

    LOOK = "looked at and dropped"
    AWAIT = "awaited here"
    TASK = "made a task here"
    GIVE = "kept, or given to code that is not known"


class Expressions(Blocks, ABC):
    """How each kind of expression changes what is known."""

    def __init__(self, body: Callee, calls: Calls) -> None:
        super().__init__(body.scope)
        self._calls = calls
        self._active: list[ast.AST] = [body.node]
        self._followed = 0
        self._ran: set[Called] = set()

    @abstractmethod
    def block(self, statements: list[ast.stmt]) -> Way:
        """Read statements."""

    def visit(self, node: ast.expr | None, use: Use) -> None:
        """Read an expression, and do with its value what its place in the source does."""
        match node:
            case None:
                return
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.visit(test, Use.LOOK)
                arms: list[Arm] = [
                    ("if", lambda: text(test), False, lambda: self.visit(body, use)),
                    ("else", lambda: "", False, lambda: self.visit(orelse, use)),
                ]
                self.branch(arms, node.lineno, total=True)
            case ast.BoolOp(op=op, values=[first, *others]):
                self.visit(first, use)
                condition = first if isinstance(op, ast.And) else ast.UnaryOp(op=ast.Not(), operand=first)
                self.branch([("if", lambda: text(condition), False, lambda: self._each(others, use))], node.lineno, total=False)
            case ast.Starred(value=value):
                self.visit(value, use)
            case _:
                self.use(self.value(node), use, node)

    def value(self, node: ast.expr) -> Value:
        """Read an expression and tell what it stands for."""
        match node:
            case ast.Name(id=name):
                return self.scope[name]
            case ast.Await(value=value):
                self.visit(value, Use.AWAIT)
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value=base, attr=name):
                return self._attribute(self.value(base), name)
            case ast.NamedExpr(target=target, value=value):
                found = self.value(value)
                self.assign(target, found, value)
                return found
            case ast.Lambda(args=arguments):
                self._each([*arguments.defaults, *(one for one in arguments.kw_defaults if one)], Use.GIVE)
                return Callee(node, self.scope)
            case ast.ListComp(elt=element) | ast.SetComp(elt=element) | ast.GeneratorExp(elt=element):
                self._comprehension(node.generators, [element], Use.GIVE)
            case ast.DictComp(key=key, value=value):
                self._comprehension(node.generators, [key, value], Use.GIVE)
            case ast.IfExp() | ast.BoolOp():
                self.visit(node, Use.GIVE)
            case ast.Compare(left=left, comparators=[first, *others]):
                self._each([left, first], Use.LOOK)
                with self.inside():
                    self._each(others, Use.LOOK)
            case ast.List() | ast.Tuple() | ast.Set() | ast.Dict() | ast.Starred() | ast.Yield() | ast.YieldFrom():
                self._each(_children(node), Use.GIVE)
            case _:
                self._each(_children(node), Use.LOOK)
        return None

    def use(self, value: Value, use: Use, node: ast.expr) -> None:
        """What becomes of a value that stands at `node`."""
        match value:
            case Sign.FLOW | Sign.MAYBE | Verb() if use in (Use.GIVE, Use.TASK):
                self._escaped(node)
            case Sign.MAYBE if use is Use.AWAIT:
                self._escaped(node)
            case Called() if use is Use.AWAIT:
                self._run(value, self.place)
            case Called() if use is Use.TASK:
                self._start(value, node)
            case Called() if use is Use.GIVE:
                self._later(value)
            case Callee() if use is Use.GIVE and value.scope.outer is not None:
                self._later(Called(value, self._bare_scope(value), node.lineno))

    def assign(self, target: ast.expr, value: Value, source: ast.expr | None) -> None:
        """Bind what stands left of `=`, of `as`, or of `in`."""
        match target, source:
            case ast.Name(id=name), _:
                if name in self.scope.elsewhere and source is not None:
                    self.use(value, Use.GIVE, source)
                self.scope.names[name] = value
            case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), _):
                for one in targets:
                    self.assign(one, None, None)
            case ast.Starred(value=inner), _:
                self.assign(inner, None, None)
            case _, None:
                self.visit(target, Use.LOOK)
            case _:
                self.visit(target, Use.LOOK)
                self.use(value, Use.GIVE, source)

    def _escaped(self, node: ast.expr) -> None:
        self.unknown(node.lineno, text(node), text(node.func) if isinstance(node, ast.Call) else None)

    def quiet(self, node: ast.expr | None) -> bool:
        """Whether an expression certainly asks for nothing."""
        return node is None or not any(isinstance(one, ast.Name) and self.matters(one) for one in ast.walk(node))

    def matters(self, name: ast.Name) -> bool:
        """Whether a name stands for something that may lead to the flow."""
        value = self.scope[name.id]
        return value is not None and not (isinstance(value, Callee) and value.scope.outer is None)

    def loop(self, label: Callable[[], str], line: int, read: Callable[[], object]) -> None:
        """As in Blocks; coroutines that are left at the end of a turn may be awaited in the next one."""

        def turn() -> None:
            before = set(map(id, self.scope.names.values()))
            read()
            for value in [*self.scope.names.values()]:
                if isinstance(value, Called) and id(value) not in before and value not in self._ran:
                    self._later(value)

        super().loop(label, line, turn)

    def _call(self, node: ast.Call) -> Value:
        name = last_part(node.func)
        callee = self.value(node.func)
        match callee:
            case Verb(name="cancel"):
                self._arguments(node, Use.GIVE)
                return Sign.CANCEL
            case Verb(name="race"):
                return self._tasks(node, "race")
            case Verb(name=verb) if verb in PREFIXES:
                return self._operation(node, verb)
            case Sign.FLOW | Sign.MAYBE | Verb():
                self._arguments(node, Use.LOOK)
                self._escaped(node)
            case Callee():
                return self._own(node, callee)
            case _ if name in _TASK_MAKERS:
                return self._tasks(node, "task" if name in ("create_task", "ensure_future") else name)
            case _ if isinstance(node.func, ast.Name) and name in _HARMLESS:
                self._arguments(node, Use.LOOK)
            case _ if name == "getattr" and len(node.args) > 1 and self._is_flow(node.args[0]):
                self._each(node.args[1:], Use.GIVE)
                attribute = node.args[1]
                known = isinstance(attribute, ast.Constant) and isinstance(attribute.value, str)
                return self._attribute(Sign.FLOW, attribute.value) if known else Sign.MAYBE  # type: ignore[attr-defined]
            case _:
                given = [self.value(one) for one in _call_values(node)]
                if any(isinstance(one, Verb) or one in (Sign.FLOW, Sign.MAYBE) for one in given):
                    self._escaped(node)
                if Sign.OPERATION in given:
                    self.place.tasks_unknown()  # whoever is given a coroutine may make it a task
                for one, value in zip(_call_values(node), given, strict=True):
                    if isinstance(value, Callee | Called):
                        self.use(value, Use.GIVE, one)
        return None

    def _operation(self, node: ast.Call, verb: str) -> Value:
        """A call that asks for an operation: its arguments come first, then it takes its key."""
        functions = 1 if verb in ("do", "map", "collect") else None  # a step's function is never part of the body
        for index, argument in enumerate(node.args):
            self.visit(argument, Use.LOOK if index in (0, functions) else Use.GIVE)
        for keyword in node.keywords:
            self.visit(keyword.value, Use.LOOK if keyword.arg in ("undo", "on_error", "key") else Use.GIVE)
        planned = self._calls.planned(node, verb)
        key = self.place.take(PREFIXES[verb], planned.name or "", repeated=self.loops > 0)
        if planned.kind == "map":
            self.place.tasks_unknown()
            key = None  # its items have keys, it has none
        self.add(replace(planned, name=shown_name(planned.name), key=key))
        return Sign.OPERATION

    def _own(self, node: ast.Call, callee: Callee) -> Value:
        """A call of a function of this file: its code counts if it can reach the flow."""
        scope = self._bound_scope(node, callee)
        if callee.scope.outer is None and not any(scope.names.values()):
            return None
        called = Called(callee, scope, node.lineno)
        if not callee.runs_once:
            self._later(called)
        elif isinstance(callee.node, ast.AsyncFunctionDef):
            return called
        else:
            return self._run(called, self.place)
        return None

    def _tasks(self, node: ast.Call, label: str) -> Value:
        """A call that runs its arguments at the same time. As asyncio does: all are evaluated, then each is made a task."""
        with self.collected() as nodes:
            found = [pair for argument in node.args for pair in self._awaitables(argument)]
            for value, source in found:
                self._start(value, source)
            self._each([keyword.value for keyword in node.keywords], Use.GIVE)
        self.close("parallel", label, node.lineno, nodes)
        return Sign.TASK

    def _awaitables(self, node: ast.expr) -> list[tuple[Value, ast.expr]]:
        match node:
            case ast.Starred(value=inner):
                return self._awaitables(inner)
            case ast.List(elts=several) | ast.Tuple(elts=several) | ast.Set(elts=several):
                return [pair for one in several for pair in self._awaitables(one)]
            case ast.Dict(keys=keys, values=several):
                self._each([key for key in keys if key], Use.LOOK)
                return [pair for one in several for pair in self._awaitables(one)]
            case ast.ListComp(elt=element) | ast.SetComp(elt=element) | ast.GeneratorExp(elt=element):
                self._comprehension(node.generators, [element], Use.TASK)
            case ast.DictComp(key=key, value=element):
                self._comprehension(node.generators, [key, element], Use.TASK)
            case ast.IfExp() | ast.BoolOp():
                self.visit(node, Use.TASK)
            case _:
                return [(self.value(node), node)]
        self.place.tasks_unknown()
        return []

    def _start(self, value: Value, node: ast.expr) -> None:
        """Make a task of a value: a branch of its own for a coroutine of the author's, one number taken for an operation."""
        repeated = self.loops > 0
        match value:
            case Called():
                self._run(value, self.place.task(repeated=repeated))
            case Sign.OPERATION:
                self.place.task(repeated=repeated)
            case Sign.TASK:
                pass
            case _:
                self.place.tasks_unknown()
                self.use(value, Use.GIVE, node)

    def _run(self, called: Called, place: Place) -> Value:
        """Read the code of a function as if it stood here. `place` is the branch that it runs in. Gives what a lambda gives."""
        callee = called.callee
        self._ran.add(called)
        if callee.node in self._active or self._followed >= MOST_CALLS:
            again = callee.node in self._active
            self.unknown(called.line, f"{callee.name} again, from within itself" if again else callee.name, callee.name)
            return None
        self._followed += 1
        before = self.scope, self.place, self.frame, len(self._active)
        self.scope, self.place, self.frame = called.scope, place, Frame(whole_body=False, depth=self.depth)
        self._active.append(callee.node)
        result: Value = None
        try:
            with self.collected() as nodes:
                if isinstance(callee.node, ast.Lambda):
                    result = self.value(callee.node.body)
                else:
                    self.block(callee.node.body)
            if self.frame.left is not None:
                place.unsure_since(self.frame.left)
        finally:
            self.scope, self.place, self.frame = before[:3]
            del self._active[before[3] :]
        if holds_operation(nodes):
            self.close("call", callee.name, called.line, nodes)
        return result

    def _later(self, called: Called) -> None:
        """Code that is run nobody knows when, how often and in which branch."""
        nowhere = Place(None)
        with self.inside(), self.collected() as nodes:
            self._run(called, nowhere)
        if not holds_operation(nodes):
            return
        body = [inner for node in nodes for inner in (node.body if isinstance(node, Block) else (node,))]
        self.close("later", called.callee.name, called.line, body)
        self.place.unsure_of(nowhere)
        self.place.tasks_unknown()

    def _bare_scope(self, callee: Callee) -> Scope:
        scope = Scope(callee.scope)
        scope.names = dict.fromkeys(callee.all_parameters)
        return scope

    def _bound_scope(self, node: ast.Call, callee: Callee) -> Scope:
        """The scope of a call, with what its arguments stand for."""
        scope, positions = self._bare_scope(callee), iter(callee.parameters)
        for argument in node.args:
            name = None if isinstance(argument, ast.Starred) else next(positions, None)
            if name is None:
                positions = iter(())
                self.visit(argument, Use.GIVE)
            else:
                scope.names[name] = self.value(argument)
        for keyword in node.keywords:
            if keyword.arg in scope.names:
                scope.names[keyword.arg] = self.value(keyword.value)
            else:
                self.visit(keyword.value, Use.GIVE)
        return scope

    def _attribute(self, base: Value, name: str) -> Value:
        match base:
            case Sign.FLOW:
                return None if name in QUIET else Verb(name)
            case Verb(name=outer):
                return Verb(f"{outer}.{name}")
            case Sign.MAYBE:
                return Sign.MAYBE
        return None

    def _is_flow(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self.scope[node.id] is Sign.FLOW

    def _comprehension(self, generators: list[ast.comprehension], elements: list[ast.expr], use: Use) -> None:
        first = generators[0]
        self.visit(first.iter, Use.LOOK)
        outer, self.scope = self.scope, Scope(self.scope)

        def read() -> None:
            for generator in generators:
                if generator is not first:
                    self.visit(generator.iter, Use.LOOK)
                self.assign(generator.target, None, None)
                self._each(generator.ifs, Use.LOOK)
            self._each(elements, use)

        try:
            self.loop(lambda: f"for {text(first.target)} in {text(first.iter)}", first.target.lineno, read)
        finally:
            self.scope = outer

    def _arguments(self, node: ast.Call, use: Use) -> None:
        self._each(_call_values(node), use)

    def _each(self, nodes: Iterable[ast.expr], use: Use) -> None:
        for node in nodes:
            self.visit(node, use)


def _children(node: ast.AST) -> list[ast.expr]:
    """The expressions right inside, also those of keywords, slices and the like."""
    found: list[ast.expr] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            found.append(child)
        elif not isinstance(child, ast.expr_context | ast.operator | ast.unaryop | ast.cmpop | ast.boolop):
            found += _children(child)
    return found


def _call_values(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)]
