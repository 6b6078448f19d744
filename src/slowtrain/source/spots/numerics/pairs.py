"""Distances between all pairs of one tensor: the one of each row to itself is 0, where a root has no finite slope."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.script.evaluators import call_targets, literal_sizes, value_kinds
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.properties import gradient_flow
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.source.spots.numerics import roots

NORMS = ("tensorflow.norm", "tensorflow.linalg.norm", "tensorflow.math.reduce_euclidean_norm", "keras.ops.norm",
         "keras.ops.linalg.norm")  # fmt: skip
EUCLIDEAN = (None, 2, 2.0, "euclidean")
FRAMEWORK = ("tensorflow.", "keras.ops.", "keras.backend.")
DEPTH = 4
_HALVED = re.compile(r"\*\*\s*(?:0?\.5\b|\(\s*1\s*/\s*2\s*\))")


def rooted(source: Source) -> Iterator[ast.expr]:
    """``tf.norm(x[:, None] - x[None], axis=-1)``, or a root of the squares' sum, of which a gradient is taken."""
    if not name_bindings.may_name(source, *FRAMEWORK):
        return
    known = set[ast.AST]()
    for root, difference, axis in _roots(source):
        base = _same(source, difference, axis)
        if base is not None and root not in known and any(_moves(source, one) for one in base):
            known.add(root)
            yield root


def _moves(source: Source, base: ast.expr) -> bool:
    """Whether a gradient goes through it: in a file that trains, or in a loss that others train with."""
    function = node_lookup.enclosing_function(source, base)
    trained = literal_sizes.takes_training_steps(source) or (
        function is not None and gradient_flow.is_loss_function(source, function)
    )
    return trained and gradient_flow.depends_on_weights(source, base)


def _roots(source: Source) -> Iterator[tuple[ast.expr, ast.expr, ast.expr | None]]:
    """Roots, what their squares are summed up of, and along which axis."""
    for call in call_index.index_of(source).called("norm", "reduce_euclidean_norm"):
        if name_bindings.qualified_name(source, call.func) not in NORMS or not call.args:
            continue
        euclidean = node_lookup.called_name(call) != "norm"
        order = None if euclidean else node_lookup.argument_value(call, "ord", 1)
        if order is None or (isinstance(order, ast.Constant) and order.value in EUCLIDEAN):
            yield call, call.args[0], node_lookup.argument_value(call, "axis", 1 if euclidean else 2)
    for call in call_index.index_of(source).called("sqrt"):
        if len(call.args) == 1 and name_bindings.qualified_name(source, call.func) in roots.ROOTS:
            yield from _summed(source, call, call.args[0])
    for node in call_index.nodes_matching(source, _HALVED, ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            yield from _summed(source, node, node.left)


def _summed(source: Source, root: ast.expr, node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr, ast.expr | None]]:
    given = _value(source, node)
    if not isinstance(given, ast.Call) or node_lookup.called_name(given) not in roots.SUMS:
        return
    whole = name_bindings.qualified_name(source, given.func)
    if whole and not whole.startswith(FRAMEWORK):
        return  # NumPy's
    squared = _value(source, given.args[0]) if given.args and whole else None
    if squared is None:
        return
    axis = node_lookup.argument_value(given, "axis", 1)
    if isinstance(squared, ast.Call) and node_lookup.called_name(squared) == "square" and squared.args:
        yield root, squared.args[0], axis
    elif isinstance(squared, ast.Call) and node_lookup.called_name(squared) == "squared_difference":
        yield root, squared, axis
    elif isinstance(squared, ast.BinOp) and _square(squared):
        yield root, squared.left, axis


def _square(node: ast.BinOp) -> bool:
    if isinstance(node.op, ast.Mult):
        return ast.dump(node.left) == ast.dump(node.right)
    return isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) and node.right.value in (2, 2.0)


