"""Where the cause numerics/nonfinite-loss shows in a script's text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from slowtrain.causes.numerics.nonfinite_loss import nonfinite_gradients
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.lint_rules import keras_names, spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

CLIPPED_LOGARITHM_CURE = "take the loss from logits, or keep the argument of the logarithm above 1e-7"
LOGITS_CURE = "take the loss from logits (from_logits=True): the last layer has no activation"
SINGLE_ACTIVATION_CURE = "give the loss the logits: remove the sigmoid or softmax before it"
SMALL_NUMBER_CURE = "use a larger number, or compute this in float32"
ROOT_CURE = f"keep the argument of the root above {keras_models.FLOOR_TEXT}"
ZERO_LABEL_CURE = "make the argument of the logarithm safe: tf.where(y > 0, y, 1.0), or use tf.math.xlogy"
DENSITY_CURE = "add the densities' logarithms, and sum up with tf.reduce_logsumexp"
PROBABILITY_ACTIVATIONS = frozenset({"sigmoid", "softmax", "hard_sigmoid"})
ZERO_REACHING_ACTIVATIONS = frozenset({"relu", *PROBABILITY_ACTIVATIONS})  # activations of the last layer
PRODUCT_LAYERS = frozenset({"Multiply", "multiply"})  # 0 if a factor is 0
DEVIATION_FUNCTIONS = frozenset({"std", "reduce_std"})
VARIANCE_FUNCTIONS = frozenset({"var", "reduce_variance"})
SQUASHING_ACTIVATIONS = ("softmax", "sigmoid")
LOGIT_LOSSES = frozenset(
    "sigmoid_cross_entropy_with_logits softmax_cross_entropy_with_logits sparse_softmax_cross_entropy_with_logits "
    "weighted_cross_entropy_with_logits".split()
)
MIN_HALF_NUMBER = 2.0**-25  # anything smaller is zero in float16
# How such a number is written: with an exponent from -8 on, or a smaller one after a fraction, or with seven zeros.
_SMALL_NUMBER = re.compile(r"\d[eE]-[0_]*(?:[89]|[1-9]_?\d)|\.[\d_]*[eE]-|\.[0_]{7}")
_HALF = re.compile(r"float16(?<!\wfloat16)\b")
_DIVIDED = re.compile(r"/(?!=)")


def find_spots(source: Source) -> Iterable[Spot]:
    """Logarithms of 0, losses that take logits for probabilities or the reverse, and numbers that are too small."""
    for nodes, says, cure, edit in (
        (bare_logarithms(source), "this is the logarithm of a number that may be 0", CLIPPED_LOGARITHM_CURE,
         keras_models.floor_logarithms),
        (nonfinite_gradients.find_label_logarithms(source), "a label that is 0, times its logarithm, is NaN",
         ZERO_LABEL_CURE, keras_models.floor_logarithms),
        (nonfinite_gradients.find_density_logarithms(source), "far from every center these densities are 0 in float32",
         DENSITY_CURE, None),
        (loss_of_logits(source), "this loss takes probabilities, but the last layer returns any number",
         LOGITS_CURE, keras_models.use_logits),
        (doubly_squashed_losses(source), "this loss takes logits, but gets probabilities", SINGLE_ACTIVATION_CURE,
         None),
        (vanishing_constants(source), "this number is 0 in float16", SMALL_NUMBER_CURE, None),
        (flat_spreads(source), "this spread is 0 if all numbers are equal", keras_models.DIVISOR_ADVICE,
         keras_models.floor_tensor_divisors),
        (nonfinite_gradients.find_unbounded_roots(source),
         "this distance has no finite gradient if both points are equal", ROOT_CURE, None),
        (nonfinite_gradients.find_masked_logarithms(source),
         "tf.where() discards the logarithm of 0, but not its slope: the gradient is NaN", ZERO_LABEL_CURE, None),
    ):  # fmt: skip
        for node in nodes:
            made = tuple(edit(source)) if edit is not None else ()
            whole = Prescription("edit" if made else "advice", Effect.CHANGES_TRAINING, cure, edits=made)
            yield spots.node_spot(node, says, whole)


def bare_logarithms(source: Source) -> Iterator[ast.Call]:
    """Find ``tf.math.log(p)`` of a probability that may be 0, or of one minus it."""
    if source.words.isdisjoint({*PROBABILITY_ACTIVATIONS, "Sequential", "Model"}):
        return
    named = name_bindings.may_name(source, *keras_models.LOGARITHMS)
    for call in call_index.index_of(source).calls_of("log") if named else ():
        match call:
            case ast.Call(args=[ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=whole)], keywords=[]):
                zero = _is_probability(source, whole)
            case ast.Call(args=[given], keywords=[]) if not isinstance(given, ast.BinOp):
                zero = _is_probability(source, given) or _is_zero_reaching_output(source, given)
            case _:
                continue
        logarithm = name_bindings.qualified_name(source, call.func) in keras_models.LOGARITHMS
        floored = keras_models.has_floor(source, call.args[0])
        if logarithm and zero and not floored and not _is_only_sampled(source, call):
            yield call


def _is_only_sampled(source: Source, node: ast.AST) -> bool:
    """Whether a value is only sampled. ``tf.random.categorical`` never draws an item with the logit -inf."""
    parent = node_lookup.parents_of(source).get(node)
    return isinstance(parent, ast.Call) and name_bindings.qualified_name(source, parent.func).endswith(
        "random.categorical"
    )


def _is_probability(source: Source, node: ast.expr, depth: int = 4) -> bool:
    """Whether an expression is the output of a sigmoid or softmax, possibly masked or summed."""
    if isinstance(node, ast.Name) and depth:
        value = name_bindings.single_assignment(source, node) or name_bindings.latest_assignment(source, node)
        return value is not None and _is_probability(source, value, depth - 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        sides = (node.left, node.right) if isinstance(node.op, ast.Mult) else (node.left,)
        return any(_is_probability(source, side, depth) for side in sides)
    if isinstance(node, ast.Subscript):
        return _is_probability(source, node.value, depth)
    if not isinstance(node, ast.Call):
        return False
    if node_lookup.called_name(node) in ("reshape", "squeeze", "reduce_sum") and node.args and depth:
        return node_lookup.called_name(node) != "reduce_sum" and _is_probability(source, node.args[0], depth - 1)
    name = name_bindings.qualified_name(source, node.func)
    return name.startswith(("tensorflow.", "keras.")) and name.rpartition(".")[2] in PROBABILITY_ACTIVATIONS


def _is_zero_reaching_output(source: Source, node: ast.expr, depth: int = 4) -> bool:
    """Whether it is the output of the only model, whose last activation can reach 0."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        model = name_bindings.single_assignment(source, node.func)
        return isinstance(model, ast.Call) and keras_models.is_model(source, model) and _model_ends_at_zero(source)
    if not isinstance(node, ast.Name) or not depth:
        return False
    function = node_lookup.enclosing_function(source, node)
    if function is None or node.id not in scope_names.parameter_names(function)[1:2]:
        value = name_bindings.single_assignment(source, node)
        return value is not None and _is_zero_reaching_output(source, value, depth - 1)
    own = call_index.is_compiled_loss(source, function.name)
    return own and not call_index.index_of(source).calls_of(function.name) and _model_ends_at_zero(source)


