"""The interpreter's statements: executes a script as Python would, on abstract values.

A loop's body is executed twice: a dry turn shows which names it changes, and the second turn records events. If an
``if`` condition is unknown, both branches are executed. The run ends at a limit of visited nodes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import (
    NOT_KNOWN,
    UNKNOWN,
    CallArgs,
    Value,
    join_two,
    join_values,
)
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.domain.name_scope import Scope
from slowtrain.script.interpreter.domain.run_context import BudgetSpent, RunContext
from slowtrain.script.interpreter.engine import branch_conditions, call_resolution, expression_rules, project_modules
from slowtrain.script.interpreter.library import functional_tools
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

MAX_CALL_DEPTH = 20  # nested calls
MAX_RECURSIONS = 2  # activations of one function at a time


def file_events(source: Source) -> tuple[Event, ...]:
    """The calls in this file that running it as a script would make, in order, up to the limit.

    Functions that other files import and no code here calls run as those files call them.
    """
    return _interpret_file(source).own


def project_events(source: Source) -> tuple[Event, ...]:
    """The same, with the calls that other files of the project make on the way."""
    return _interpret_file(source).every


def value_at(source: Source, node: ast.expr) -> Value:
    """The value of an expression in all its executions; unknown if it is never executed."""
    return _interpret_file(source).values.get(node, UNKNOWN)


def producing_expression(source: Source, held: Value) -> ast.expr | None:
    """The expression that gave a value, if there is one."""
    return next((node for node, found in _interpret_file(source).values.items() if found is held), None)


@cache_recent(4, ended=lambda machine: machine.end())
def _interpret_file(source: Source) -> Interpreter:
    machine = Interpreter(source)
    if not project_modules.is_training_file(source):
        return machine
    with suppress(BudgetSpent, RecursionError):
        project_modules.run_script(machine)
    machine.every = tuple(machine.events)
    machine.own = tuple(one for one in machine.events if one.source is source)
    return machine


class Interpreter(RunContext):
    """Executes statements."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.modules: dict[str, Scope] = {}  # scopes of the project's files, by path
        self.origins: dict[tuple[Source, str], tuple[Scope, str] | None] = {}  # origins of imported names as written
        self.values: dict[ast.expr, Value] = {}
        self.every: tuple[Event, ...] = ()  # all events after the run, then those of the file itself
        self.own: tuple[Event, ...] = ()
        self.ran: set[ast.AST] = set()
        self.unmade: dict[Value, Value] = {}  # one object of each class that the file never instantiates

    # Statements.

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        """Executes statements; True if ``return``, ``raise``, ``break`` or ``continue`` ends the block."""
        for at, one in enumerate(body):
            if self.statement(one, scope):
                return True
            if isinstance(one, ast.If) and branch_conditions.skips_most_turns(self, one, scope):
                with self.in_some_turns(self.value(one.test, scope)):
                    return self.block(body[at + 1 :], scope)
        return False

    def statement(self, node: ast.stmt, scope: Scope) -> bool:
        self.spend_budget()
        does = _STATEMENT_RULES.get(node.__class__)
        if does is not None:
            return bool(does(self, node, scope))
        for one in syntax_tree.child_nodes(node):
            if isinstance(one, ast.expr):
                self.value(one, scope)
        return isinstance(node, (ast.Raise, ast.Break, ast.Continue))

    def value(self, node: ast.expr | None, scope: Scope) -> Value:
        self.spend_budget()
        if node is None:
            return UNKNOWN
        found = expression_rules.expression_result(self, node, scope)
        if not self.silent and self.source is self.main:
            before = self.values.get(node)
            self.values[node] = found if before is None else join_two(before, found)
        return found

    def _assign(self, node: Any, scope: Scope) -> None:
        if node.value is None:
            return
        value = self.value(node.value, scope)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self.store(target, value, scope)

    def _augment(self, node: ast.AugAssign, scope: Scope) -> None:
        before = self.value(expression_rules.as_load(node.target), scope)
        value = operators.arithmetic_result(node.op, before, self.value(node.value, scope))
        depth = len(self.loops)
        if isinstance(node.target, ast.Name):
            depth = scope.elsewhere.get(node.target.id, scope).depths.get(node.target.id, 0)
        elif isinstance(node.target, ast.Attribute):
            depth = len(self.value(node.target.value, scope).born)
        value = value.varying_in(loop.number for loop in self.loops[depth:])
        if isinstance(node.target, ast.Name):
            scope.elsewhere.get(node.target.id, scope).names[node.target.id] = value
        else:
            self.store(node.target, value, scope)

    def store(self, target: ast.expr, value: Value, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            if target.id in scope.elsewhere:
                self._remember_before_change(scope.elsewhere[target.id].names, target.id)
            scope.bind(target.id, value, len(self.loops))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for i, one in enumerate(target.elts):
                if isinstance(one, ast.Starred):
                    self.store(one.value, Value("list").varying_in(value.varies), scope)
                else:
                    self.store(one, operators.item_value(value, i), scope)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, scope)
            if owner.kind in ("object", "class", "keras"):
                self._remember_before_change(owner.items, target.attr)
                owner.items[target.attr] = value
        elif isinstance(target, ast.Subscript):
            owner, key = self.value(target.value, scope), self.value(target.slice, scope)
            if owner.kind == "unknown" and isinstance(key.known, str):
                owner = call_resolution.assume_mapping(self, target.value, owner, scope)
            if owner.kind in ("list", "dict"):
                place = key.known if key.known is not NOT_KNOWN and not key.varies else None
                if place is None:  # it may be any of them
                    owner.items.update({k: join_two(v, value) for k, v in owner.items.items()})
                held = owner.items.get(place)
                owner.items[place] = value if held is None or not self.loops else join_two(held, value)

    def _delete(self, node: ast.Delete, scope: Scope) -> None:
        for one in node.targets:
            if isinstance(one, ast.Subscript):
                operators.forget_positions(self.value(one.value, scope))

    def _remember_before_change(self, where: dict[Any, Value], key: Any) -> None:
        """Keeps the old value during a dry turn."""
        if self.silent and key in where:
            self._stored.append((where, key, where[key]))

    def _return(self, node: ast.Return, scope: Scope) -> bool:
        scope.returned.append(self.value(node.value, scope) if node.value is not None else Value("none", None))
        return True

    def _define(self, node: ast.FunctionDef, scope: Scope) -> None:
        made = Value("function", node=node, name=node.name, data=scope, born=self.born())
        for one in reversed(node.decorator_list):
            made = call_resolution.decorated_value(self, one, made, scope)
        scope.bind(node.name, made, len(self.loops))

    def _define_class(self, node: ast.ClassDef, scope: Scope) -> None:
        inner = self.opened(Scope(scope))
        bases = [self.value(one, scope) for one in node.bases]
        self.block(node.body, inner)
        made = Value("class", node=node, name=node.name, data=bases, items=inner.names)
        for one in inner.names.values():
            if one.kind in ("function", "graph"):
                operators.set_owner_class(one, made)
        scope.bind(node.name, made, len(self.loops))

    def _declare(self, node: Any, scope: Scope) -> None:
        for name in node.names:
            at = scope.top() if isinstance(node, ast.Global) else scope.above
            while isinstance(node, ast.Nonlocal) and at is not None and name not in at.names:
                at = at.above
            if at is not None:
                scope.elsewhere[name] = at

    def _if(self, node: ast.If, scope: Scope) -> bool:
        test = branch_conditions.condition_value(self, node.test, scope)
        sure = branch_conditions.constant_truth(test)
        if sure is not None:
            return self.block(node.body if sure else node.orelse, scope)
        before = dict(scope.names)
        usual = test.data == branch_conditions.USUALLY_TRUE or branch_conditions.holds_usually(self, node.test, scope)
        with self.in_some_turns(test if not usual else None):
            ended = self.block(node.body, scope)
            after, scope.names = scope.names, before
            ended_too = self.block(node.orelse, scope)
        if ended and not ended_too:
            return False  # the first branch has left the block
        if ended_too and not ended:
            scope.names = after
            return False
        for name, value in after.items():
            other = scope.names.get(name)
            scope.names[name] = value if other is None else join_two(value, other)
        return ended and ended_too and bool(node.orelse)

    def _for(self, node: ast.For, scope: Scope) -> bool:
        items = self.value(node.iter, scope)

        def turn(loop: Loop) -> None:
            self.store(node.target, call_resolution.loop_item(self, items, loop, node), scope)
            self.block(node.body, scope)

        for one in (several := functional_tools.unrolled_items(items, node)):
            self.store(node.target, one, scope)
            self.block(node.body, scope)
        if not several:
            self.loop(node, operators.known_length(items), items, turn, scope)
        return self.block(node.orelse, scope) and False

    def _while(self, node: ast.While, scope: Scope) -> bool:
        def turn(_: Loop) -> None:
            branch_conditions.condition_value(self, node.test, scope)
            self.block(node.body, scope)

        self.loop(node, None, UNKNOWN, turn, scope)
        return False

    def loop(self, node: ast.AST, turns: int | None, items: Value, turn: Callable[[Loop], None], scope: Scope) -> None:
        """Executes one turn of a loop, which stands for all of them."""
        if turns == 0:
            return
        with self.enter_loop(node, turns, items) as loop:
            if not self.silent:
                self._note_loop(node)
                before, self.advance = dict(scope.names), len(self.loops) - 1
                self.silent += 1
                try:
                    turn(loop)
                finally:
                    self.silent -= 1
                    stored, self._stored = self._stored, []
                for where, key, was in stored:
                    if key in where and where[key] is not was:
                        where[key] = _loop_carried(was, where[key], loop)
                for name, value in scope.names.items():
                    held = before.get(name)
                    if held is not None and held is not value:
                        scope.names[name] = _loop_carried(held, value, loop)
            turn(loop)

    def _note_loop(self, node: ast.AST) -> None:
        over = (
            node.iter if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) else getattr(node, "test", None)
        )
        if over is not None:
            self.note("loop", None, CallArgs(over), UNKNOWN)

    def _with(self, node: ast.With, scope: Scope) -> bool:
        for one in node.items:
            value = self.value(one.context_expr, scope)
            if one.optional_vars is not None:
                self.store(one.optional_vars, value, scope)
        return self.block(node.body, scope)

    def _try(self, node: Any, scope: Scope) -> bool:
        ended = self.block(node.body, scope)
        for one in node.handlers:
            with self.in_some_turns(UNKNOWN):
                self.block(one.body, scope)
        return self.block([*([] if ended else node.orelse), *node.finalbody], scope) or ended

    def _match(self, node: ast.Match, scope: Scope) -> bool:
        test = self.value(node.subject, scope)
        with self.in_some_turns(test):
            for case in node.cases:
                self.block(case.body, scope)
        return False

    def call(self, callee: Value, given: CallArgs) -> Value:
        """The result of calling ``callee``; records the call."""
        return call_resolution.call_result(self, callee, given)

    def each(self, items: Value, loop: Loop, node: ast.AST) -> Value:
        """The value of a loop's target, which changes in each turn."""
        return call_resolution.loop_item(self, items, loop, node)

    # Functions of the script.

    def run(self, function: Value, given: CallArgs) -> Value:
        """The return value of a function or lambda of the script; for a generator function, the generator."""
        node: Any = function.node
        if not isinstance(node, (*FUNCTION_NODES, ast.Lambda)) or not isinstance(function.data, Scope):
            return UNKNOWN  # a tf.function of something else
        if len(self.running) >= MAX_CALL_DEPTH or self.running.count(node) >= MAX_RECURSIONS:
            return UNKNOWN
        scope = self.opened(Scope(function.data, kind=function.of))
        caller = self.source
        with self.in_file_of(scope), suppress(*self._outer_limits(scope)):
            self._bind(node, scope, given)
            if isinstance(node, ast.Lambda):
                return self._inside(node, given.node, caller, lambda: self.value(node.body, scope))
            if functional_tools.is_generator(node):
                return Value("generator", node=node, name=node.name, data=scope, born=self.born())
            return self._inside(node, given.node, caller, lambda: self._run_body(node, scope))
        return UNKNOWN

    def _outer_limits(self, scope: Scope) -> tuple[type[BaseException], ...]:
        """Limits that end at a call from the examined file into another one, because that is too large."""
        return (BudgetSpent,) if self.left >= 0 and scope.top().source is not self.main else ()

    def _run_body(self, node: Any, scope: Scope) -> Value:
        self.block(node.body, scope)
        return join_values(scope.returned) if scope.returned else Value("none", None)

    def yielded(self, generator: Value) -> Value:
        """What a generator yields, in any of its turns."""
        node, made_in = generator.node, generator.data
        if (
            not isinstance(node, FUNCTION_NODES)
            or not isinstance(made_in, Scope)
            or self.running.count(node) >= MAX_RECURSIONS
        ):
            return UNKNOWN
        scope = self.opened(Scope(made_in.above, dict(made_in.names), kind=made_in.kind))
        with self.in_file_of(scope), suppress(*self._outer_limits(scope)):
            self._inside(node, node, self.source, lambda: self._run_body(node, scope))
        return join_values(scope.yielded)

    def _inside(self, node: ast.AST, at: ast.AST, caller: Source, body: Callable[[], Value]) -> Value:
        self.running.append(node)
        self.ran.add(node)
        before = len(self.path)
        if isinstance(at, ast.Call):
            self.path.append(at)
            self.files.append(caller)
        try:
            return body()
        finally:
            self.running.pop()
            del self.path[before:], self.files[before:]

    def _bind(self, node: Any, scope: Scope, handed: CallArgs) -> None:
        given: ast.arguments = node.args
        args, keywords = handed.args, handed.keywords
        names = [a.arg for a in (*given.posonlyargs, *given.args)]
        defaults = dict(zip(names[len(names) - len(given.defaults) :], given.defaults, strict=True))
        defaults |= {a.arg: d for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None}
        bound, places = dict(zip(names, args, strict=False)), len(names)
        names += [a.arg for a in given.kwonlyargs]
        bound |= {k: v for k, v in keywords.items() if k in names}
        outside = scope.above or scope
        for name in names:
            if name not in bound:
                bound[name] = self.value(defaults[name], outside) if name in defaults else UNKNOWN
        if given.vararg is not None:
            bound[given.vararg.arg] = Value("tuple", items=dict(enumerate(args[places:])))
        if given.kwarg is not None:
            bound[given.kwarg.arg] = Value("dict", items={k: v for k, v in keywords.items() if k not in names})
        for name, value in bound.items():
            scope.bind(name, value, len(self.loops))


