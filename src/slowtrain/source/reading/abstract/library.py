"""Functions, methods and attributes of NumPy, TensorFlow and Keras."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from slowtrain.source.reading.abstract import drawing, parsing, python, running, shapes, tables, texts, things
from slowtrain.source.reading.abstract.values import (
    EACH,
    NAMED,
    NOTHING,
    UNKNOWN,
    Given,
    Value,
    constant,
    dtype,
    joined,
    number,
    sequence,
    sizes,
    widest,
)

if TYPE_CHECKING:
    from slowtrain.source.reading.abstract.machine import Machine

BUILTINS = frozenset(
    "abs all any bool bytes callable dict divmod enumerate filter float format frozenset getattr hasattr hash id input "
    "int isinstance iter len list map max min next object open ord pow print range repr reversed round set setattr "
    "sorted str sum super tuple type vars zip property staticmethod classmethod".split()
)
VECTORIZED = "numpy.vectorize.made"  # called per element
SHAPED = frozenset({"zeros", "ones", "empty", "full"})
PARTS = frozenset({"split", "unstack"})  # give a list of tensors
FLOATS = frozenset({"zeros", "ones", "linear_to_mel_weight_matrix"})  # without a dtype argument
WHOLE = drawing.WHOLE | frozenset(
    "randrange argmax argmin argsort argpartition argwhere flatnonzero nonzero digitize bincount arange "
    "searchsorted".split()
)
FORMATS = frozenset({"float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"})
LIKE = {"searchsorted": 1, "digitize": 0, "interp": 0}  # the position of the argument whose size the result has
SCALARS = frozenset("floor ceil sqrt exp log log10 sin cos tanh clip mean abs where sum power".split())
ADDING = frozenset({"append", "extend", "insert", "appendleft", "add"})
CHECKPOINTS = ("tensorflow.train.Checkpoint", "tensorflow.train.CheckpointManager")
TAKING = frozenset({"pop", "popleft", "remove", "clear", "sort", "reverse"})
READING = frozenset({"numpy", "item", "tolist"})


def attribute(on: Value, name: str) -> Value:
    """An attribute that no code of the script set."""
    if tables.of_pandas(on) and (found := tables.attribute(on, name)) is not None:
        return found
    if on.kind in ("tensor", "variable", "array"):
        if name == "shape" and on.shape is not None and not on.ragged:
            return sequence("tuple", [number("int") if n is None else constant(n) for n in on.shape])
        if name == "shape":
            return Value("tuple", items={None: number("int", on.ragged)}, varies=on.ragged)
        if name in ("size", "ndim") and on.shape is not None and not on.ragged and None not in on.shape:
            return constant(prod(n for n in on.shape if n is not None) if name == "size" else len(on.shape))
        if name in ("size", "ndim", "nbytes"):
            return number("int", on.ragged)
        if name == "dtype":
            return Value("text", on.dtype or NOTHING)
        if name == "T":
            return on.with_(shape=on.shape[::-1] if on.shape else on.shape)
    if on.kind in ("none", "unknown"):
        if name == "shape":  # batches may be of equal size
            return Value("tuple", items={None: number("int", on.ragged)}, of=on)
        return UNKNOWN.moving(on.varies)
    return Value("method", name=name, data=on, born=on.born)


def tensor_of(given: Value) -> Value:
    """An argument of a tf.function as its body sees it."""
    if given.kind in ("array", "tensor"):
        return given.with_(kind="tensor")
    if given.kind in ("list", "tuple", "dict"):
        return given.with_(items={k: tensor_of(v) for k, v in given.items.items()})
    return given


def tensors(given: Value) -> Value:
    """The result of a tf.function: new tensors at each call."""
    if given.kind in ("number", "unknown", "array", "variable", "tensor"):
        return given.with_(kind="tensor", known=NOTHING, name="result")
    if given.kind in ("list", "tuple", "dict"):
        return given.with_(items={k: tensors(v) for k, v in given.items.items()})
    return given


def call(machine: Machine, name: str, given: Given) -> Value:
    """The result of a function or class of a library."""
    found = python.call(machine, name, given)
    if found is not None:
        return found
    if name.startswith("numpy."):
        return shapes.known(_numpy(machine, name, given), name, given)
    if name.startswith("tensorflow.data."):
        return running.dataset(machine, name, given)
    if name == "tensorflow.function":
        return _graph_of(machine, given)
    if name in ("tensorflow.py_function", "tensorflow.numpy_function"):
        return running.python_function(machine, given)
    if name.startswith("tensorflow."):
        return shapes.known(_tensorflow(machine, name, given), name, given)
    if name.startswith("keras."):
        return _keras(machine, name, given)
    if name.startswith("pandas."):
        return tables.call(machine, name, given)
    return UNKNOWN.moving(given.varies)


def _graph_of(machine: Machine, given: Given) -> Value:
    """``tf.function(f)``, or ``tf.function(jit_compile=True)``, which is called with the function later."""
    if not given.args:
        return Value("graphing", data=dict(given.keywords))
    made = given.args[0]
    bound = made.kind == "method" and made.of is not None  # self.update = tf.function(self._update)
    graph = Value("graph", node=given.node, name=made.name, of=made.of if bound else made, born=machine.born(),
                  data=dict(given.keywords))  # fmt: skip
    return Value("method", name=made.name, of=graph, data=made.data, born=machine.born()) if bound else graph


def _numpy(machine: Machine, name: str, given: Given) -> Value:
    last = name.rpartition(".")[2]
    if name == "numpy.vectorize" and given.args and "signature" not in given.keywords:
        return Value("library", name=VECTORIZED, of=given.args[0], node=given.node)
    if name == VECTORIZED:
        sides = [one.shape for one in given.every if one.kind == "array" and one.shape is not None]
        wide = things.broadcast(sides) if sides else None
        return Value("array", varies=given.varies, ragged=given.ragged, shape=wide)
    if last in ("default_rng", "RandomState", "Generator"):
        return Value("library", name="numpy.random.Generator", born=machine.born())
    if ".random" in name:
        return drawing.drawn(machine, last, given)
    arrays = [a for a in given.args if a.kind in ("array", "tensor", "variable")]
    if last in SCALARS and given.args and not arrays and all(a.kind == "number" for a in given.args):
        return Value("array", varies=given.varies, dtype="float64")  # a NumPy scalar, which a graph takes as a tensor
    named = dtype(given.get("dtype")) or next((d for a in given.args[1:] if (d := dtype(a)) in FORMATS), "")
    if last in SHAPED or last in ("arange", "linspace", "eye"):
        shape = given.get("shape", 0)
        moving = _sized(shape) if last in SHAPED else given.varies
        usual = "int64" if last == "arange" and not any(a.name == "float" for a in given.args) else "float64"
        wide = sizes(shape) if last in SHAPED else None
        return Value("array", varies=given.varies, ragged=moving | given.ragged, dtype=named or usual, shape=wide,
                     born=machine.born())  # fmt: skip
    if last == "resize":
        return Value("array", varies=given.varies, ragged=_sized(given.get("new_shape", 1)), dtype=widest(*arrays))
    if last in FORMATS or last in NAMED:
        return Value("array", varies=given.varies, ragged=given.ragged, dtype=NAMED.get(last, last))
    inside = [i for a in given.args for i in a.inside(2)]
    kept = named or widest(*arrays)
    if not kept and last in ("array", "asarray", "stack", "concatenate", "vstack", "hstack"):
        held = {i.dtype for i in inside if i.kind in ("array", "tensor")}
        kept = next(iter(held)) if len(held) == 1 else ""
    like = given.args[LIKE[last] : LIKE[last] + 1] if last in LIKE else []
    return Value("array", varies=given.deep, ragged=like[0].ragged if like else given.ragged, born=machine.born(),
                 dtype="int64" if last in WHOLE else kept, shape=like[0].shape if like else None)  # fmt: skip


def _sized(shape: Value) -> frozenset[int]:
    """The loops in whose turns a shape changes. Few distinct shapes do not count: each may have its own graph."""
    return frozenset(v for one in shape.inside(2) if one.name != "few" for v in one.varies)


def _tensorflow(machine: Machine, name: str, given: Given) -> Value:
    last = name.rpartition(".")[2]
    if name in ("tensorflow.Module", "tensorflow.GradientTape", *CHECKPOINTS) or last.endswith(("Strategy", "Writer")):
        return Value("keras", name=name, born=machine.born(), node=given.node)
    first = given.get("initial_value" if last == "Variable" else "value", 0)
    named = dtype(given.get("dtype"))
    number_format = {"float": "float32", "int": "int32"}.get(first.name, "") if first.kind == "number" else ""
    if last == "Variable":
        return Value("variable", dtype=named or first.dtype or number_format, born=machine.born(), node=given.node)
    if last == "TensorSpec":
        return Value("tensor", dtype=named or dtype(given.get("", 1)), shape=sizes(given.get("shape", 0)))
    if last in ("constant", "convert_to_tensor", "cast", "identity", "convert_image_dtype"):
        kept = named or dtype(given.get("", 1)) or first.dtype or number_format
        return Value("tensor", varies=given.deep, ragged=given.ragged, dtype=kept, born=machine.born())
    found = parsing.read(last, given)
    if found is not None:
        return found
    moving = given.deep | (frozenset(machine.depth()) if ".random" in name else frozenset())
    kept = "int32" if last == "range" else named or widest(*given.args)
    if not kept and (".random" in name or last in FLOATS):
        kept = "float32"
    made = Value("tensor", varies=moving, ragged=given.ragged, dtype=kept, born=machine.born())
    return _apart(made) if last in PARTS else made


def _apart(one: Value) -> Value:
    """A Python list of tensors like ``one``."""
    return Value("list", items={None: one}, varies=one.varies, born=one.born)


def _keras(machine: Machine, name: str, given: Given) -> Value:
    last = name.rpartition(".")[2]
    if name.startswith(("keras.ops", "keras.random", "keras.activations")):
        made = Value("tensor", varies=given.deep, ragged=given.ragged, dtype=widest(*given.args))
        return _apart(made) if last in PARTS else shapes.known(made, name, given)
    if last == "Input":
        return Value("tensor", dtype=dtype(given.get("dtype")) or "float32", name="symbolic", shape=shapes.fed(given))
    if last == "pad_sequences":
        ragged = frozenset[int]() if "maxlen" in given.keywords else given.deep
        return Value("array", varies=given.deep, ragged=ragged, dtype="int32")
    if last[:1].isupper() or last in ("clone_model", "load_model"):
        # Another learning rate does not need another optimizer: it can be set.
        apart = {k: v for k, v in given.keywords.items() if k != "learning_rate"}
        lasting = Given(given.node, given.args[1:], apart) if name.startswith("keras.optimizers.") else given
        return Value("keras", name=name, born=machine.born(), node=given.node, varies=lasting.deep,
                     items=dict(given.keywords))  # fmt: skip
    return UNKNOWN.moving(given.varies)


def applied(on: Value, given: Given) -> Value:
    """The result of calling a layer or model of Keras."""
    symbolic = any(one.name == "symbolic" for a in given.args for one in a.inside(2))
    first = given.every[0].shape if given.every else None
    return Value("tensor", varies=given.deep | on.varies, dtype="float32", name="symbolic" if symbolic else "",
                 node=on.node, shape=shapes.batch(on.name, first))  # fmt: skip


def method(machine: Machine, on: Value, name: str, given: Given) -> Value:
    """The result of a method that the script does not define."""
    varies = on.varies | given.varies
    if on.kind == "library" and on.name == "numpy.random.Generator":
        return drawing.drawn(machine, name, given)
    if on.kind == "dataset":
        return running.staged(machine, on, name, given)
    if on.kind in ("tensor", "variable"):
        return _of_tensor(on, name, given)
    if on.kind == "array":
        own = tables.method(on, name, given) if tables.of_pandas(on) else None
        return own if own is not None else _of_array(machine, on, name, given)
    if on.kind == "dict":
        return texts.of_mapping(on, name, given, perhaps=bool(machine.rare), ahead=bool(machine.silent))
    if on.kind == "text":
        return texts.of_text(on, name, given)
    if on.kind == "list" and name in ADDING and given.args:
        if name == "append" and None not in on.items and on.data != "open" and on.born == machine.depth():
            on.items[len(on.items)] = given.args[-1]
            return UNKNOWN
        held = on.items.get(None)
        on.items[None] = given.args[-1] if held is None else joined([held, given.args[-1]])
        on.data = machine.turns_since(on.born) if name == "append" and on.data != "open" else on.data
        return UNKNOWN
    if on.kind == "list" and name in TAKING:
        taken = joined(on.items.values()) if on.items else UNKNOWN
        things.shuffled(on)
        return taken.with_(known=NOTHING)
    if on.kind in ("keras", "object"):
        return running.of_model(machine, on, name, given)
    return UNKNOWN.moving(varies)


def _of_tensor(on: Value, name: str, given: Given) -> Value:
    varies = on.varies | given.varies
    if name == "to_tensor" and "shape" not in given.keywords:  # a ragged tensor, padded to its longest row
        return on.with_(ragged=on.ragged | {EACH})
    if name in READING:
        return Value("array", varies=varies, ragged=on.ragged, dtype=on.dtype, shape=on.shape)
    if name == "set_shape" and on.kind == "tensor":
        on.shape = sizes(given.get("shape", 0))
    return Value("tensor", varies=varies, dtype=on.dtype) if not name.startswith("assign") else UNKNOWN


def _of_array(machine: Machine, on: Value, name: str, given: Given) -> Value:
    varies = on.varies | given.varies
    # Integer data are classes, rows or lengths.
    real = "float" if on.dtype.startswith("float") else "int" if on.name == drawing.MANY else "few"
    if name == "astype":
        return on.with_(dtype=dtype(given.get("dtype", 0)), varies=varies, born=machine.born())
    if name == "tolist":
        return _nested(on.shape or (None,), number(real, varies), machine.born()).moving(varies)
    if name == "item":
        return number(real, varies)
    if name == "tobytes":
        return texts.as_bytes(on)
    return on.with_(varies=varies, node=None, dtype="int64" if name in WHOLE else on.dtype,
                    shape=shapes.of_method(on.shape, name, given))  # fmt: skip


def _nested(shape: tuple[int | None, ...], one: Value, born: tuple[int, ...]) -> Value:
    """Nested lists, with numbers at the deepest level."""
    inside = _nested(shape[1:], one, born) if len(shape) > 1 else one
    return Value("list", items={None: inside}, shape=shape, born=born, varies=one.varies)