def _model_ends_at_zero(source: Source) -> bool:
    last = _only_output_layer(source)
    if last is None:
        return False
    if node_lookup.called_name(last) in PRODUCT_LAYERS:
        given = getattr(node_lookup.parents_of(source).get(last), "args", None)
        parts = given[0].elts if given and isinstance(given[0], (ast.List, ast.Tuple)) else []
        made = (name_bindings.single_assignment(source, one) if isinstance(one, ast.Name) else one for one in parts)
        return any(
            isinstance(m, ast.Call) and isinstance(m.func, ast.Call) and _layer_reaches_zero(m.func) for m in made
        )
    return _layer_reaches_zero(last)


def _layer_reaches_zero(layer: ast.Call) -> bool:
    return _activation_name(layer) in ZERO_REACHING_ACTIVATIONS


def _activation_name(layer: ast.Call) -> object:
    """Return the name of the activation of a layer, or of the layer if it is an activation; None if there is none."""
    kind = node_lookup.called_name(layer)
    given = node_lookup.argument_value(layer, "activation", 0 if kind == "Activation" else 1)
    return "softmax" if kind == "Softmax" else given.value if isinstance(given, ast.Constant) else None


def flat_spreads(source: Source) -> Iterator[ast.expr]:
    """Find tensors divided by their standard deviation along an axis, which is 0 if all numbers are equal."""
    if source.words.isdisjoint(
        {*DEVIATION_FUNCTIONS, *VARIANCE_FUNCTIONS, "moments"}
    ) or not call_index.takes_training_steps(source):
        return
    for node in call_index.nodes_matching(source, _DIVIDED, ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_bare_spread(source, node.right):
            yield node.right


def _is_bare_spread(source: Source, node: ast.expr, depth: int = 4) -> bool:
    """Whether it is a standard deviation along an axis without a floor, by an op of the framework."""
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node) if depth else None
        # A value of all data, computed once outside the step, is NaN in the first step or never.
        once = value is not None and node_lookup.enclosing_function(
            source, value
        ) is not node_lookup.enclosing_function(source, node)
        return value is not None and not once and _is_bare_spread(source, value, depth - 1)
    if not isinstance(node, ast.Call) or not _is_framework_call(source, node):
        return False
    if node_lookup.called_name(node) == "sqrt" and len(node.args) == 1:
        return _is_variance(source, node.args[0])
    return (
        node_lookup.called_name(node) in DEVIATION_FUNCTIONS and node_lookup.argument_value(node, "axis", 1) is not None
    )


