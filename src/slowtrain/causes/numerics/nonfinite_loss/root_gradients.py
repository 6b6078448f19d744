"""Gradients that are not finite: of distances where two things are alike, and of what ``tf.where`` leaves out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.evaluators import call_targets, literal_sizes
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.navigation.class_members import Function
from slowtrain.script.properties import gradient_flow
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.numerics import finite

ROOTS = ("tensorflow.sqrt", "tensorflow.math.sqrt", "keras.ops.sqrt", "keras.backend.sqrt")
WHERES = ("tensorflow.where", "keras.ops.where", "keras.backend.where")
SUMS = frozenset({"sum", "reduce_sum"})
SQUARES = frozenset({"square", "squared_difference"})


def bare(source: Source) -> Iterator[ast.Call]:
    """``tf.sqrt(tf.reduce_sum(tf.square(a - b), -1))`` in a layer or a loss: the root's slope at 0 has no bound."""
    if (
        source.words.isdisjoint(SUMS)
        or not name_bindings.may_name(source, *ROOTS)
        or not literal_sizes.takes_training_steps(source)
    ):
        return
    for call in call_index.index_of(source).called("sqrt"):
        if (
            len(call.args) != 1
            or name_bindings.qualified_name(source, call.func) not in ROOTS
            or not _trained(source, call)
        ):
            continue
        if _distance(source, call.args[0]) and not finite.has_floor(source, call.args[0]):
            yield call


def masked(source: Source) -> Iterator[ast.Call]:
    """``tf.where(y > 0, y * tf.math.log(y / p), 0.0)``: zero times the slope of a logarithm at 0 is NaN."""
    if not name_bindings.may_name(source, *finite.LOGS) or not literal_sizes.takes_training_steps(source):
        return
    for call in call_index.index_of(source).called("where"):
        name = _positive(call.args[0]) if len(call.args) == 3 else None
        if name is None or name_bindings.qualified_name(source, call.func) not in WHERES or not _trained(source, call):
            continue
        for one in (n for n in syntax_tree.walk(call.args[1]) if isinstance(n, ast.Call)):
            if name_bindings.qualified_name(source, one.func) not in finite.LOGS or len(one.args) != 1:
                continue
            read = {
                n.id
                for n in syntax_tree.walk(one.args[0])
                if isinstance(n, ast.Name) and not name_bindings.qualified_name(source, n)
            }
            if name in read and len(read) > 1 and not finite.has_floor(source, one.args[0]):
                yield one


def _positive(test: ast.expr) -> str | None:
    """The name that is compared: ``y > 0``, ``y != 0``."""
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or len(test.ops) != 1:
        return None
    zero = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value == 0
    return test.left.id if zero and isinstance(test.ops[0], (ast.Gt, ast.NotEq)) else None


def _distance(source: Source, node: ast.expr, depth: int = 4) -> bool:
    """Whether it is a sum of the squares of a difference."""
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node) if depth else None
        return value is not None and _distance(source, value, depth - 1)
    if not isinstance(node, ast.Call) or node_lookup.called_name(node) not in SUMS or not node.args:
        return False
    return _squared_difference(source, node.args[0])


def _squared_difference(source: Source, node: ast.expr, depth: int = 4) -> bool:
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node) if depth else None
        return value is not None and _squared_difference(source, value, depth - 1)
    if isinstance(node, ast.Call) and node_lookup.called_name(node) in SQUARES and node.args:
        return node_lookup.called_name(node) != "square" or _difference(source, node.args[0])
    power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    return power and isinstance(node, ast.BinOp) and _difference(source, node.left)


def _difference(source: Source, node: ast.expr) -> bool:
    made = name_bindings.single_assignment(source, node) if isinstance(node, ast.Name) else node
    return isinstance(made, ast.BinOp) and isinstance(made.op, ast.Sub)


def _trained(source: Source, call: ast.Call) -> bool:
    """Whether gradients go through it: in a layer's ``call``, a function that is given as a loss, or under a tape."""
    function = node_lookup.enclosing_function(source, call)
    if function is None:
        return False
    if function.name == "call" and isinstance(node_lookup.parents_of(source).get(function), ast.ClassDef):
        return True
    return literal_sizes.is_compiled_loss(source, function.name) or _under_tape(source, function)


def _under_tape(source: Source, made: Function) -> bool:
    """Whether a function is called under a tape, or one that calls it is."""
    seen, todo = {made}, [made]
    while todo:
        for call in call_targets.calls_running(source, todo.pop()):
            above = node_lookup.enclosing_function(source, call)
            if gradient_flow.is_taped(source, call):
                return True
            if above is not None and above not in seen:
                seen.add(above)
                todo.append(above)
    return False
