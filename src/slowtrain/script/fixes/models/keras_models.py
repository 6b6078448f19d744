"""Edits of Keras models: optimizers, arguments of compile(), layers, number formats, XLA, finite losses."""

from __future__ import annotations

import ast
import re

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Keras 2 and 3 both call update_step. Only Keras 3 passes the learning rate and has its own slot lookup.
LAZY_ADAM = '''
class LazyAdam({adam}):
    """Adam that updates only those rows of a table that the batch looked up."""

    def update_step(self, gradient, variable, *rate):
        if not isinstance(gradient, {tf}.IndexedSlices):
            return super().update_step(gradient, variable, *rate)
        rows, group = {tf}.unique(gradient.indices)
        gradient = {tf}.math.unsorted_segment_sum(gradient.values, group, {tf}.size(rows))
        at = self._get_variable_index(variable) if rate else self._index_dict[self._var_key(variable)]
        moments = [m.value if rate else m for m in (self._momentums[at], self._velocities[at])]
        first = self.beta_1 * {tf}.gather(moments[0], rows) + (1 - self.beta_1) * gradient
        second = self.beta_2 * {tf}.gather(moments[1], rows) + (1 - self.beta_2) * {tf}.square(gradient)
        moments[0].scatter_update({tf}.IndexedSlices(first, rows))
        moments[1].scatter_update({tf}.IndexedSlices(second, rows))
        step = {tf}.cast(self.iterations + 1, gradient.dtype)
        scale = {tf}.cast(rate[0] if rate else self.learning_rate, gradient.dtype)
        scale = scale * {tf}.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        variable.scatter_sub({tf}.IndexedSlices(scale * first / ({tf}.sqrt(second) + self.epsilon), rows))

'''
ADAM_ARGUMENTS = ("learning_rate", "lr", "beta_1", "beta_2", "epsilon", "name")
ADAM_NAMES = ("keras.optimizers.Adam", "keras.optimizers.adam.Adam")
FUSED_RNN_DEFAULTS = {"activation": "tanh", "recurrent_activation": "sigmoid", "recurrent_dropout": 0, "unroll": False,
             "use_bias": True, "reset_after": True, "use_cudnn": "auto"}  # fmt: skip
OUTPUT_LAYERS = ("Dense", "Activation", "Softmax", "Conv2D", "Conv1D")
LAYER_NAME = re.compile(r"^keras\.(?:layers|models|Sequential|Model|applications|Input)\b")


def use_lazy_adam(source: Source) -> tuple[Edit, ...]:
    """Replace the only Adam by one that updates only rows used by the batch. Empty if it has other features."""
    optimizers = [find.argument_value(call, "optimizer", 0) for call in compile_calls(source)]
    named = [n for n in optimizers if isinstance(n, ast.Constant) and str(n.value).lower() == "adam"]
    calls = [n for n in call_index.nodes_of_kind(source, ast.Call) if isinstance(n, ast.Call)]
    calls = [n for n in calls if name_bindings.qualified_name(source, n.func) in ADAM_NAMES]
    nodes = [n for n in syntax_tree.walk(source.tree) if isinstance(n, (ast.Name, ast.Attribute))]
    references = [n for n in nodes if name_bindings.qualified_name(source, n) in ADAM_NAMES]
    if len(calls) + len(named) != 1 or len(references) != len(calls) or "LazyAdam" in source.text:
        return ()
    tf, more = edits.ensure_import(source, "tensorflow", "tf")
    if calls:
        if len(calls[0].args) > 1 or any(k.arg not in ADAM_ARGUMENTS for k in calls[0].keywords):
            return ()  # weight decay and clipping update every row
        adam, edit = edits.node_text(source, calls[0].func), edits.replace_node(source, calls[0].func, "LazyAdam")
    else:
        adam, edit = f"{tf}.keras.optimizers.Adam", edits.replace_node(source, named[0], "LazyAdam()")
    inside: ast.AST = [*calls, *named][0]
    above = find.parents_of(source)
    while not isinstance(above[inside], ast.Module):
        inside = above[inside]
    if not isinstance(inside, ast.stmt):
        return ()
    return (edits.insert_before(source, inside, LAZY_ADAM.format(adam=adam, tf=tf)), edit, *more)