def _is_variance(source: Source, node: ast.expr) -> bool:
    if not isinstance(node, ast.Name):
        if not isinstance(node, ast.Call) or node_lookup.argument_value(node, "axis", 1) is None:
            return False
        return _is_framework_call(source, node) and node_lookup.called_name(node) in VARIANCE_FUNCTIONS
    bound = list(name_bindings.bindings_of(name_bindings.binding_scope(source, node, node.id), node.id))
    above = node_lookup.parents_of(source)
    pair = above.get(bound[0]) if len(bound) == 1 else None
    made = above.get(pair) if isinstance(pair, ast.Tuple) and pair.elts[1:] == bound else None
    if isinstance(made, ast.Assign) and isinstance(made.value, ast.Call):
        return _is_framework_call(source, made.value) and node_lookup.called_name(made.value) == "moments"
    value = name_bindings.single_assignment(source, node)
    return isinstance(value, ast.Call) and _is_variance(source, value)


def _is_framework_call(source: Source, node: ast.Call) -> bool:
    return name_bindings.qualified_name(source, node.func).startswith(("tensorflow.", "keras."))


def loss_of_logits(source: Source) -> Iterator[ast.expr]:
    """Find cross-entropies of probabilities for a model whose last layer outputs logits."""
    named = any(name in source.text for name in (*keras_models.LOSS_CLASSES, *keras_models.CROSS_ENTROPY_LOSSES))
    last = _compiled_output_layer(source) if named else None
    if last is None or node_lookup.called_name(last) != "Dense" or len(last.args) > 1:
        return
    if any(k.arg in (None, "activation") for k in last.keywords):
        return
    for call in call_index.index_of(source).calls_of("compile"):
        loss = node_lookup.argument_value(call, "loss", 1)
        loss = name_bindings.single_assignment(source, loss) if isinstance(loss, ast.Name) else loss
        match loss:
            case ast.Constant(value=name) if name in keras_models.LOSS_CLASSES:
                yield loss
            case ast.Call() if node_lookup.called_name(loss) in keras_models.CROSS_ENTROPY_LOSSES:
                ours = name_bindings.qualified_name(source, loss.func).startswith("keras.losses.")
                if ours and node_lookup.argument_value(loss, "from_logits", 0) is None:
                    yield loss


