"""Edits of Keras models: optimizers, arguments of compile(), settings of layers, number format."""

from __future__ import annotations

import ast
import re

from slowtrain.model import Edit
from slowtrain.script.navigation import name_bindings
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
    calls = [
        n
        for n in syntax_tree.walk(source.tree)
        if isinstance(n, ast.Call) and name_bindings.qualified_name(source, n.func) in ADAM_NAMES
    ]
    named = [n for n in _compile_optimizers(source) if isinstance(n, ast.Constant) and str(n.value).lower() == "adam"]
    handed = _adam_references(source)
    if len(calls) + len(named) + len(handed) != 1 or "LazyAdam" in source.text:
        return ()
    tf, more = edits.ensure_import(source, "tensorflow", "tf")
    if handed:  # LazyAdam accepts the same arguments
        adam, made = edits.node_text(source, handed[0]), edits.replace_node(source, handed[0], "LazyAdam")
    elif calls:
        if len(calls[0].args) > 1 or any(k.arg not in ADAM_ARGUMENTS for k in calls[0].keywords):
            return ()  # weight decay and clipping update every row
        adam, made = edits.node_text(source, calls[0].func), edits.replace_node(source, calls[0].func, "LazyAdam")
    else:
        adam, made = f"{tf}.keras.optimizers.Adam", edits.replace_node(source, named[0], "LazyAdam()")
    inside: ast.AST = [*handed, *calls, *named][0]
    above = find.parents_of(source)
    while not isinstance(above[inside], ast.Module):
        inside = above[inside]
    if not isinstance(inside, ast.stmt):
        return ()
    return (edits.insert_before(source, inside, LAZY_ADAM.format(adam=adam, tf=tf)), made, *more)


def _adam_references(source: Source) -> list[ast.expr]:
    """Return references to the class Adam that is called later, as in ``{"adam": keras.optimizers.Adam}``."""
    above = find.parents_of(source)
    found: list[ast.expr] = []
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and name_bindings.qualified_name(source, node) in ADAM_NAMES:
            holder = above.get(node)
            valued = isinstance(holder, (ast.Assign, ast.Return)) and holder.value is node
            if valued or (isinstance(holder, ast.Dict) and node in holder.values):
                found.append(node)
    return found


def _compile_optimizers(source: Source) -> list[ast.expr]:
    """Return the optimizer arguments of the calls of ``compile``."""
    found = [find.argument_value(call, "optimizer", 0) for call in compile_calls(source)]
    return [n for n in found if n is not None]


def compile_calls(source: Source) -> list[ast.Call]:
    return [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
            and n.func.attr == "compile" and name_bindings.qualified_name(source, n.func) != "re.compile"]  # fmt: skip


def set_compile_argument(source: Source, name: str, value: str) -> tuple[Edit, ...]:
    """Set an argument in every call of ``compile``. Empty if a call sets another value or unpacks arguments."""
    done = []
    for call in compile_calls(source):
        given = find.argument_value(call, name)
        plain = given is None or (isinstance(given, ast.Constant) and ast.unparse(given) != value)
        if not plain or any(k.arg is None for k in call.keywords):
            return ()
        done.append(edits.set_keyword(source, call, name, value))
    return tuple(done)


def use_fused_rnn(source: Source, line: int) -> tuple[tuple[Edit, ...], bool]:
    """Remove settings of the recurrent layer at ``line`` that cuDNN lacks. Return whether results stay identical."""
    done: list[Edit] = []
    same = True
    for call in find.calls_at_line(source, line, "LSTM", "GRU"):
        for given in call.keywords:
            value = given.value.value if isinstance(given.value, ast.Constant) else None
            if given.arg in FUSED_RNN_DEFAULTS and value is not None and value != FUSED_RNN_DEFAULTS[given.arg]:
                if given.arg == "use_cudnn" and value is True:
                    continue
                done.append(
                    edits.replace_node(source, given.value, repr(FUSED_RNN_DEFAULTS[given.arg]).replace("'", '"'))
                )
                same = same and given.arg in ("unroll", "use_cudnn")
    return tuple(done), same


def unfused_setting(call: ast.Call) -> ast.keyword | None:
    """Return the first setting of an LSTM or GRU that prevents the fused kernel on a GPU."""
    for given in call.keywords:
        value = given.value
        if (
            given.arg not in FUSED_RNN_DEFAULTS
            or not isinstance(value, ast.Constant)
            or value.value == FUSED_RNN_DEFAULTS[given.arg]
        ):
            continue
        if given.arg != "use_cudnn" or value.value is not True:
            return given
    return None


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
    outputs = [
        output_layer(source, n)
        for n in syntax_tree.walk(source.tree)
        if isinstance(n, ast.Call) and is_model(source, n)
    ]
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
    calls = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)]
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
        added = [
            n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == f"{name}.add"
        ]
        last = max(added, key=edits.node_start, default=None)
        return last.args[0] if last is not None and last.args and isinstance(last.args[0], ast.Call) else None
    outputs = find.argument_value(model, "outputs", 1)
    value = name_bindings.single_assignment(source, outputs) if isinstance(outputs, ast.Name) else outputs
    made = value.func if isinstance(value, ast.Call) else None  # Dense(10)(x)
    return made if isinstance(made, ast.Call) else None


def _builds_layers(source: Source, statement: ast.stmt) -> bool:
    """Whether a module-level statement builds layers, directly or in a function that it defines."""
    calls = [n for n in syntax_tree.walk(statement) if isinstance(n, (ast.Call, ast.ClassDef))]
    return any(LAYER_NAME.match(name_bindings.qualified_name(source, n.func if isinstance(n, ast.Call) else n.bases[0]))
               for n in calls if isinstance(n, ast.Call) or n.bases)  # fmt: skip


def remove_cpu_device(source: Source) -> tuple[Edit, ...]:
    """Remove ``with tf.device`` that places training code on the CPU."""
    done = []
    for block in [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.With)]:
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
    for call in [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)]:
        if find.called_name(call) == "enable_tensor_float_32_execution":
            given = find.argument_value(call, "enabled", 0)
            if isinstance(given, ast.Constant) and given.value is False:
                done.append(edits.replace_node(source, given, "True"))
    return tuple(done)
