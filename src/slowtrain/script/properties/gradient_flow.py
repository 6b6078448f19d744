"""Gradient flow: whether gradients pass through a value on their way to weights."""

from __future__ import annotations

import ast

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
)
from slowtrain.script.navigation.class_members import Function
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

MAX_DEPTH = 5
# Functions through which no gradient passes, by last name.
GRADIENT_STOPS = frozenset(
    "stop_gradient numpy argmax argmin argsort shape size equal greater less one_hot round floor".split()
)
WEIGHT_METHODS = frozenset({"add_weight", "add_variable"})


def depends_on_weights(source: Source, node: ast.expr, depth: int = MAX_DEPTH) -> bool:
    """Whether ``node`` is computed from a model's output or from weights, where a gradient is taken."""
    if not depth or isinstance(node, ast.Constant):
        return False
    if isinstance(node, ast.Name):
        return _name_depends(source, node, depth)
    if isinstance(node, ast.Call):
        return _call_depends(source, node, depth)
    if isinstance(node, ast.Attribute):
        stored = class_members.attribute_stores(source, node.attr) if class_members.is_self_attribute(node) else ()
        return any(_makes_weights(source, name_bindings.assigned_value(source, one)) for one in stored)
    if isinstance(node, ast.Subscript):
        return depends_on_weights(source, node.value, depth)
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.IfExp)):
        parts = (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))
        return any(depends_on_weights(source, one, depth) for one in parts)
    return False


def is_loss_function(source: Source, function: Function) -> bool:
    """Whether a function is a loss: a ``Loss``'s ``call``, an argument of ``compile()``, or returned by such a one."""
    kind = node_lookup.parents_of(source).get(function)
    if isinstance(kind, ast.ClassDef):
        return function.name == "call" and any(scope_names.dotted_name(base).endswith("Loss") for base in kind.bases)
    if call_index.is_compiled_loss(source, function.name):
        return True
    maker = node_lookup.enclosing_function(source, function)
    if maker is None or not any(scope_names.is_name(one, function.name) for one in scope_names.returned_values(maker)):
        return False
    given = (node_lookup.argument_value(c, "loss", 1) for c in call_index.index_of(source).called("compile"))
    made = (name_bindings.single_assignment(source, one) if isinstance(one, ast.Name) else one for one in given)
    return any(isinstance(one, ast.Call) and node_lookup.called_name(one) == maker.name for one in made)


def is_taped(source: Source, node: ast.AST) -> bool:
    """Whether it is in a ``with tf.GradientTape()``."""
    above = node_lookup.parents_of(source)
    at = above.get(node)
    while at is not None and not isinstance(at, (*FUNCTION_NODES, ast.ClassDef)):
        if isinstance(at, ast.With) and node_lookup.is_gradient_tape(at):
            return True
        at = above.get(at)
    return False


def _name_depends(source: Source, node: ast.Name, depth: int) -> bool:
    where = name_bindings.binding_scope(source, node, node.id)
    bound = name_bindings.bindings_of(where, node.id)
    given = isinstance(where, FUNCTION_NODES) and any(isinstance(one, ast.arg) for one in bound)
    if given and isinstance(where, FUNCTION_NODES) and _parameter_depends(source, where, node.id, depth):
        return True
    made = [_stored_value(source, one) for one in bound if isinstance(one, ast.Name)]
    if any(_makes_weights(source, one) for one in made):
        function = node_lookup.enclosing_function(source, node)
        calls = queries.calls_running(source, function) if function is not None else ()
        return is_taped(source, node) or any(is_taped(source, one) for one in calls)
    return any(
        one is not None and not _reads_itself(one, node.id) and depends_on_weights(source, one, depth - 1)
        for one in made
    )


def _stored_value(source: Source, store: ast.Name) -> ast.expr | None:
    """The value that an assignment gives; the whole value if it unpacks a tuple."""
    found = name_bindings.assigned_value(source, store)
    statement = node_lookup.enclosing_statement(source, store)
    return found if found is not None or not isinstance(statement, ast.Assign) else statement.value