def compile_calls(source: Source) -> list[ast.Call]:
    return [n for n in call_index.nodes_of_class(source, ast.Call) if isinstance(n.func, ast.Attribute)
            and n.func.attr == "compile" and name_bindings.qualified_name(source, n.func) != "re.compile"]  # fmt: skip


def set_compile_argument(source: Source, name: str, value: str) -> tuple[Edit, ...]:
    """Set an argument in every call of ``compile``. Empty if a call sets another value or unpacks arguments."""
    done = []
    for call in compile_calls(source):
        argument = find.argument_value(call, name)
        plain = argument is None or (isinstance(argument, ast.Constant) and ast.unparse(argument) != value)
        if not plain or any(k.arg is None for k in call.keywords):
            return ()
        done.append(edits.set_keyword(source, call, name, value))
    return tuple(done)


def use_fused_rnn(source: Source, line: int) -> tuple[tuple[Edit, ...], bool]:
    """Remove settings of the recurrent layer at ``line`` that cuDNN lacks. Return whether results stay identical."""
    done: list[Edit] = []
    same = True
    for call in find.calls_at_line(source, line, "LSTM", "GRU"):
        for keyword in _unfused_settings(call):
            done.append(
                edits.replace_node(source, keyword.value, repr(FUSED_RNN_DEFAULTS[keyword.arg or ""]).replace("'", '"'))
            )
            same = same and keyword.arg in ("unroll", "use_cudnn")
    return tuple(done), same


def unfused_setting(call: ast.Call) -> ast.keyword | None:
    """Return the first setting of an LSTM or GRU that prevents the fused kernel on a GPU."""
    return next(iter(_unfused_settings(call)), None)


def _unfused_settings(call: ast.Call) -> list[ast.keyword]:
    literal = [k for k in call.keywords if k.arg in FUSED_RNN_DEFAULTS and isinstance(k.value, ast.Constant)]
    values = [(k, getattr(k.value, "value", None)) for k in literal]
    other = [(k, v) for k, v in values if v != FUSED_RNN_DEFAULTS[k.arg or ""]]
    return [k for k, v in other if k.arg != "use_cudnn" or v is not True]


def use_mixed_precision(source: Source, policy: str) -> tuple[Edit, ...]:
    """Enable mixed precision of Keras with outputs in float32, for models whose last layer is known.

    A hand-written training loop needs loss scaling for float16. For bfloat16 it does not, if all layers stand in one
    list: the output of such a model stays float32.
    """
    policies = ("set_global_policy", "set_dtype_policy", "LossScaleOptimizer", "Policy")
    if any(name in source.text for name in policies):
        return ()
    by_hand = "GradientTape" in source.text
    if not (policy == "mixed_bfloat16" and _is_sequential_list(source) if by_hand else compile_calls(source)):
        return ()
    outputs = [output_layer(source, n) for n in call_index.nodes_of_class(source, ast.Call) if is_model(source, n)]
    first = next((s for s in source.tree.body if _builds_layers(source, s)), None)
    if not outputs or first is None:
        return ()
    done = []
    for last in outputs:
        if (
            last is None
            or find.called_name(last) not in OUTPUT_LAYERS
            or find.argument_value(last, "dtype") is not None
        ):
            return ()
        done.append(edits.set_keyword(source, last, "dtype", '"float32"'))
    keras, more = keras_reference(source)
    if not keras:
        return ()
    return (edits.insert_before(source, first, f'{keras}.mixed_precision.set_global_policy("{policy}")'), *done, *more)


def _is_sequential_list(source: Source) -> bool:
    """Whether every layer of the file stands in the list of a Sequential model."""
    calls = call_index.nodes_of_class(source, ast.Call)
    lists = [find.argument_value(n, "layers", 0) for n in calls if is_model(source, n)]
    inside = {id(n) for one in lists if isinstance(one, (ast.List, ast.Tuple)) for n in syntax_tree.walk(one)}
    layers = [n for n in calls if name_bindings.qualified_name(source, n.func).startswith("keras.layers.")]
    classes = any(isinstance(n, ast.ClassDef) and n.bases and LAYER_NAME.match(name_bindings.qualified_name(source,
    n.bases[0]))
                  for n in syntax_tree.walk(source.tree))  # fmt: skip
    return bool(layers) and not classes and all(id(n) in inside for n in layers)


