"""Losses and gradients that are not finite for some data: roots at 0, logarithms of 0."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.fixes.models import keras_models
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.navigation.class_members import Function
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

ROOT_OPS = ("tensorflow.sqrt", "tensorflow.math.sqrt", "keras.ops.sqrt", "keras.backend.sqrt")
WHERE_OPS = ("tensorflow.where", "keras.ops.where", "keras.backend.where")
SUM_NAMES = frozenset({"sum", "reduce_sum"})
SQUARE_NAMES = frozenset({"square", "squared_difference"})
MAX_ASSIGNMENTS = 4  # followed back from a name
REDUCING_NAMES = frozenset({"sum", "reduce_sum", "mean", "reduce_mean"})
PRODUCT_NAMES = frozenset({"prod", "reduce_prod"})
BOUNDING_NAMES = frozenset({"where", "maximum", "clip", "clip_by_value", "logsumexp", "reduce_logsumexp"})
MAX_DENSITY_ASSIGNMENTS = 6  # followed back from a name


def find_unbounded_roots(source: Source) -> Iterator[ast.Call]:
    """``tf.sqrt(tf.reduce_sum(tf.square(a - b), -1))`` in a layer or a loss: the slope of the root is infinite at 0."""
    if (
        source.words.isdisjoint(SUM_NAMES)
        or not name_bindings.may_name(source, *ROOT_OPS)
        or not call_index.takes_training_steps(source)
    ):
        return
    for call in call_index.index_of(source).calls_of("sqrt"):
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
    for call in call_index.index_of(source).calls_of("where"):
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


def find_label_logarithms(source: Source) -> Iterator[ast.Call]:
    """``y_true * tf.math.log(y_true / y_pred)`` in a loss: zero times the logarithm of 0 is NaN."""
    if not _may_take_logarithms(source):
        return
    for call in call_index.index_of(source).calls_of("log"):
        label = _label_parameter(source, call)
        if label is None or not _is_parameter(source, _dividend(source, call.args[0]), label):
            continue
        parents = node_lookup.parents_of(source)
        factor = parents.get(call)
        if isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Sub) and factor.left is call:
            factor = parents.get(factor)  # y * (log(y) - log(p))
        if not isinstance(factor, ast.BinOp) or not isinstance(factor.op, ast.Mult):
            continue
        around = parents.get(factor)
        in_where = (
            isinstance(around, ast.Call) and node_lookup.called_name(around) == "where"
        )  # see root_gradients.find_masked_logarithms
        if not in_where and any(_is_parameter(source, side, label) for side in (factor.left, factor.right)):
            yield call


def find_density_logarithms(source: Source) -> Iterator[ast.Call]:
    """``tf.math.log(tf.reduce_sum(weight * tf.exp(-0.5 * z**2) / sigma))``: far from every center all are 0."""
    if not _may_take_logarithms(source) or "exp" not in source.text:
        return
    for call in call_index.index_of(source).calls_of("log"):
        if name_bindings.qualified_name(source, call.func) in keras_models.LOGARITHMS and len(call.args) == 1:
            given = call.args[0]
            if _density_kind(source, given) == "scaled":
                yield call


def _may_take_logarithms(source: Source) -> bool:
    return name_bindings.may_name(source, *keras_models.LOGARITHMS) and call_index.takes_training_steps(source)


def _label_parameter(source: Source, call: ast.Call) -> str | None:
    """The labels' parameter of the loss that contains ``call``, if it is not assigned other values."""
    function = node_lookup.enclosing_function(source, call)
    if (
        function is None
        or name_bindings.qualified_name(source, call.func) not in keras_models.LOGARITHMS
        or len(call.args) != 1
    ):
        return None
    names = scope_names.parameter_names(function)
    kind = node_lookup.parents_of(source).get(function)
    if isinstance(kind, ast.ClassDef):
        loss = function.name == "call" and any(scope_names.dotted_name(b).endswith("Loss") for b in kind.bases)
        names = names[1:]
    else:
        loss = call_index.is_compiled_loss(source, function.name)
    if not loss or len(names) != 2:
        return None
    reassigned = [
        name_bindings.assigned_value(source, one)
        for one in name_bindings.bindings_of(function, names[0])
        if isinstance(one, ast.Name)
    ]
    is_cast = all(isinstance(one, ast.Call) and _is_parameter(source, one, names[0]) for one in reassigned)
    return names[0] if is_cast else None


def _dividend(source: Source, node: ast.expr, depth: int = MAX_DENSITY_ASSIGNMENTS) -> ast.expr:
    """The dividend of a division; of anything else the whole."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _dividend(source, node.left, depth)
    value = name_bindings.single_assignment(source, node) if isinstance(node, ast.Name) and depth else None
    return _dividend(source, value, depth - 1) if value is not None else node


def _is_parameter(source: Source, node: ast.AST, name: str, depth: int = MAX_DENSITY_ASSIGNMENTS) -> bool:
    """Whether an expression is the parameter, possibly cast."""
    if isinstance(node, ast.Call) and node_lookup.called_name(node) in ("cast", "convert_to_tensor") and node.args:
        return _is_parameter(source, node.args[0], name, depth)
    if not isinstance(node, ast.Name):
        return False
    value = name_bindings.single_assignment(source, node) if depth and node.id != name else None
    return node.id == name if value is None else _is_parameter(source, value, name, depth - 1)


def _density_kind(source: Source, node: ast.expr, depth: int = MAX_DENSITY_ASSIGNMENTS) -> str | None:
    """``plain``: the exponential of a negative square, or a sum of such; ``scaled``: one with a weight or a spread.

    None: anything else, sums with a number, and what is kept away from zero. A plain sum may contain the distance of a
    point to itself, so it is not 0.
    """
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node) if depth else None
        return _density_kind(source, value, depth - 1) if value is not None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        sides = (node.left, node.right) if isinstance(node.op, ast.Mult) else (node.left,)
        found = [one for one in (_density_kind(source, side, depth) for side in sides) if one is not None]
        constant = any(_is_constant(source, side) for side in (node.left, node.right))
        return (found[0] if constant else "scaled") if found else None
    if not isinstance(node, ast.Call) or not node.args:
        return None
    if node_lookup.called_name(node) == "exp":
        return "plain" if _is_negative_square(source, node.args[0]) else None
    inside = (
        _density_kind(source, node.args[0], depth)
        if node_lookup.called_name(node) in REDUCING_NAMES | PRODUCT_NAMES
        else None
    )
    return "scaled" if inside and node_lookup.called_name(node) in PRODUCT_NAMES else inside


def _is_constant(source: Source, node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or queries.int_at(source, node) is not None


def _is_negative_square(source: Source, node: ast.expr, depth: int = MAX_DENSITY_ASSIGNMENTS) -> bool:
    """``-0.5 * tf.square(z)``, ``-((y - mu) ** 2) / (2 * s ** 2)``."""
    value = name_bindings.single_assignment(source, node) if isinstance(node, ast.Name) and depth else None
    if value is not None:
        return _is_negative_square(source, value, depth - 1)
    minus = any(isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub) for n in syntax_tree.walk(node))
    called = [n for n in syntax_tree.walk(node) if isinstance(n, ast.Call)]
    if not minus or any(node_lookup.called_name(c) in BOUNDING_NAMES for c in called):
        return False
    powers = [n for n in syntax_tree.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)]
    return bool(powers) or any(node_lookup.called_name(c) in SQUARE_NAMES for c in called)