def _reads_itself(value: ast.expr, name: str) -> bool:
    return name in scope_names.read_names(value)  # x = tf.cast(x, tf.float32) does not change the answer for x


def _parameter_depends(source: Source, function: Function, name: str, depth: int) -> bool:
    """Whether a parameter depends: a loss's second one, else by the arguments of the function's calls."""
    names = scope_names.parameter_names(function)
    names = names[1:] if names[:1] == ["self"] else names
    if is_loss_function(source, function):
        return names[1:2] == [name]
    for call in queries.calls_running(source, function):
        given = call_arguments.argument_in(function, call, name)
        inside = node_lookup.enclosing_function(source, call)
        if given is None or inside is function:
            continue
        if depends_on_weights(source, given, depth - 1):
            return True
    return False


def _call_depends(source: Source, call: ast.Call, depth: int) -> bool:
    name, whole = node_lookup.called_name(call), name_bindings.qualified_name(source, call.func)
    given = [*call.args, *(k.value for k in call.keywords)]
    if name in GRADIENT_STOPS:
        return False
    if whole.startswith(("tensorflow.", "keras.")):
        return any(depends_on_weights(source, one, depth) for one in given)
    made = queries.called_function(source, call)
    if made is not None and made.name not in ("call", "__call__"):
        return any(depends_on_weights(source, one, depth - 1) for one in scope_names.returned_values(made))
    return _calls_layer(source, call.func) and _is_differentiated(source, call)


def _calls_layer(source: Source, node: ast.expr) -> bool:
    """Whether the callee is a model or a layer: ``self(x)``, ``self.encoder(x)``, ``model(x)``."""
    if isinstance(node, ast.Attribute) and class_members.is_self_attribute(node):
        made = [name_bindings.assigned_value(source, one) for one in class_members.attribute_stores(source, node.attr)]
        return any(_is_layer(source, one) for one in made) or "model" in node.attr
    if not isinstance(node, ast.Name):
        return False
    if node.id == "self":
        return True
    made = [_stored_value(source, n) for n in name_bindings.bindings_of(name_bindings.binding_scope(source, node,
    node.id), node.id)
            if isinstance(n, ast.Name)]  # fmt: skip
    return any(_is_layer(source, one) for one in made) or "model" in node.id


def _is_layer(source: Source, made: ast.expr | None) -> bool:
    if not isinstance(made, ast.Call):
        return False
    whole = name_bindings.qualified_name(source, made.func)
    if whole.startswith(("keras.layers.", "keras.Model", "keras.Sequential", "keras.models.", "keras.applications.")):
        return True
    function = queries.called_function(source, made)
    if function is not None and function.name not in ("call", "__call__"):
        return any(_is_layer(source, name_bindings.single_assignment(source, one) if isinstance(one, ast.Name) else one)
                   for one in scope_names.returned_values(function))  # fmt: skip
    return any(
        kind.name == node_lookup.called_name(made) and _is_keras_class(kind)
        for kind in class_members.class_definitions(source)
    )


def _is_keras_class(kind: ast.ClassDef) -> bool:
    return any(scope_names.dotted_name(base).endswith(("Layer", "Model")) for base in kind.bases)


def _is_differentiated(source: Source, call: ast.Call) -> bool:
    """Whether a call is under a tape, or in a layer's own ``call``."""
    function = node_lookup.enclosing_function(source, call)
    kind = node_lookup.parents_of(source).get(function) if function is not None else None
    own = function is not None and function.name == "call" and isinstance(kind, ast.ClassDef) and _is_keras_class(kind)
    return own or is_taped(source, call)


def _makes_weights(source: Source, made: ast.expr | None) -> bool:
    """Whether it is ``self.add_weight(…)`` or ``tf.Variable(…)``, unless it is not trained."""
    if not isinstance(made, ast.Call):
        return False
    trained = node_lookup.argument_value(made, "trainable")
    fixed = isinstance(trained, ast.Constant) and trained.value is False
    weight = (
        node_lookup.called_name(made) in WEIGHT_METHODS
        or name_bindings.qualified_name(source, made.func) == "tensorflow.Variable"
    )
    return weight and not fixed
