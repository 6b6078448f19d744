"""Logarithms in losses of what is 0 for some data: labels times their own logarithm, and products of densities."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.causes.numerics.nonfinite_loss import roots
from slowtrain.script.evaluators import literal_sizes
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.numerics import finite

SUMS = frozenset({"sum", "reduce_sum", "mean", "reduce_mean"})
PRODUCTS = frozenset({"prod", "reduce_prod"})
SAFE = frozenset({"where", "maximum", "clip", "clip_by_value", "logsumexp", "reduce_logsumexp"})
DEPTH = 6


def of_labels(source: Source) -> Iterator[ast.Call]:
    """``y_true * tf.math.log(y_true / y_pred)`` in a loss: zero times the logarithm of 0 is NaN."""
    if not _may(source):
        return
    for call in call_index.index_of(source).called("log"):
        label = _label(source, call)
        if label is None or not _is(source, _numerator(source, call.args[0]), label):
            continue
        above = node_lookup.parents_of(source)
        factor = above.get(call)
        if isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Sub) and factor.left is call:
            factor = above.get(factor)  # y * (log(y) - log(p))
        if not isinstance(factor, ast.BinOp) or not isinstance(factor.op, ast.Mult):
            continue
        around = above.get(factor)
        chosen = isinstance(around, ast.Call) and node_lookup.called_name(around) == "where"  # see roots.masked
        if not chosen and any(_is(source, side, label) for side in (factor.left, factor.right)):
            yield call


def of_densities(source: Source) -> Iterator[ast.Call]:
    """``tf.math.log(tf.reduce_sum(weight * tf.exp(-0.5 * z**2) / sigma))``: far from every centre all of them are 0."""
    if not _may(source) or "exp" not in source.text:
        return
    for call in call_index.index_of(source).called("log"):
        if name_bindings.qualified_name(source, call.func) in finite.LOGS and len(call.args) == 1:
            given = call.args[0]
            if _density(source, given) == "scaled":
                yield call


def _may(source: Source) -> bool:
    return name_bindings.may_name(source, *finite.LOGS) and literal_sizes.takes_training_steps(source)


# -- labels


def _label(source: Source, call: ast.Call) -> str | None:
    """The parameter that holds the labels, of the loss in which ``call`` stands, where it is as it came."""
    function = node_lookup.enclosing_function(source, call)
    if function is None or name_bindings.qualified_name(source, call.func) not in finite.LOGS or len(call.args) != 1:
        return None
    names = scope_names.parameter_names(function)
    kind = node_lookup.parents_of(source).get(function)
    if isinstance(kind, ast.ClassDef):
        loss = function.name == "call" and any(scope_names.dotted_name(b).endswith("Loss") for b in kind.bases)
        names = names[1:]
    else:
        loss = literal_sizes.is_compiled_loss(source, function.name)
    if not loss or len(names) != 2:
        return None
    again = [
        name_bindings.assigned_value(source, one)
        for one in name_bindings.bindings_of(function, names[0])
        if isinstance(one, ast.Name)
    ]
    cast = all(isinstance(one, ast.Call) and _is(source, one, names[0]) for one in again)
    return names[0] if cast else None


def _numerator(source: Source, node: ast.expr, depth: int = DEPTH) -> ast.expr:
    """What is divided, or the whole."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _numerator(source, node.left, depth)
    value = name_bindings.single_assignment(source, node) if isinstance(node, ast.Name) and depth else None
    return _numerator(source, value, depth - 1) if value is not None else node


def _is(source: Source, node: ast.AST, name: str, depth: int = DEPTH) -> bool:
    """Whether it is the parameter, perhaps of another format."""
    if isinstance(node, ast.Call) and node_lookup.called_name(node) in ("cast", "convert_to_tensor") and node.args:
        return _is(source, node.args[0], name, depth)
    if not isinstance(node, ast.Name):
        return False
    value = name_bindings.single_assignment(source, node) if depth and node.id != name else None
    return node.id == name if value is None else _is(source, value, name, depth - 1)


# -- densities


def _density(source: Source, node: ast.expr, depth: int = DEPTH) -> str | None:
    """``plain``: the exponential of a negative square, or a sum of such; ``scaled``: one with a weight or a spread.

    None: anything else, and what a number is added to or that is kept from zero. A plain sum goes over distances, of
    which one may well be that of a thing to itself.
    """
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node) if depth else None
        return _density(source, value, depth - 1) if value is not None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        sides = (node.left, node.right) if isinstance(node.op, ast.Mult) else (node.left,)
        found = [one for one in (_density(source, side, depth) for side in sides) if one is not None]
        constant = any(_constant(source, side) for side in (node.left, node.right))
        return (found[0] if constant else "scaled") if found else None
    if not isinstance(node, ast.Call) or not node.args:
        return None
    if node_lookup.called_name(node) == "exp":
        return "plain" if _negative_square(source, node.args[0]) else None
    inside = _density(source, node.args[0], depth) if node_lookup.called_name(node) in SUMS | PRODUCTS else None
    return "scaled" if inside and node_lookup.called_name(node) in PRODUCTS else inside


def _constant(source: Source, node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or literal_sizes.literal_int(source, node) is not None


def _negative_square(source: Source, node: ast.expr, depth: int = DEPTH) -> bool:
    """``-0.5 * tf.square(z)``, ``-((y - mu) ** 2) / (2 * s ** 2)``."""
    value = name_bindings.single_assignment(source, node) if isinstance(node, ast.Name) and depth else None
    if value is not None:
        return _negative_square(source, value, depth - 1)
    minus = any(isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub) for n in syntax_tree.walk(node))
    called = [n for n in syntax_tree.walk(node) if isinstance(n, ast.Call)]
    if not minus or any(node_lookup.called_name(c) in SAFE for c in called):
        return False
    powers = [n for n in syntax_tree.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)]
    return bool(powers) or any(node_lookup.called_name(c) in roots.SQUARES for c in called)
