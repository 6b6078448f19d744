"""The tf.functions of a file, and the Python loops which a graph unrolls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

MIN_REPEATED_TURNS = 5  # iterations
MIN_BUILDS = 3  # training in two stages (frozen, then unfrozen) has to compile twice
MIN_UNROLLED_TURNS = 16  # iterations of a Python loop inside a graph
MIN_UNROLLED_STEPS = 8  # the same, if each iteration is a training step
PYTHON_ITERABLES = ("range", "list", "tuple", "rows")  # Python iterables, which unroll a loop in a graph


class TracedFunction(Struct, frozen=True):
    """A ``tf.function`` of the file, and the ``names`` by which it is called."""

    function: ast.FunctionDef
    names: tuple[str, ...]


def may_have_graphs(source: Source) -> bool:
    """Whether the text may contain a tf.function."""
    named = ".function" in source.text or "import function" in source.text
    return named and name_bindings.may_name(source, "tensorflow.function")


def traced_functions(source: Source) -> Iterator[TracedFunction]:
    if not may_have_graphs(source):
        return
    for node in call_index.nodes_of_class(source, ast.FunctionDef):
        assert isinstance(node, ast.FunctionDef)
        for one in node.decorator_list:
            plain = one.func if isinstance(one, ast.Call) else one
            if name_bindings.qualified_name(source, plain) == "tensorflow.function":
                yield TracedFunction(node, (node.name,))
    for call in call_index.index_of(source).calls_of("function"):
        if name_bindings.qualified_name(source, call.func) != "tensorflow.function" or not call.args:
            continue
        argument, holder = call.args[0], node_lookup.parents_of(source).get(call)
        function = node_lookup.function_named(source, argument.id, call) if isinstance(argument, ast.Name) else None
        target = holder.targets[0] if isinstance(holder, ast.Assign) else None
        if function is not None and isinstance(target, ast.Name):
            yield TracedFunction(function, (target.id,))
        elif (
            isinstance(argument, ast.Attribute)
            and class_members.is_self_attribute(argument)
            and isinstance(target, ast.Attribute)
        ):
            own = node_lookup.function_named(source, argument.attr)  # self.update = tf.function(self._update)
            if own is not None and class_members.is_self_attribute(target):
                yield TracedFunction(own, (target.attr,))


def graph_calls(source: Source) -> Iterator[tuple[Event, Value]]:
    """Yield calls of tf.functions from Python, and the function."""
    if not may_have_graphs(source):
        return
    for event in file_events(source):
        if event.on is not None and event.on.kind == "graph" and not event.graph and not event.producer:
            yield event, event.on


def unrolled_graph_loops(source: Source, chained: bool) -> Iterator[tuple[ast.For, int]]:
    """Find Python loops that a graph unrolls, with the number of iterations.

    ``chained``: each iteration depends on the previous one, as in a solver. Otherwise, one op may process all rows.
    """
    seen: set[ast.AST] = set()
    for event in file_events(source) if may_trace(source) else ():
        loop = event.begun
        if loop is None or not event.graph or loop.node in seen or loop.items.kind not in PYTHON_ITERABLES:
            continue
        unrolled = (one for one in event.loops if one.items.kind in PYTHON_ITERABLES)
        turns = prod(one.turns or 1 for one in unrolled if _in_same_function(source, one, loop))
        stepping = any(loop in e.loops for e in file_events(source) if e.name == "tensorflow.GradientTape")
        if not isinstance(loop.node, ast.For) or turns < (MIN_UNROLLED_STEPS if stepping else MIN_UNROLLED_TURNS):
            continue
        if (stepping or _depends_on_previous(source, loop.node)) != chained:
            continue
        if chained or _has_equal_iterations(source, loop):
            seen.add(loop.node)
            yield loop.node, turns


def may_trace(source: Source) -> bool:
    """Whether the file may build graphs, by tf.function or Keras."""
    return may_have_graphs(source) or "keras" in source.text


def _in_same_function(source: Source, one: Loop, loop: Loop) -> bool:
    """Whether both loops are in the same function, and thus in the same graph."""
    return node_lookup.enclosing_function(source, one.node) is node_lookup.enclosing_function(source, loop.node)


def _depends_on_previous(source: Source, loop: ast.For) -> bool:
    """Whether an iteration reads values of the previous one, apart from sums and lists that it extends."""
    body = list(scope_names.nodes_in_scope(list(loop.body)))
    bound, lists, taken = set[str](), set[str](), set[str]()
    for node in body:
        match node:
            case ast.Assign(targets=targets):
                bound |= scope_names.bound_names(targets)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")):
                lists.add(name)
            case ast.Subscript(value=ast.Name(id=name)):  # far[-1]
                taken.add(name)
    turned = {id(n) for n in syntax_tree.walk(loop)}
    around = scope_names.nodes_in_scope(scope_names.scope_body(scope_names.enclosing_scope(source, loop)))
    stores = (n for n in around if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in turned)
    function = node_lookup.enclosing_function(source, loop)
    parameters = scope_names.parameter_names(function) if function is not None else []
    outside = {*parameters, *(n.id for n in stores)}
    return bool(lists & taken) or bool(bound & outside & scope_names.read_names(list(loop.body)))


def _has_equal_iterations(source: Source, loop: Loop) -> bool:
    """Whether all iterations run the same TensorFlow ops on rows selected by the loop index."""
    inside = [e for e in file_events(source) if loop in e.loops and e.name not in ("loop", ".append")]
    if not inside or not all(e.name.startswith(("tensorflow.", "keras.ops.")) for e in inside):
        return False
    turn = scope_names.bound_names(loop.node.target) if isinstance(loop.node, ast.For) else set()
    body = list(scope_names.nodes_in_scope(scope_names.scope_body(loop.node)))
    cuts = {id(n) for one in body if isinstance(one, ast.Slice) for n in syntax_tree.walk(one)}  # x[:, k : k + n]
    for one in body:
        if id(one) in cuts:
            continue
        sides = (one.left, one.right) if isinstance(one, ast.BinOp) else ()
        counted = any(isinstance(s, ast.Name) and s.id in turn for s in sides)
        if counted and any(interpreter.value_at(source, s).kind in ("tensor", "variable") for s in sides):
            return False
    return True
