"""The interpreter's statements: executes a script as Python would, on abstract values.

A loop's body is executed twice: a dry iteration shows which names it changes, and the second iteration records events.
If an ``if`` condition is unknown, both branches are executed. The run ends at a limit of visited nodes.
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
    as_float32,
    join_two,
    join_values,
)
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.domain.run_context import BudgetSpent, RunContext, Scope
from slowtrain.script.interpreter.engine import call_resolution, project_modules, statement_rules
from slowtrain.script.interpreter.engine.expression_rules import EXPRESSION_RULES, other_expression
from slowtrain.script.interpreter.engine.statement_rules import STATEMENT_RULES
from slowtrain.script.interpreter.library import python_builtins
from slowtrain.script.navigation import node_lookup
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


def value_at(source: Source, node: ast.expr, recast: frozenset[ast.expr] = frozenset()) -> Value:
    """The value of an expression in all its executions; with unknown arguments if no code runs its function.

    ``recast``: arrays and names of dtypes that an edit makes float32.
    """
    machine = _interpret_file(source, recast) if recast else _interpret_file(source)
    if node not in machine.values:
        project_modules.run_top_level(machine)
        function = node_lookup.outermost_function(source, node)
        if function is not None and node not in machine.values:
            project_modules.run_unreached(machine, function)
    return machine.values.get(node, UNKNOWN)


def called_functions(source: Source) -> dict[ast.Call, set[ast.AST]]:
    """The functions that the calls of this file run, of any file of the project."""
    return _interpret_file(source).called


def producing_expression(source: Source, value: Value) -> ast.expr | None:
    """The expression that gave a value, if there is one."""
    return next((node for node, found in _interpret_file(source).values.items() if found is value), None)


@cache_recent(4, ended=lambda machine: machine.end())
def _interpret_file(source: Source, recast: frozenset[ast.expr] = frozenset()) -> Interpreter:
    machine = Interpreter(source, recast)
    if not project_modules.is_training_file(source):
        return machine
    with suppress(BudgetSpent, RecursionError):
        project_modules.run_script(machine)
    machine.every = tuple(machine.events)
    machine.own = tuple(one for one in machine.events if one.source is source)
    return machine


class Interpreter(RunContext):
    """Executes statements."""

    # Statements.

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        """Executes statements; True if ``return``, ``raise``, ``break`` or ``continue`` ends the block."""
        for at, one in enumerate(body):
            if self.statement(one, scope):
                return True
            if isinstance(one, ast.If) and statement_rules.skips_most_turns(self, one, scope):
                with self.in_some_turns(self.value(one.test, scope)):
                    return self.block(body[at + 1 :], scope)
        return False

    def statement(self, node: ast.stmt, scope: Scope) -> bool:
        self.spend_budget()
        does = STATEMENT_RULES.get(type(node))
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
        found = EXPRESSION_RULES.get(type(node), other_expression)(self, node, scope)
        if self.recast and node in self.recast:
            found = as_float32(found)
        if not self.silent and self.source is self.main:
            before = self.values.setdefault(node, found)
            if before is not found and not before.is_alike(found):
                self.values[node] = join_two(before, found)
        return found

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
                before = owner.items.get(place)
                owner.items[place] = value if before is None or not self.loops else join_two(before, value)

    def _remember_before_change(self, where: dict[Any, Value], key: Any) -> None:
        """Keeps the old value during a dry iteration."""
        if self.silent and key in where:
            self._stored.append((where, key, where[key]))

    def loop(self, node: ast.AST, turns: int | None, items: Value, turn: Callable[[Loop], None], scope: Scope) -> None:
        """Executes one iteration of a loop, which stands for all of them."""
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
                    earlier = before.get(name)
                    if earlier is not None and earlier is not value:
                        scope.names[name] = _loop_carried(earlier, value, loop)
            turn(loop)

    def _note_loop(self, node: ast.AST) -> None:
        over = (
            node.iter if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) else getattr(node, "test", None)
        )
        if over is not None:
            self.note("loop", None, CallArgs(over), UNKNOWN)

    def call(self, callee: Value, call: CallArgs) -> Value:
        """The result of calling ``callee``; records the call."""
        return call_resolution.call_result(self, callee, call)

    def each(self, items: Value, loop: Loop, node: ast.AST) -> Value:
        """The value of a loop's target, which changes in each iteration."""
        return call_resolution.loop_item(self, items, loop, node)

    # Functions of the script.

    def run_function(self, function: Value, call: CallArgs) -> Value:
        """The return value of a function or lambda of the script; for a generator function, the generator."""
        node: Any = function.node
        if not isinstance(node, (*FUNCTION_NODES, ast.Lambda)) or not isinstance(function.data, Scope):
            return UNKNOWN  # a tf.function of something else
        if len(self.running) >= MAX_CALL_DEPTH or self.running.count(node) >= MAX_RECURSIONS:
            return UNKNOWN
        scope = self.register_scope(Scope(function.data, kind=function.of))
        caller = self.source
        with self.in_file_of(scope), suppress(*self._outer_limits(scope)):
            self._bind(node, scope, call)
            if isinstance(node, ast.Lambda):
                return self._run_in_frame(node, call.node, caller, lambda: self.value(node.body, scope))
            if "yield" in self.source.words and python_builtins.is_generator(node):
                return Value("generator", node=node, name=node.name, data=scope, born=self.born())
            return self._run_in_frame(node, call.node, caller, lambda: self._run_body(node, scope))
        return UNKNOWN

    def _outer_limits(self, scope: Scope) -> tuple[type[BaseException], ...]:
        """Limits that end at a call from the examined file into another one, because that is too large."""
        return (BudgetSpent,) if self.left >= 0 and scope.top().source is not self.main else ()

    def _run_body(self, node: Any, scope: Scope) -> Value:
        self.block(node.body, scope)
        return join_values(scope.returned) if scope.returned else Value("none", None)

    def yielded_value(self, generator: Value) -> Value:
        """The join of all values that a generator yields."""
        node, made_in = generator.node, generator.data
        if (
            not isinstance(node, FUNCTION_NODES)
            or not isinstance(made_in, Scope)
            or self.running.count(node) >= MAX_RECURSIONS
        ):
            return UNKNOWN
        scope = self.register_scope(Scope(made_in.above, dict(made_in.names), kind=made_in.kind))
        with self.in_file_of(scope), suppress(*self._outer_limits(scope)):
            self._run_in_frame(node, node, self.source, lambda: self._run_body(node, scope))
        return join_values(scope.yielded)

    def _run_in_frame(self, node: ast.AST, at: ast.AST, caller: Source, body: Callable[[], Value]) -> Value:
        self.running.append(node)
        self.ran.add(node)
        if self.producer:
            self.producing.add(node)
        before = self.path, self.files
        if isinstance(at, ast.Call):
            self.path, self.files = (*self.path, at), (*self.files, caller)
        try:
            return body()
        finally:
            self.running.pop()
            self.path, self.files = before

    def _bind(self, node: Any, scope: Scope, handed: CallArgs) -> None:
        parameters: ast.arguments = node.args
        args, keywords = handed.args, handed.keywords
        names = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
        defaults = dict(zip(names[len(names) - len(parameters.defaults) :], parameters.defaults, strict=True))
        defaults |= {
            a.arg: d for a, d in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if d is not None
        }
        bound, places = dict(zip(names, args, strict=False)), len(names)
        names += [a.arg for a in parameters.kwonlyargs]
        bound |= {k: v for k, v in keywords.items() if k in names}
        outside = scope.above or scope
        for name in names:
            if name not in bound:
                bound[name] = self.value(defaults[name], outside) if name in defaults else UNKNOWN
        if parameters.vararg is not None:
            bound[parameters.vararg.arg] = Value("tuple", items=dict(enumerate(args[places:])))
        if parameters.kwarg is not None:
            bound[parameters.kwarg.arg] = Value("dict", items={k: v for k, v in keywords.items() if k not in names})
        for name, value in bound.items():
            scope.bind(name, value, len(self.loops))


def _loop_carried(was: Value, value: Value, loop: Loop) -> Value:
    """The value of a name at the start of an iteration: from before the loop, or from the previous iteration."""
    same = value.known is not NOT_KNOWN and value.known == was.known
    return value if same else join_two(was, value).varying_in((loop.number,))
