"""Functions, methods and attributes of NumPy, TensorFlow and Keras."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import (
    DTYPE_ALIASES,
    EACH_ITEM,
    NOT_KNOWN,
    UNKNOWN,
    CallArgs,
    Value,
    constant_value,
    dtype_name,
    floating_dtype,
    join_values,
    number_value,
    promoted_dtype,
    sequence_value,
    shape_argument,
)
from slowtrain.script.interpreter.domain.run_context import RunContext
from slowtrain.script.interpreter.library import data_calls, python_builtins, user_callbacks

BUILTIN_NAMES = frozenset(
    "abs all any bool bytes callable dict divmod enumerate filter float format frozenset getattr hasattr hash id input "
    "int isinstance iter len list map max min next object open ord pow print range repr reversed round set setattr "
    "sorted str sum super tuple type vars zip property staticmethod classmethod".split()
)
VECTORIZED_NAME = "numpy.vectorize.made"  # called per element
SHAPED_MAKERS = frozenset({"zeros", "ones", "empty", "full"})
SPLITTING_FUNCTIONS = frozenset({"split", "unstack"})  # give a list of tensors
FLOAT_FUNCTIONS = frozenset(
    "exp log log2 log10 log1p expm1 sqrt sin cos tan tanh sinh cosh arctan arctan2 arcsin arccos mean std var average "
    "median percentile quantile true_divide divide hypot sinc".split()
)
ARRAY_JOINERS = frozenset("array asarray stack concatenate vstack hstack dstack column_stack".split())
BOOL_FUNCTIONS = frozenset("isnan isfinite isinf equal not_equal greater greater_equal less less_equal".split())
FLOAT_MAKERS = frozenset({"zeros", "ones", "linear_to_mel_weight_matrix"})  # without a dtype argument
INTEGER_FUNCTIONS = data_calls.INTEGER_DRAWS | frozenset(
    "randrange argmax argmin argsort argpartition argwhere flatnonzero nonzero digitize bincount arange "
    "searchsorted".split()
)
DTYPE_NAMES = frozenset({"float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"})
SIZE_ARGUMENT_POSITIONS = {
    "searchsorted": 1,
    "digitize": 0,
    "interp": 0,
}  # the position of the argument whose size the result has
SCALAR_FUNCTIONS = frozenset("floor ceil sqrt exp log log10 sin cos tanh clip mean abs where sum power".split())
ADDING_METHODS = frozenset({"append", "extend", "insert", "appendleft", "add"})
CHECKPOINT_CLASSES = ("tensorflow.train.Checkpoint", "tensorflow.train.CheckpointManager")
REMOVING_METHODS = frozenset({"pop", "popleft", "remove", "clear", "sort", "reverse"})
READBACK_METHODS = frozenset({"numpy", "item", "tolist"})


def library_attribute(on: Value, name: str) -> Value:
    """An attribute that no code of the script set."""
    if data_calls.is_pandas(on) and (found := data_calls.table_attribute(on, name)) is not None:
        return found
    if on.kind in ("tensor", "variable", "array"):
        if name == "shape" and on.shape is not None and not on.ragged:
            return sequence_value("tuple", [number_value("int") if n is None else constant_value(n) for n in on.shape])
        if name == "shape":
            return Value("tuple", items={None: number_value("int", on.ragged)}, varies=on.ragged)
        if name in ("size", "ndim") and on.shape is not None and not on.ragged and None not in on.shape:
            return constant_value(prod(n for n in on.shape if n is not None) if name == "size" else len(on.shape))
        if name in ("size", "ndim", "nbytes"):
            return number_value("int", on.ragged)
        if name == "dtype":
            return Value("text", on.dtype or NOT_KNOWN)
        if name == "T":
            return on.with_fields(shape=on.shape[::-1] if on.shape else on.shape)
    if on.kind in ("none", "unknown"):
        if name == "shape":  # batches may be of equal size
            return Value("tuple", items={None: number_value("int", on.ragged)}, of=on)
        return UNKNOWN.varying_in(on.varies)
    return Value("method", name=name, data=on, born=on.born)


def graph_argument(value: Value) -> Value:
    """An argument of a tf.function as its body sees it."""
    if value.kind in ("array", "tensor"):
        return value.with_fields(kind="tensor")
    if value.kind in ("list", "tuple", "dict"):
        return value.with_fields(items={k: graph_argument(v) for k, v in value.items.items()})
    return value


def graph_result(value: Value) -> Value:
    """The result of a tf.function: new tensors at each call."""
    if value.kind in ("number", "unknown", "array", "variable", "tensor"):
        return value.with_fields(kind="tensor", known=NOT_KNOWN, name="result")
    if value.kind in ("list", "tuple", "dict"):
        return value.with_fields(items={k: graph_result(v) for k, v in value.items.items()})
    return value


def library_call(machine: RunContext, name: str, call: CallArgs) -> Value:
    """The result of a function or class of a library."""
    found = python_builtins.python_call(machine, name, call)
    if found is not None:
        return found
    if name.startswith("numpy."):
        return shape_rules.with_shape(_numpy_call(machine, name, call), name, call)
    if name.startswith("tensorflow.data."):
        return user_callbacks.dataset_value(machine, name, call)
    if name == "tensorflow_datasets.load":
        return user_callbacks.catalog_value(machine, call)
    if name == "tensorflow.function":
        return _tf_function(machine, call)
    if name in ("tensorflow.py_function", "tensorflow.numpy_function"):
        return user_callbacks.py_function_value(machine, call)
    if name.startswith("tensorflow."):
        return shape_rules.with_shape(_tensorflow_call(machine, name, call), name, call)
    if name.startswith("keras."):
        return _keras_call(machine, name, call)
    if name.startswith("pandas."):
        return data_calls.pandas_call(machine, name, call)
    return UNKNOWN.varying_in(call.varies)


def _tf_function(machine: RunContext, call: CallArgs) -> Value:
    """``tf.function(f)``, or ``tf.function(jit_compile=True)``, which is called with the function later."""
    if not call.args:
        return Value("graphing", data=dict(call.keywords))
    function = call.args[0]
    bound = function.kind == "method" and function.of is not None  # self.update = tf.function(self._update)
    graph = Value("graph", node=call.node, name=function.name, of=function.of if bound else function,
                  born=machine.born(), data=dict(call.keywords))  # fmt: skip
    return Value("method", name=function.name, of=graph, data=function.data, born=machine.born()) if bound else graph


def _numpy_call(machine: RunContext, name: str, call: CallArgs) -> Value:
    last = name.rpartition(".")[2]
    if name == "numpy.vectorize" and call.args and "signature" not in call.keywords:
        return Value("library", name=VECTORIZED_NAME, of=call.args[0], node=call.node)
    if name == VECTORIZED_NAME:
        sides = [one.shape for one in call.every if one.kind == "array" and one.shape is not None]
        wide = operators.broadcast_shape(sides) if sides else None
        return Value("array", varies=call.varies, ragged=call.ragged_loops, shape=wide)
    if last in ("default_rng", "RandomState", "Generator"):
        return Value("library", name="numpy.random.Generator", born=machine.born())
    if ".random" in name:
        return data_calls.numpy_draw(machine, last, call)
    arrays = [a for a in call.args if a.kind in ("array", "tensor", "variable")]
    if last in SCALAR_FUNCTIONS and call.args and not arrays and all(a.kind == "number" for a in call.args):
        return Value("array", varies=call.varies, dtype="float64")  # a NumPy scalar, which a graph takes as a tensor
    named = dtype_name(call.get("dtype")) or next((d for a in call.args[1:] if (d := dtype_name(a)) in DTYPE_NAMES), "")
    if last in SHAPED_MAKERS or last in ("arange", "linspace", "logspace", "geomspace", "eye", "identity"):
        shape = call.get("shape", 0)
        moving = _varying_shape_loops(shape) if last in SHAPED_MAKERS else call.varies
        counted = not any(a.name == "float" for a in call.args)
        usual = "int64" if last == "arange" and counted else "float64"
        if last == "full":
            usual = _literal_dtype([call.get("fill_value", 1)])
        wide = shape_argument(shape) if last in SHAPED_MAKERS else None
        return Value("array", varies=call.varies, ragged=moving | call.ragged_loops, dtype=named or usual, shape=wide,
                     born=machine.born())  # fmt: skip
    if last == "resize":
        return Value(
            "array",
            varies=call.varies,
            ragged=_varying_shape_loops(call.get("new_shape", 1)),
            dtype=promoted_dtype(*arrays),
        )
    if last in DTYPE_NAMES or last in DTYPE_ALIASES:
        return Value("array", varies=call.varies, ragged=call.ragged_loops, dtype=DTYPE_ALIASES.get(last, last))
    dtype = "int64" if last in INTEGER_FUNCTIONS else _numpy_dtype(last, named or promoted_dtype(*arrays), call)
    like = (
        call.args[SIZE_ARGUMENT_POSITIONS[last] : SIZE_ARGUMENT_POSITIONS[last] + 1]
        if last in SIZE_ARGUMENT_POSITIONS
        else []
    )
    return Value("array", varies=call.varying_inside, ragged=like[0].ragged if like else call.ragged_loops,
    born=machine.born(), dtype=dtype,
                 shape=like[0].shape if like else None)  # fmt: skip


def _numpy_dtype(last: str, known: str, call: CallArgs) -> str:
    """The dtype of a function's result. ``known``: the one that is named, or that of arithmetic with its arguments."""
    inside = [i for a in call.args for i in a.nested_values(2)]
    if not known and last in ARRAY_JOINERS:
        dtypes = {i.dtype for i in inside if i.kind in ("array", "tensor")}
        known = next(iter(dtypes)) if len(dtypes) == 1 else "" if dtypes else _literal_dtype(inside)
    if last in ("loadtxt", "genfromtxt"):
        return known or "float64"
    return "bool" if last in BOOL_FUNCTIONS else floating_dtype(known) if last in FLOAT_FUNCTIONS else known


