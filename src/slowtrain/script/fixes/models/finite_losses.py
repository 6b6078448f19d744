"""Edits that keep losses finite: floors for logarithms and divisors, losses from logits, gradient clipping."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.fixes.models import model_settings
from slowtrain.script.navigation import name_bindings
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

LOGARITHMS = ("tensorflow.math.log", "tensorflow.compat.v1.log", "keras.ops.log", "keras.backend.log")
FLOOR_FUNCTIONS = frozenset({"maximum", "clip_by_value", "clip", "epsilon", "softplus", "exp", "cosh", "relu6"})
CROSS_ENTROPY_LOSSES = ("BinaryCrossentropy", "CategoricalCrossentropy", "SparseCategoricalCrossentropy")
LOSS_CLASSES = {
    "binary_crossentropy": "BinaryCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
}
SPREAD_FUNCTIONS = frozenset(
    "std var variance reduce_std reduce_variance norm euclidean_norm reduce_euclidean_norm".split()
)
FLOOR_TEXT = "1e-7"  # the epsilon of Keras losses


DIVISOR_ADVICE = f"add {FLOOR_TEXT} to a spread or a norm before it divides: of numbers that are all alike it is 0"
GENERAL_ADVICE = "compute the loss from logits in float32, scale inputs, clip gradients, lower the rate"


def first_stabilising_edit(source: Source) -> tuple[str, tuple[Edit, ...]]:
    """Return the advice and the edits of the first fix that applies to the file; empty if none applies."""
    for says, cure in (
        (f"keep what a logarithm is taken of above {FLOOR_TEXT}", floor_logarithms),
        ("take the loss from logits (from_logits=True): the last layer has no activation", use_logits),
        (DIVISOR_ADVICE, floor_tensor_divisors),
        ("clip gradients (clipnorm=1.0), so that no step can run away; better still, scale the inputs", clip_gradients),
        (DIVISOR_ADVICE, floor_array_divisors),
    ):
        done = cure(source)
        if done:
            return says, done
    return GENERAL_ADVICE, ()


def floor_logarithms(source: Source) -> tuple[Edit, ...]:
    """Give the arguments of logarithms a small floor."""
    done: list[Edit] = []
    for call in [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)]:
        if name_bindings.qualified_name(source, call.func) not in LOGARITHMS or len(call.args) != 1 or call.keywords:
            continue
        if not isinstance(call.func, ast.Attribute) or has_floor(source, call.args[0]):
            continue
        module = edits.node_text(source, call.func.value).removesuffix(".math")
        done.append(edits.insert_text(source, edits.node_start(call.args[0]), f"{module}.maximum("))
        done.append(edits.insert_text(source, edits.node_end(call.args[0]), f", {FLOOR_TEXT})"))
    return tuple(done)


def floor_tensor_divisors(source: Source) -> tuple[Edit, ...]:
    """Add a small number to standard deviations and norms by which tensors are divided."""
    return _floor_divisors(source, ("tensorflow.", "keras."))


def floor_array_divisors(source: Source) -> tuple[Edit, ...]:
    """Add a small number to divisors of arrays, because the data may already be not finite."""
    return _floor_divisors(source, ("numpy.", ""))


def _floor_divisors(source: Source, libraries: tuple[str, ...]) -> tuple[Edit, ...]:
    if "float16" in source.text:
        return ()  # the small number would be 0 in float16
    done: list[Edit] = []
    for node in [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]:
        whose = _spread_name(source, node.right)
        if whose is not None and whose in libraries:
            done.append(edits.insert_text(source, edits.node_start(node.right), "("))
            done.append(edits.insert_text(source, edits.node_end(node.right), f" + {FLOOR_TEXT})"))
    return tuple(done)


def _spread_name(source: Source, node: ast.expr, depth: int = 4) -> str | None:
    """Return the function of a standard deviation, variance or norm without a floor. It may be 0."""
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node) if depth else None
        return _spread_name(source, value, depth - 1) if value is not None else None
    if not isinstance(node, ast.Call) or find.called_name(node) not in SPREAD_FUNCTIONS:
        return None
    whole = name_bindings.qualified_name(source, node.func)
    if whole:
        return f"{whole.partition('.')[0]}."
    return "" if isinstance(node.func, ast.Attribute) and find.called_name(node) in ("std", "var") else None


def has_floor(source: Source, node: ast.expr, depth: int = 4) -> bool:
    """Whether an expression cannot be 0: it adds a small number, has a floor, or only holds constants."""
    if isinstance(node, ast.Name):
        value = (
            (name_bindings.single_assignment(source, node) or name_bindings.latest_assignment(source, node))
            if depth
            else None
        )
        return value is not None and has_floor(source, value, depth - 1)
    if isinstance(node, ast.Constant):
        return True
    for one in syntax_tree.walk(node):
        if isinstance(one, ast.Call) and find.called_name(one) in FLOOR_FUNCTIONS:
            return True
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add):
            return True  # a constant, or an epsilon by any name
    names = [
        n for n in syntax_tree.walk(node) if isinstance(n, ast.Name) and not name_bindings.qualified_name(source, n)
    ]
    return bool(names) and depth > 0 and all(has_floor(source, n, depth - 1) for n in names)


def use_logits(source: Source) -> tuple[Edit, ...]:
    """Set ``from_logits=True`` if the last layer has no activation, and use float32."""
    made = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and model_settings.is_model(source, n)]
    last = model_settings.output_layer(source, made[0]) if len(made) == 1 else None
    if last is None or find.called_name(last) != "Dense" or find.argument_value(last, "activation", 1) is not None:
        return ()
    done: list[Edit] = []
    for call in [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)]:
        if find.called_name(call) in CROSS_ENTROPY_LOSSES and name_bindings.qualified_name(
            source, call.func
        ).startswith("keras.losses."):
            given = find.argument_value(call, "from_logits", 0)
            if given is None:
                done.append(edits.set_keyword(source, call, "from_logits", "True"))
    for call in model_settings.compile_calls(source):
        loss = find.argument_value(call, "loss", 1)
        if isinstance(loss, ast.Constant) and loss.value in LOSS_CLASSES:
            keras, more = model_settings.keras_reference(source)
            done += [
                edits.replace_node(source, loss, f"{keras}.losses.{LOSS_CLASSES[loss.value]}(from_logits=True)"),
                *more,
            ]
    if not done:
        return ()
    for call in [
        n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and find.called_name(n) == "set_floatx"
    ]:
        if call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == "float16":
            done.append(
                edits.replace_node(source, call.args[0], edits.node_text(source, call.args[0]).replace("16", "32"))
            )
    return tuple(done)


def clip_gradients(source: Source) -> tuple[Edit, ...]:
    """Clip the gradients of plain SGD, if nothing bounds them."""
    calls = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)
             and name_bindings.qualified_name(source, n.func) == "keras.optimizers.SGD"]  # fmt: skip
    bounded = {"clipnorm", "clipvalue", "global_clipnorm", None}
    if len(calls) != 1 or any(k.arg in bounded for k in calls[0].keywords) or "clip_by" in source.text:
        return ()
    return (edits.set_keyword(source, calls[0], "clipnorm", "1.0"),)