def keras_reference(source: Source) -> tuple[str, list[Edit]]:
    """Return how the file refers to Keras, and the edits for a missing import."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Name) and name_bindings.qualified_name(source, node) in ("keras", "tensorflow.keras"):
            return node.id, []
    tf, more = edits.ensure_import(source, "tensorflow", "tf")
    return f"{tf}.keras", more


def is_model(source: Source, call: ast.Call) -> bool:
    return name_bindings.qualified_name(source, call.func) in (
        "keras.Sequential", "keras.models.Sequential", "keras.Model", "keras.models.Model")  # fmt: skip


def output_layer(source: Source, model: ast.Call) -> ast.Call | None:
    """Return the last layer of a model."""
    if find.called_name(model) == "Sequential":
        listed = find.argument_value(model, "layers", 0)
        if isinstance(listed, (ast.List, ast.Tuple)) and listed.elts:
            return listed.elts[-1] if isinstance(listed.elts[-1], ast.Call) else None
        holder = find.enclosing_statement(source, model)
        name = ast.unparse(holder.targets[0]) if isinstance(holder, ast.Assign) else ""
        added = [n for n in call_index.nodes_of_class(source, ast.Call) if ast.unparse(n.func) == f"{name}.add"]
        last = max(added, key=edits.node_start, default=None)
        return last.args[0] if last is not None and last.args and isinstance(last.args[0], ast.Call) else None
    outputs = find.argument_value(model, "outputs", 1)
    value = name_bindings.single_assignment(source, outputs) if isinstance(outputs, ast.Name) else outputs
    layer = value.func if isinstance(value, ast.Call) else None  # Dense(10)(x)
    return layer if isinstance(layer, ast.Call) else None


def _builds_layers(source: Source, statement: ast.stmt) -> bool:
    """Whether a module-level statement builds layers, directly or in a function that it defines."""
    calls = [n for n in syntax_tree.walk(statement) if isinstance(n, (ast.Call, ast.ClassDef))]
    return any(LAYER_NAME.match(name_bindings.qualified_name(source, n.func if isinstance(n, ast.Call) else n.bases[0]))
               for n in calls if isinstance(n, ast.Call) or n.bases)  # fmt: skip


def remove_cpu_device(source: Source) -> tuple[Edit, ...]:
    """Remove ``with tf.device`` that places training code on the CPU."""
    done = []
    for block in call_index.nodes_of_class(source, ast.With):
        for item in block.items:
            call = item.context_expr
            if not isinstance(call, ast.Call) or name_bindings.qualified_name(source, call.func) != "tensorflow.device":
                continue
            device = find.argument_value(call, "device_name", 0)
            on_host = isinstance(device, ast.Constant) and re.search(
                r"(?:^|[/:])cpu(?::\d+)?$", str(device.value).lower()
            )
            inside = [n for s in block.body for n in syntax_tree.walk(s)]
            names = {find.called_name(n) for n in inside if isinstance(n, ast.Call)}
            trains = names & {"GradientTape", "fit", "train_on_batch", "Sequential", "Dense", "Conv2D"}
            data = any("Dataset" in ast.unparse(n) for n in inside if isinstance(n, ast.Attribute))
            if on_host and device is not None and trains and not data:
                done.append(edits.replace_node(source, device, "None"))
    return tuple(done)


def allow_tensor_float(source: Source) -> tuple[Edit, ...]:
    """Enable TF32 again if the file disables it."""
    done = []
    for call in call_index.nodes_of_class(source, ast.Call):
        if find.called_name(call) == "enable_tensor_float_32_execution":
            argument = find.argument_value(call, "enabled", 0)
            if isinstance(argument, ast.Constant) and argument.value is False:
                done.append(edits.replace_node(source, argument, "True"))
    return tuple(done)


# Names that XLA cannot compile: data sets, Python functions, printing, and ops whose result shape depends on the
# values. With one of them in the function, the training would fail.
UNKNOWN_TO_XLA = frozenset(
    "next get_next py_function numpy_function print eig eigvals unique unique_with_counts boolean_mask".split()
)


def compile_steps_with_xla(source: Source) -> tuple[Edit, ...]:
    """Set ``jit_compile=True`` for every compiled model and every ``tf.function`` that computes a gradient."""
    eager = any(
        node_lookup.argument_value(call, "run_eagerly") is not None for call in compile_calls(source)
    )  # Keras refuses both
    models = () if eager else set_compile_argument(source, "jit_compile", "True")
    return (*models, *compile_functions_with_xla(source))


def compile_functions_with_xla(source: Source) -> tuple[Edit, ...]:
    """Set ``jit_compile=True`` in the decorators of functions that compute a gradient."""
    done: list[Edit] = []
    for node in call_index.nodes_of_kind(source, ast.FunctionDef):
        if isinstance(node, ast.FunctionDef) and _is_step_function(node):
            done += [edit for decorator in node.decorator_list for edit in _with_jit_compile(source, decorator)]
    return tuple(done)


def _is_step_function(function: ast.FunctionDef) -> bool:
    called = {node_lookup.called_name(n) for n in syntax_tree.walk(function) if isinstance(n, ast.Call)}
    return bool(called & {"GradientTape", "apply_gradients"}) and not called & UNKNOWN_TO_XLA


def _with_jit_compile(source: Source, node: ast.expr) -> list[Edit]:
    """Add ``jit_compile=True`` to ``@tf.function`` or ``@tf.function(…)``."""
    call = node if isinstance(node, ast.Call) else None
    if name_bindings.qualified_name(source, call.func if call is not None else node) != "tensorflow.function":
        return []
    if call is None:
        return [edits.insert_text(source, edits.node_end(node), "(jit_compile=True)")]
    argument = node_lookup.argument_value(call, "jit_compile")
    plain = argument is None or (isinstance(argument, ast.Constant) and not argument.value)
    packed = any(k.arg is None for k in call.keywords)
    return [edits.set_keyword(source, call, "jit_compile", "True")] if plain and not packed else []


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
    ):
        done = cure(source)
        if done:
            return says, done
    return GENERAL_ADVICE, ()


def floor_logarithms(source: Source) -> tuple[Edit, ...]:
    """Give the arguments of logarithms a small floor."""
    done: list[Edit] = []
    for call in call_index.nodes_of_class(source, ast.Call):
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
    if "float16" in source.text:
        return ()  # the small number would be 0 in float16
    done: list[Edit] = []
    for node in [n for n in call_index.nodes_of_class(source, ast.BinOp) if isinstance(n.op, ast.Div)]:
        if _may_be_zero_spread(source, node.right):
            done.append(edits.insert_text(source, edits.node_start(node.right), "("))
            done.append(edits.insert_text(source, edits.node_end(node.right), f" + {FLOOR_TEXT})"))
    return tuple(done)


def _may_be_zero_spread(source: Source, node: ast.expr) -> bool:
    """Whether it is a standard deviation, variance or norm of a tensor without a floor."""
    value = name_bindings.single_assignment(source, node) if isinstance(node, ast.Name) else node
    if not isinstance(value, ast.Call) or find.called_name(value) not in SPREAD_FUNCTIONS:
        return False
    return name_bindings.qualified_name(source, value.func).startswith(("tensorflow.", "keras."))


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
    """Replace a named loss in ``compile()`` by one from logits, if the last layer has no activation."""
    models = [n for n in call_index.nodes_of_class(source, ast.Call) if is_model(source, n)]
    last = output_layer(source, models[0]) if len(models) == 1 else None
    if last is None or find.called_name(last) != "Dense" or find.argument_value(last, "activation", 1) is not None:
        return ()
    done: list[Edit] = []
    for call in compile_calls(source):
        loss = find.argument_value(call, "loss", 1)
        if isinstance(loss, ast.Constant) and loss.value in LOSS_CLASSES:
            keras, more = keras_reference(source)
            done += [
                edits.replace_node(source, loss, f"{keras}.losses.{LOSS_CLASSES[loss.value]}(from_logits=True)"),
                *more,
            ]
    return tuple(done)


def clip_gradients(source: Source) -> tuple[Edit, ...]:
    """Clip the gradients of plain SGD, if nothing bounds them."""
    every = call_index.nodes_of_class(source, ast.Call)
    calls = [n for n in every if name_bindings.qualified_name(source, n.func) == "keras.optimizers.SGD"]
    bounded = {"clipnorm", "clipvalue", "global_clipnorm", None}
    if len(calls) != 1 or any(k.arg in bounded for k in calls[0].keywords) or "clip_by" in source.text:
        return ()
    return (edits.set_keyword(source, calls[0], "clipnorm", "1.0"),)