def _literal_dtype(inside: Sequence[Value]) -> str:
    """The dtype of an array of Python numbers; "" if one of them is unknown."""
    names = {one.name if one.kind == "number" else "" for one in inside if one.kind not in ("list", "tuple")}
    if not names or not names <= {"int", "float", "bool", "few"}:
        return ""
    return "float64" if "float" in names else "bool" if names == {"bool"} else "int64"


def _varying_shape_loops(shape: Value) -> frozenset[int]:
    """The loops whose iterations change a shape. Few distinct shapes do not count: each may have its own graph."""
    return frozenset(v for one in shape.nested_values(2) if one.name != "few" for v in one.varies)


def _tensorflow_call(machine: RunContext, name: str, call: CallArgs) -> Value:
    last = name.rpartition(".")[2]
    if name in ("tensorflow.Module", "tensorflow.GradientTape", *CHECKPOINT_CLASSES) or last.endswith(
        ("Strategy", "Writer")
    ):
        return Value("keras", name=name, born=machine.born(), node=call.node)
    first = call.get("initial_value" if last == "Variable" else "value", 0)
    named = dtype_name(call.get("dtype"))
    number_format = {"float": "float32", "int": "int32"}.get(first.name, "") if first.kind == "number" else ""
    if last == "Variable":
        return Value("variable", dtype=named or first.dtype or number_format, born=machine.born(), node=call.node)
    if last == "TensorSpec":
        return Value("tensor", dtype=named or dtype_name(call.get("", 1)), shape=shape_argument(call.get("shape", 0)))
    if last in ("constant", "convert_to_tensor", "cast", "identity", "convert_image_dtype"):
        dtype = named or dtype_name(call.get("", 1)) or first.dtype or number_format
        return Value("tensor", varies=call.varying_inside, ragged=call.ragged_loops, dtype=dtype, born=machine.born())
    found = data_calls.record_result(last, call)
    if found is not None:
        return found
    moving = call.varying_inside | (frozenset(machine.depth()) if ".random" in name else frozenset())
    dtype = "int32" if last == "range" else named or promoted_dtype(*call.args)
    if not dtype and (".random" in name or last in FLOAT_MAKERS):
        dtype = "float32"
    tensor = Value("tensor", varies=moving, ragged=call.ragged_loops, dtype=dtype, born=machine.born())
    return _tensor_list(tensor) if last in SPLITTING_FUNCTIONS else tensor