def _loop_carried(was: Value, value: Value, loop: Loop) -> Value:
    """The value of a name at the begin of a turn: the value before the loop, or the one of the turn before."""
    same = value.known is not NOT_KNOWN and value.known == was.known
    return value if same else join_two(was, value).varying_in((loop.number,))


_STATEMENT_RULES: dict[type[ast.AST], Any] = {
    ast.Assign: Interpreter._assign,
    ast.AnnAssign: Interpreter._assign,
    ast.AugAssign: Interpreter._augment,
    ast.Return: Interpreter._return,
    ast.Delete: Interpreter._delete,
    ast.FunctionDef: Interpreter._define,
    ast.AsyncFunctionDef: Interpreter._define,
    ast.ClassDef: Interpreter._define_class,
    ast.Global: Interpreter._declare,
    ast.Nonlocal: Interpreter._declare,
    ast.If: Interpreter._if,
    ast.For: Interpreter._for,
    ast.AsyncFor: Interpreter._for,
    ast.While: Interpreter._while,
    ast.With: Interpreter._with,
    ast.AsyncWith: Interpreter._with,
    ast.Try: Interpreter._try,
    ast.Match: Interpreter._match,
    ast.Assert: lambda machine, node, scope: branch_conditions.condition_value(machine, node.test, scope) is None,
    ast.Import: lambda *_: False,  # imported names are resolved by the file's text
    ast.ImportFrom: lambda *_: False,
}
if hasattr(ast, "TryStar"):
    _STATEMENT_RULES[ast.TryStar] = Interpreter._try