def _value(source: Source, node: ast.expr, depth: int = DEPTH) -> ast.expr:
    """What a name was given last, where the text decides it."""
    if not isinstance(node, ast.Name) or not depth:
        return node
    found = name_bindings.single_assignment(source, node) or name_bindings.latest_assignment(source, node)
    return _value(source, found, depth - 1) if found is not None else node


def _same(source: Source, node: ast.expr, axis: ast.expr | None) -> list[ast.expr] | None:
    """The tensor of which all pairs' difference this is, with another axis each; None for anything else."""
    made = _value(source, node)
    if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Sub):
        sides = [made.left, made.right]
    elif isinstance(made, ast.Call) and node_lookup.called_name(made) in ("subtract", "squared_difference"):
        sides = list(made.args)
    else:
        return None
    along = _whole(axis)
    if len(sides) != 2 or along is None:
        return None
    (one, at, from_end), (other, where, end) = (_longer(source, side) for side in sides)
    if at is None and where is None:
        return None
    left, right = at if at is not None else 0, where if where is not None else 0
    if (left, from_end) == (right, end) or not _apart(along, left) or not _apart(along, right):
        return None
    return [one] if ast.dump(one) == ast.dump(other) else _given_alike(source, one, other)


def _apart(along: int, added: int) -> bool:
    """Whether the sum goes along another axis than the one that was added: counted from the same end, or the last."""
    return along != added and (along == -1 or (along < 0) == (added < 0))


def _longer(source: Source, node: ast.expr) -> tuple[ast.expr, int | None, bool]:
    """The tensor, and where an axis of one was added: counted from the front, or below 0 from the end."""
    made = _value(source, node)
    if isinstance(made, ast.Subscript):
        at = _added(source, made.slice)
        return (made.value, at, at < 0) if at is not None else (node, None, False)
    if not isinstance(made, ast.Call) or node_lookup.called_name(made) != "expand_dims" or not made.args:
        return node, None, False
    at = (
        _whole(node_lookup.argument_value(made, "axis", 1))
        if name_bindings.qualified_name(source, made.func).startswith(FRAMEWORK)
        else None
    )
    return made.args[0], at, at is not None and at < 0


def _added(source: Source, at: ast.expr) -> int | None:
    """``[:, None]``: 1; ``[..., None, :]``: -2; None where anything else is done as well."""
    parts = list(at.elts) if isinstance(at, ast.Tuple) else [at]
    new = [i for i, one in enumerate(parts) if name_bindings.is_new_axis(source, one)]
    ellipses = [i for i, one in enumerate(parts) if isinstance(one, ast.Constant) and one.value is Ellipsis]
    slices = [one for one in parts if isinstance(one, ast.Slice) and not (one.lower or one.upper or one.step)]
    if len(new) != 1 or len(ellipses) > 1 or len(new) + len(ellipses) + len(slices) != len(parts):
        return None
    return new[0] - len(parts) if ellipses and ellipses[0] < new[0] else new[0]


def _whole(node: ast.expr | None) -> int | None:
    try:
        found = ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None
    if isinstance(found, (list, tuple)) and len(found) == 1:
        found = found[0]
    return found if isinstance(found, int) else None


def _given_alike(source: Source, one: ast.expr, other: ast.expr) -> list[ast.expr] | None:
    """What a function's calls give for both of two parameters: ``distances(z, z)``."""
    if not isinstance(one, ast.Name) or not isinstance(other, ast.Name):
        return None
    function = name_bindings.binding_scope(source, one, one.id)
    if not isinstance(function, FUNCTION_NODES) or not {one.id, other.id} <= set(scope_names.parameter_names(function)):
        return None
    found = []
    for call in call_targets.calls_running(source, function):
        left, right = value_kinds.argument_in(function, call, one.id), value_kinds.argument_in(function, call, other.id)
        if left is not None and right is not None and ast.dump(left) == ast.dump(right):
            found.append(left)
    return found or None