def _tensor_list(one: Value) -> Value:
    """A Python list of tensors like ``one``."""
    return Value("list", items={None: one}, varies=one.varies, born=one.born)


def _keras_call(machine: RunContext, name: str, call: CallArgs) -> Value:
    last = name.rpartition(".")[2]
    if name.startswith(("keras.ops", "keras.random", "keras.activations")):
        tensor = Value("tensor", varies=call.varying_inside, ragged=call.ragged_loops, dtype=promoted_dtype(*call.args))
        return _tensor_list(tensor) if last in SPLITTING_FUNCTIONS else shape_rules.with_shape(tensor, name, call)
    if last == "Input":
        return Value(
            "tensor",
            dtype=dtype_name(call.get("dtype")) or "float32",
            name="symbolic",
            shape=shape_rules.input_shape(call),
        )
    if name.startswith("keras.datasets.") and last == "load_data":
        return data_calls.loaded_arrays(name.split(".")[2], call)
    if last == "pad_sequences":
        ragged = frozenset[int]() if "maxlen" in call.keywords else call.varying_inside
        return Value("array", varies=call.varying_inside, ragged=ragged, dtype="int32")
    if name == "keras.optimizers.get":
        chosen = call.get("identifier", 0)
        named = chosen.items.get("class_name", UNKNOWN) if chosen.kind == "dict" else chosen
        name = f"keras.optimizers.{named.known}" if isinstance(named.known, str) else name
        last = name.rpartition(".")[2].capitalize()
    if last[:1].isupper() or last in ("clone_model", "load_model"):
        # Another learning rate does not need another optimizer: it can be set.
        keywords = {k: v for k, v in call.keywords.items() if k != "learning_rate"}
        lasting = CallArgs(call.node, call.args[1:], keywords) if name.startswith("keras.optimizers.") else call
        return Value("keras", name=name, born=machine.born(), node=call.node, varies=lasting.varying_inside,
                     items=dict(call.keywords))  # fmt: skip
    return UNKNOWN.varying_in(call.varies)


