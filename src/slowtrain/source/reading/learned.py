"""Gradient flow: whether gradients pass through a value on their way to weights."""

from __future__ import annotations

import ast

from slowtrain.source import FUNCTIONS, Source
from slowtrain.source.reading import finding, following, index, kinds, objects, scopes, values, visible
from slowtrain.source.reading.objects import Function

DEPTH = 5
# Functions through which no gradient passes, by last name.
ENDING = frozenset(
    "stop_gradient numpy argmax argmin argsort shape size equal greater less one_hot round floor".split()
)
WEIGHTS = frozenset({"add_weight", "add_variable"})


def depends(source: Source, node: ast.expr, depth: int = DEPTH) -> bool:
    """Whether ``node`` is computed from a model's output or from weights, where a gradient is taken."""
    if not depth or isinstance(node, ast.Constant):
        return False
    if isinstance(node, ast.Name):
        return _name(source, node, depth)
    if isinstance(node, ast.Call):
        return _call(source, node, depth)
    if isinstance(node, ast.Attribute):
        stored = objects.stores(source, node.attr) if objects.of_self(node) else ()
        return any(_weights(source, values.given(source, one)) for one in stored)
    if isinstance(node, ast.Subscript):
        return depends(source, node.value, depth)
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.IfExp)):
        parts = (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))
        return any(depends(source, one, depth) for one in parts)
    return False


def loss(source: Source, function: Function) -> bool:
    """Whether a function is a loss: a ``Loss``'s ``call``, an argument of ``compile()``, or returned by such a one."""
    kind = finding.parents(source).get(function)
    if isinstance(kind, ast.ClassDef):
        return function.name == "call" and any(scopes.dotted(base).endswith("Loss") for base in kind.bases)
    if visible.is_loss(source, function.name):
        return True
    maker = finding.function(source, function)
    if maker is None or not any(_is(one, function.name) for one in following.returned(maker)):
        return False
    given = (finding.keyword(c, "loss", 1) for c in index.of(source).called("compile"))
    made = (values.assigned(source, one) if isinstance(one, ast.Name) else one for one in given)
    return any(isinstance(one, ast.Call) and finding.called(one) == maker.name for one in made)


def taped(source: Source, node: ast.AST) -> bool:
    """Whether it is in a ``with tf.GradientTape()``."""
    above = finding.parents(source)
    at = above.get(node)
    while at is not None and not isinstance(at, (*FUNCTIONS, ast.ClassDef)):
        if isinstance(at, ast.With) and finding.is_tape(at):
            return True
        at = above.get(at)
    return False


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _name(source: Source, node: ast.Name, depth: int) -> bool:
    where = values.scope(source, node, node.id)
    bound = values.stores(where, node.id)
    given = isinstance(where, FUNCTIONS) and any(isinstance(one, ast.arg) for one in bound)
    if given and isinstance(where, FUNCTIONS) and _parameter(source, where, node.id, depth):
        return True
    made = [_value(source, one) for one in bound if isinstance(one, ast.Name)]
    if any(_weights(source, one) for one in made):
        function = finding.function(source, node)
        calls = following.callers(source, function) if function is not None else ()
        return taped(source, node) or any(taped(source, one) for one in calls)
    return any(one is not None and not _reads(one, node.id) and depends(source, one, depth - 1) for one in made)


def _value(source: Source, store: ast.Name) -> ast.expr | None:
    """The value that an assignment gives; the whole value if it unpacks a tuple."""
    found = values.given(source, store)
    statement = finding.statement(source, store)
    return found if found is not None or not isinstance(statement, ast.Assign) else statement.value


def _reads(value: ast.expr, name: str) -> bool:
    return name in scopes.read(value)  # x = tf.cast(x, tf.float32) does not change the answer for x


def _parameter(source: Source, function: Function, name: str, depth: int) -> bool:
    """Whether a parameter depends: a loss's second one, else by the arguments of the function's calls."""
    names = scopes.parameters(function)
    names = names[1:] if names[:1] == ["self"] else names
    if loss(source, function):
        return names[1:2] == [name]
    for call in following.callers(source, function):
        given = kinds.given_in(function, call, name)
        inside = finding.function(source, call)
        if given is None or inside is function:
            continue
        if depends(source, given, depth - 1):
            return True
    return False


def _call(source: Source, call: ast.Call, depth: int) -> bool:
    name, whole = finding.called(call), values.qualified(source, call.func)
    given = [*call.args, *(k.value for k in call.keywords)]
    if name in ENDING:
        return False
    if whole.startswith(("tensorflow.", "keras.")):
        return any(depends(source, one, depth) for one in given)
    made = following.function(source, call)
    if made is not None and made.name not in ("call", "__call__"):
        return any(depends(source, one, depth - 1) for one in following.returned(made))
    return _layer(source, call.func) and _differentiated(source, call)


def _layer(source: Source, node: ast.expr) -> bool:
    """Whether the callee is a model or a layer: ``self(x)``, ``self.encoder(x)``, ``model(x)``."""
    if isinstance(node, ast.Attribute) and objects.of_self(node):
        made = [values.given(source, one) for one in objects.stores(source, node.attr)]
        return any(_made_layer(source, one) for one in made) or "model" in node.attr
    if not isinstance(node, ast.Name):
        return False
    if node.id == "self":
        return True
    made = [_value(source, n) for n in values.stores(values.scope(source, node, node.id), node.id)
            if isinstance(n, ast.Name)]  # fmt: skip
    return any(_made_layer(source, one) for one in made) or "model" in node.id


def _made_layer(source: Source, made: ast.expr | None) -> bool:
    if not isinstance(made, ast.Call):
        return False
    whole = values.qualified(source, made.func)
    if whole.startswith(("keras.layers.", "keras.Model", "keras.Sequential", "keras.models.", "keras.applications.")):
        return True
    function = following.function(source, made)
    if function is not None and function.name not in ("call", "__call__"):
        return any(_made_layer(source, values.assigned(source, one) if isinstance(one, ast.Name) else one)
                   for one in following.returned(function))  # fmt: skip
    return any(kind.name == finding.called(made) and _of_keras(kind) for kind in objects.classes(source))


def _of_keras(kind: ast.ClassDef) -> bool:
    return any(scopes.dotted(base).endswith(("Layer", "Model")) for base in kind.bases)


def _differentiated(source: Source, call: ast.Call) -> bool:
    """Whether a call is under a tape, or in a layer's own ``call``."""
    function = finding.function(source, call)
    kind = finding.parents(source).get(function) if function is not None else None
    own = function is not None and function.name == "call" and isinstance(kind, ast.ClassDef) and _of_keras(kind)
    return own or taped(source, call)


def _weights(source: Source, made: ast.expr | None) -> bool:
    """Whether it is ``self.add_weight(…)`` or ``tf.Variable(…)``, unless it is not trained."""
    if not isinstance(made, ast.Call):
        return False
    trained = finding.keyword(made, "trainable")
    fixed = isinstance(trained, ast.Constant) and trained.value is False
    weight = finding.called(made) in WEIGHTS or values.qualified(source, made.func) == "tensorflow.Variable"
    return weight and not fixed