def doubly_squashed_losses(source: Source) -> Iterator[ast.expr]:
    """Find a softmax or sigmoid that is passed to a loss of logits."""
    for call in call_index.index_of(source).calls_of(*sorted(LOGIT_LOSSES)):
        if not name_bindings.qualified_name(source, call.func).startswith("tensorflow."):
            continue
        logits = node_lookup.argument_value(call, "logits", 1)
        if logits is not None and _is_probability(source, logits):
            yield logits
    last = _compiled_output_layer(source) if "from_logits" in source.text else None
    if last is None or _activation_name(last) not in SQUASHING_ACTIVATIONS:
        return
    for call in call_index.index_of(source).calls_of("compile"):
        loss = node_lookup.argument_value(call, "loss", 1)
        given = node_lookup.argument_value(loss, "from_logits", 0) if isinstance(loss, ast.Call) else None
        named = isinstance(loss, ast.Call) and node_lookup.called_name(loss) in keras_models.CROSS_ENTROPY_LOSSES
        if named and isinstance(given, ast.Constant) and given.value is True:
            yield given


def _compiled_output_layer(source: Source) -> ast.Call | None:
    """Return the last layer of the only compiled model of a file."""
    return _only_output_layer(source) if call_index.index_of(source).calls_of("compile") else None


def _only_output_layer(source: Source) -> ast.Call | None:
    """Return the last layer of the only model of a file."""
    made = [c for c in call_index.index_of(source).calls_of("Sequential", "Model") if keras_models.is_model(source, c)]
    return keras_models.output_layer(source, made[0]) if len(made) == 1 else None


def vanishing_constants(source: Source) -> Iterator[ast.expr]:
    """Find small constants against division by zero that are 0 in float16."""
    if source.words.isdisjoint({"cast", *keras_names.DTYPE_SETTERS}) or not _HALF.search(source.text):
        return
    setters = call_index.index_of(source).calls_of(*keras_names.DTYPE_SETTERS)
    half = any(keras_names.dtype_set_by(call) == "float16" for call in setters)
    for node in call_index.nodes_matching(source, _SMALL_NUMBER, ast.BinOp):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            continue
        for small, other in ((node.right, node.left), (node.left, node.right)):
            match small:
                case ast.Constant(value=float(value)) if 0 < value < MIN_HALF_NUMBER:
                    if _is_half_cast(source, other) or (half and _is_half_tensor(source, other)):
                        yield small


def _is_half_cast(source: Source, node: ast.expr) -> bool:
    """Whether ``node`` is a tensor cast to float16."""
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node) or name_bindings.latest_assignment(source, node)
        return value is not None and not isinstance(value, ast.Name) and _is_half_cast(source, value)
    if not isinstance(node, ast.Call) or node_lookup.called_name(node) != "cast":
        return False
    dtype = node_lookup.argument_value(node, "dtype", 1)
    named = isinstance(dtype, ast.Constant) and dtype.value == "float16"
    return named or (dtype is not None and name_bindings.qualified_name(source, dtype) == "tensorflow.float16")


def _is_half_tensor(source: Source, node: ast.expr) -> bool:
    calls = syntax_tree.nodes_inside(node, ast.Call)
    return any(name_bindings.qualified_name(source, c.func).startswith(("tensorflow.", "keras.ops.")) for c in calls)