def layer_output(on: Value, call: CallArgs) -> Value:
    """The result of calling a layer or model of Keras."""
    symbolic = any(one.name == "symbolic" for a in call.args for one in a.nested_values(2))
    first = call.every[0].shape if call.every else None
    return Value("tensor", varies=call.varying_inside | on.varies, dtype="float32",
    name="symbolic" if symbolic else "",
                 node=on.node, shape=shape_rules.layer_output_shape(on.name, first))  # fmt: skip


def library_method(machine: RunContext, on: Value, name: str, call: CallArgs) -> Value:
    """The result of a method that the script does not define."""
    varies = on.varies | call.varies
    if on.kind == "library" and on.name == "numpy.random.Generator":
        return data_calls.numpy_draw(machine, name, call)
    if on.kind == "dataset":
        return user_callbacks.dataset_operation(machine, on, name, call)
    if on.kind in ("tensor", "variable"):
        return _tensor_method(on, name, call)
    if on.kind == "array":
        own = data_calls.table_method(on, name, call) if data_calls.is_pandas(on) else None
        return own if own is not None else _array_method(machine, on, name, call)
    if on.kind == "dict":
        return python_builtins.mapping_method_value(
            on, name, call, perhaps=bool(machine.conditions), ahead=bool(machine.silent)
        )
    if on.kind == "text":
        return python_builtins.text_method_value(on, name, call)
    if on.kind == "list" and name in ADDING_METHODS and call.args:
        if name == "append" and None not in on.items and on.data != "open" and on.born == machine.depth():
            on.items[len(on.items)] = call.args[-1]
            return UNKNOWN
        items, on.shape = on.items.get(None), None
        on.items[None] = call.args[-1] if items is None else join_values([items, call.args[-1]])
        on.data = machine.turns_since(on.born) if name == "append" and on.data != "open" else on.data
        return UNKNOWN
    if on.kind == "list" and name in REMOVING_METHODS:
        taken = join_values(on.items.values()) if on.items else UNKNOWN
        operators.forget_positions(on)
        return taken.with_fields(known=NOT_KNOWN)
    if on.kind in ("keras", "object"):
        return user_callbacks.model_method_value(machine, on, name, call)
    return UNKNOWN.varying_in(varies)


def _tensor_method(on: Value, name: str, call: CallArgs) -> Value:
    varies = on.varies | call.varies
    if name == "to_tensor" and "shape" not in call.keywords:  # a ragged tensor, padded to its longest row
        return on.with_fields(ragged=on.ragged | {EACH_ITEM})
    if name in READBACK_METHODS:
        return Value("array", varies=varies, ragged=on.ragged, dtype=on.dtype, shape=on.shape)
    if name == "set_shape" and on.kind == "tensor":
        on.shape = shape_argument(call.get("shape", 0))
    return Value("tensor", varies=varies, dtype=on.dtype) if not name.startswith("assign") else UNKNOWN


def _array_method(machine: RunContext, on: Value, name: str, call: CallArgs) -> Value:
    varies = on.varies | call.varies
    # Integer data are classes, rows or lengths.
    real = "float" if on.dtype.startswith("float") else "int" if on.name == data_calls.MANY_VALUES else "few"
    if name == "astype":
        return on.with_fields(dtype=dtype_name(call.get("dtype", 0)), varies=varies, born=machine.born())
    if name == "tolist":
        return _nested_lists(on.shape or (None,), number_value(real, varies), machine.born()).varying_in(varies)
    if name == "item":
        return number_value(real, varies)
    if name == "tobytes":
        return python_builtins.array_bytes(on)
    dtype = floating_dtype(on.dtype) if name in ("mean", "std", "var") else on.dtype
    return on.with_fields(varies=varies, node=None, dtype="int64" if name in INTEGER_FUNCTIONS else dtype,
                    shape=shape_rules.method_shape(on.shape, name, call))  # fmt: skip


def _nested_lists(shape: tuple[int | None, ...], one: Value, born: tuple[int, ...]) -> Value:
    """Nested lists, with numbers at the deepest level."""
    inside = _nested_lists(shape[1:], one, born) if len(shape) > 1 else one
    return Value("list", items={None: inside}, shape=shape, born=born, varies=one.varies)
