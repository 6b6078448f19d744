"""Gradients that are not finite: of distances where two things are alike, and of what ``tf.where`` leaves out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source, trees
from slowtrain.source.cures.numerics import finite
from slowtrain.source.reading import finding, following, index, learned, values, visible
from slowtrain.source.reading.objects import Function

ROOTS = ("tensorflow.sqrt", "tensorflow.math.sqrt", "keras.ops.sqrt", "keras.backend.sqrt")
WHERES = ("tensorflow.where", "keras.ops.where", "keras.backend.where")
SUMS = frozenset({"sum", "reduce_sum"})
SQUARES = frozenset({"square", "squared_difference"})


def bare(source: Source) -> Iterator[ast.Call]:
    """``tf.sqrt(tf.reduce_sum(tf.square(a - b), -1))`` in a layer or a loss: the root's slope at 0 has no bound."""
    if source.words.isdisjoint(SUMS) or not values.reaches(source, *ROOTS) or not visible.trains(source):
        return
    for call in index.of(source).called("sqrt"):
        if len(call.args) != 1 or values.qualified(source, call.func) not in ROOTS or not _trained(source, call):
            continue
        if _distance(source, call.args[0]) and not finite.has_floor(source, call.args[0]):
            yield call


def masked(source: Source) -> Iterator[ast.Call]:
    """``tf.where(y > 0, y * tf.math.log(y / p), 0.0)``: zero times the slope of a logarithm at 0 is NaN."""
    if not values.reaches(source, *finite.LOGS) or not visible.trains(source):
        return
    for call in index.of(source).called("where"):
        name = _positive(call.args[0]) if len(call.args) == 3 else None
        if name is None or values.qualified(source, call.func) not in WHERES or not _trained(source, call):
            continue
        for one in (n for n in trees.walk(call.args[1]) if isinstance(n, ast.Call)):
            if values.qualified(source, one.func) not in finite.LOGS or len(one.args) != 1:
                continue
            read = {
                n.id for n in trees.walk(one.args[0]) if isinstance(n, ast.Name) and not values.qualified(source, n)
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
        value = values.assigned(source, node) if depth else None
        return value is not None and _distance(source, value, depth - 1)
    if not isinstance(node, ast.Call) or finding.called(node) not in SUMS or not node.args:
        return False
    return _squared_difference(source, node.args[0])


def _squared_difference(source: Source, node: ast.expr, depth: int = 4) -> bool:
    if isinstance(node, ast.Name):
        value = values.assigned(source, node) if depth else None
        return value is not None and _squared_difference(source, value, depth - 1)
    if isinstance(node, ast.Call) and finding.called(node) in SQUARES and node.args:
        return finding.called(node) != "square" or _difference(source, node.args[0])
    power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    return power and isinstance(node, ast.BinOp) and _difference(source, node.left)


def _difference(source: Source, node: ast.expr) -> bool:
    made = values.assigned(source, node) if isinstance(node, ast.Name) else node
    return isinstance(made, ast.BinOp) and isinstance(made.op, ast.Sub)


def _trained(source: Source, call: ast.Call) -> bool:
    """Whether gradients go through it: in a layer's ``call``, a function that is given as a loss, or under a tape."""
    function = finding.function(source, call)
    if function is None:
        return False
    if function.name == "call" and isinstance(finding.parents(source).get(function), ast.ClassDef):
        return True
    return visible.is_loss(source, function.name) or _under_tape(source, function)


def _under_tape(source: Source, made: Function) -> bool:
    """Whether a function is called under a tape, or one that calls it is."""
    seen, todo = {made}, [made]
    while todo:
        for call in following.callers(source, todo.pop()):
            above = finding.function(source, call)
            if learned.taped(source, call):
                return True
            if above is not None and above not in seen:
                seen.add(above)
                todo.append(above)
    return False
