"""Gradients that are not finite: of the distance of two equal points, and of a branch that ``tf.where`` discards."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.fixes.models import keras_models
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.navigation.class_members import Function
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

ROOT_OPS = ("tensorflow.sqrt", "tensorflow.math.sqrt", "keras.ops.sqrt", "keras.backend.sqrt")
WHERE_OPS = ("tensorflow.where", "keras.ops.where", "keras.backend.where")
SUM_NAMES = frozenset({"sum", "reduce_sum"})
SQUARE_NAMES = frozenset({"square", "squared_difference"})
MAX_ASSIGNMENTS = 4  # followed back from a name


def find_unbounded_roots(source: Source) -> Iterator[ast.Call]:
    """``tf.sqrt(tf.reduce_sum(tf.square(a - b), -1))`` in a layer or a loss: the slope of the root is infinite at 0."""
    if (
        source.words.isdisjoint(SUM_NAMES)
        or not name_bindings.may_name(source, *ROOT_OPS)
        or not call_index.takes_training_steps(source)
    ):
        return
    for call in call_index.index_of(source).called("sqrt"):
        if (
            len(call.args) != 1
            or name_bindings.qualified_name(source, call.func) not in ROOT_OPS
            or not _has_gradient(source, call)
        ):
            continue
        if _is_squared_distance(source, call.args[0]) and not keras_models.has_floor(source, call.args[0]):
            yield call


def find_masked_logarithms(source: Source) -> Iterator[ast.Call]:
    """``tf.where(y > 0, y * tf.math.log(y / p), 0.0)``: zero times the slope of a logarithm at 0 is NaN."""
    if not name_bindings.may_name(source, *keras_models.LOGARITHMS) or not call_index.takes_training_steps(source):
        return
    for call in call_index.index_of(source).called("where"):
        name = _compared_name(call.args[0]) if len(call.args) == 3 else None
        if (
            name is None
            or name_bindings.qualified_name(source, call.func) not in WHERE_OPS
            or not _has_gradient(source, call)
        ):
            continue
        for one in (n for n in syntax_tree.walk(call.args[1]) if isinstance(n, ast.Call)):
            if name_bindings.qualified_name(source, one.func) not in keras_models.LOGARITHMS or len(one.args) != 1:
                continue
            read = {
                n.id
                for n in syntax_tree.walk(one.args[0])
                if isinstance(n, ast.Name) and not name_bindings.qualified_name(source, n)
            }
            if name in read and len(read) > 1 and not keras_models.has_floor(source, one.args[0]):
                yield one


def _compared_name(test: ast.expr) -> str | None:
    """``y`` in ``y > 0`` and ``y != 0``."""
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or len(test.ops) != 1:
        return None
    zero = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value == 0
    return test.left.id if zero and isinstance(test.ops[0], (ast.Gt, ast.NotEq)) else None


def _is_squared_distance(source: Source, node: ast.expr, depth: int = MAX_ASSIGNMENTS) -> bool:
    """Whether an expression is the sum of the squares of a difference."""
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node) if depth else None
        return value is not None and _is_squared_distance(source, value, depth - 1)
    if not isinstance(node, ast.Call) or node_lookup.called_name(node) not in SUM_NAMES or not node.args:
        return False
    return _is_squared_difference(source, node.args[0])


def _is_squared_difference(source: Source, node: ast.expr, depth: int = MAX_ASSIGNMENTS) -> bool:
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node) if depth else None
        return value is not None and _is_squared_difference(source, value, depth - 1)
    if isinstance(node, ast.Call) and node_lookup.called_name(node) in SQUARE_NAMES and node.args:
        return node_lookup.called_name(node) != "square" or _is_difference(source, node.args[0])
    power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    return power and isinstance(node, ast.BinOp) and _is_difference(source, node.left)


def _is_difference(source: Source, node: ast.expr) -> bool:
    value = name_bindings.single_assignment(source, node) if isinstance(node, ast.Name) else node
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)


def _has_gradient(source: Source, call: ast.Call) -> bool:
    """Whether gradients pass through a call: in a layer's ``call``, in a function used as a loss, or under a tape."""
    function = node_lookup.enclosing_function(source, call)
    if function is None:
        return False
    if function.name == "call" and isinstance(node_lookup.parents_of(source).get(function), ast.ClassDef):
        return True
    return call_index.is_compiled_loss(source, function.name) or _runs_under_tape(source, function)


def _runs_under_tape(source: Source, function: Function) -> bool:
    """Whether a function, or one that calls it, is called under a tape."""
    seen, todo = {function}, [function]
    while todo:
        for call in queries.calls_running(source, todo.pop()):
            caller = node_lookup.enclosing_function(source, call)
            if node_lookup.is_taped(source, call):
                return True
            if caller is not None and caller not in seen:
                seen.add(caller)
                todo.append(caller)
    return False
