"""Functions that draw, load or parse data: random numbers, Keras's data sets, pandas tables, records of TensorFlow."""

from __future__ import annotations

from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import (
    NO_LOOPS,
    NOT_KNOWN,
    UNKNOWN,
    CallArgs,
    Value,
    dtype_name,
    number_value,
    sequence_value,
    shape_argument,
)
from slowtrain.script.interpreter.domain.run_context import RunContext

INTEGER_DRAWS = frozenset("integers randint random_integers permutation choice poisson binomial geometric".split())
PYTHON_INTEGER_DRAWS = frozenset({"randint", "randrange", "getrandbits"})
SCALAR_DRAWS = frozenset(
    "random uniform normal standard_normal gamma beta exponential lognormal".split()
)  # Python floats
NUMPY_ONLY_DRAWS = frozenset(
    {"integers", "standard_normal", "permutation", "permuted", "lognormal", "standard_gamma"}
)  # NumPy only
MANY_VALUES = "many"  # the ``name`` of an integer array with many distinct values
# Position of the shape argument.
SIZE_POSITIONS = {
    **dict.fromkeys(("random", "random_sample", "standard_normal", "permutation"), 0),
    **dict.fromkeys(("choice", "exponential", "geometric", "poisson", "standard_gamma", "weibull"), 1),
    **dict.fromkeys(("integers", "randint", "normal", "uniform", "gamma", "beta", "binomial", "lognormal"), 2),
}


def numpy_draw(machine: RunContext, last: str, call: CallArgs) -> Value:
    """The result of a NumPy draw, with new content at each call."""
    if last in ("shuffle", "seed"):
        return UNKNOWN
    loops = frozenset(machine.depth())
    first = call.args[0] if call.args else UNKNOWN
    if last in ("permutation", "permuted") and first.kind == "array":
        return first.varying_in(loops)
    if last == "choice" and first.kind == "array" and len(call.args) == 1 and "size" not in call.keywords:
        return operators.item_value(first, NOT_KNOWN).with_fields(ragged=NO_LOOPS).varying_in(loops)
    place = 1 if last == "choice" else SIZE_POSITIONS.get(last)
    if last in SCALAR_DRAWS and "size" not in call.keywords and place is not None and len(call.args) <= place:
        return number_value("float", loops)
    size = call.get("size", place)
    ragged = call.varies if last in ("rand", "randn") else size.varies_inside(2)
    named = dtype_name(call.get("dtype")) or ("int64" if last in INTEGER_DRAWS else "float64")
    named = first.dtype if last == "choice" and first.kind == "array" else named
    return Value("array", varies=loops, ragged=ragged, dtype=named, shape=shape_rules.drawn_shape(last, size, call),
                 name=MANY_VALUES if _draws_many_values(last, call) else "", born=machine.born())  # fmt: skip


def python_draw(machine: RunContext, name: str, call: CallArgs) -> Value:
    """The result of a function of Python's ``random``, or of a generator object."""
    last, loops = name.rpartition(".")[2], call.varies | frozenset(machine.depth())
    if last in ("Random", "SystemRandom"):
        return Value("library", name="random", born=machine.born())
    if last in ("choices", "sample"):
        return _random_list(call, loops)
    if last == "choice":
        return operators.item_value(call.get("seq", 0), NOT_KNOWN).with_fields(known=NOT_KNOWN).varying_in(loops)
    if last in ("shuffle", "seed", "setstate"):
        return UNKNOWN
    return number_value("few" if last in PYTHON_INTEGER_DRAWS else "float", loops)


def _draws_many_values(last: str, call: CallArgs) -> bool:
    """Whether integers are drawn from more than a few values."""
    bounds = [one.known for one in call.args[: 1 if last == "permutation" else 2]]
    whole = [n for n in bounds if isinstance(n, int)]
    return (
        last in ("integers", "randint", "permutation")
        and len(whole) == len(bounds) > 0
        and max(whole) > operators.MAX_FEW_NUMBERS
    )


def _random_list(call: CallArgs, loops: frozenset[int]) -> Value:
    """The result of ``random.choices("ACGT", k=600)``."""
    several, count = call.get("population", 0), call.get("k", 2 if len(call.args) > 2 else 1).known
    one = number_value("few", loops) if several.kind == "range" else Value(varies=loops)
    wide = (count,) if isinstance(count, int) else None
    return Value("list", items={None: one}, shape=wide, varies=loops)


TABLE, COLUMN = "table", "column"
# Methods that keep the rows, and a table's columns.
SAME_ROWS_METHODS = frozenset(
    "fillna sort_values sort_index reset_index copy ffill bfill interpolate clip round rank cumsum shift".split()
)
FEWER_ROWS_METHODS = frozenset("dropna drop_duplicates query sample".split())
UNKNOWN_RESULT_METHODS = frozenset("apply map groupby merge join assign drop pop rolling iterrows itertuples".split())


def is_pandas(on: Value) -> bool:
    return on.kind == "array" and on.name in (TABLE, COLUMN)


def pandas_call(machine: RunContext, name: str, call: CallArgs) -> Value:
    """The result of a function or class of pandas."""
    last = name.rpartition(".")[2]
    if last.startswith("read_") or last in ("concat", "merge", "get_dummies"):
        return _table_value((None, None), machine.born())
    data = call.get("data", 0)
    if last == "DataFrame":
        columns = [one for key, one in data.items.items() if key is not None] if data.kind == "dict" else []
        whole = shape_rules.shape_of(data) if data.kind in ("array", "list") else None
        rows = next((n for one in columns if (n := operators.known_length(one)) is not None), None)
        shape = (rows, len(columns)) if columns else whole if whole and len(whole) == 2 else (None, None)
        return _table_value(shape, machine.born())
    if last == "Series":
        return Value("array", dtype=data.dtype, shape=(operators.known_length(data),), name=COLUMN, born=machine.born())
    return UNKNOWN.varying_in(call.varies)


def _table_value(shape: tuple[int | None, ...], born: tuple[int, ...]) -> Value:
    return Value("array", name=TABLE, shape=shape, born=born)


def table_attribute(on: Value, name: str) -> Value | None:
    """``df.iloc``, ``df.values``, ``df.index``; None for attributes that arrays have as well."""
    if name in ("iloc", "loc"):
        return on
    if name == "values":
        return on.with_fields(name="")
    if name == "index":
        return Value("array", shape=_row_shape(on), name=COLUMN, varies=on.varies)
    return None


def table_subscript(on: Value, key: Value) -> Value | None:
    """``df["price"]``, ``df[["price", "stock"]]``; None if an array gives the same."""
    if on.name == TABLE and key.kind == "text":
        return Value("array", shape=_row_shape(on), name=COLUMN, varies=on.varies)
    if on.name == TABLE and key.kind == "list":
        return on.with_fields(shape=(*_row_shape(on), operators.known_length(key)), dtype="")
    if key.kind == "array":  # rows selected by a condition
        return on.with_fields(shape=(None, *(on.shape or (None,))[1:]))
    return on.with_fields(shape=None) if key.kind == "unknown" else None


def table_method(on: Value, name: str, call: CallArgs) -> Value | None:
    """The result of a method that arrays do not have, or have with another meaning; None for others."""
    if name in ("to_numpy", "astype"):
        named = dtype_name(call.get("dtype", 0))
        return on.with_fields(name="" if name == "to_numpy" else on.name, dtype=named or on.dtype).varying_in(
            call.varies
        )
    if name in SAME_ROWS_METHODS:
        return on.varying_in(call.varies)
    if name in ("head", "tail"):
        count = call.get("n", 0).known
        return on.with_fields(shape=(count if isinstance(count, int) else None, *(on.shape or (None,))[1:]))
    if name in FEWER_ROWS_METHODS:
        return on.with_fields(shape=(None, *(on.shape or (None,))[1:])).varying_in(call.varies)
    return UNKNOWN.varying_in(on.varies | call.varies) if name in UNKNOWN_RESULT_METHODS else None


def _row_shape(on: Value) -> tuple[int | None, ...]:
    return (on.shape or (None,))[:1]


RECORD_PARSERS = frozenset({"parse_single_example", "parse_example"})
FEATURE_CLASSES = frozenset({"FixedLenFeature", "FixedLenSequenceFeature"})


def record_result(last: str, call: CallArgs) -> Value | None:
    """The result of the parser of this name; None for other functions."""
    if last in FEATURE_CLASSES:
        asked = call.get("shape", 0)
        shape = shape_argument(asked) if asked.items or isinstance(asked.known, int) else ()
        whole = (None, *shape) if last != "FixedLenFeature" and shape is not None else shape
        return Value("tensor", dtype=dtype_name(call.get("dtype", 1)), shape=whole)
    if last in RECORD_PARSERS:
        features = call.get("features", 1)
        if features.kind != "dict" or not features.items or None in features.items:
            return None
        several = last == "parse_example"
        return Value("dict", items={k: _feature_tensor(v, several=several) for k, v in features.items.items()})
    if last == "decode_wav":
        wide = sequence_value("tuple", [call.get("desired_samples", 2), call.get("desired_channels", 1)])
        return sequence_value(
            "tuple", [Value("tensor", dtype="float32", shape=shape_argument(wide)), Value("tensor", shape=())]
        )
    return None


def _feature_tensor(feature: Value, *, several: bool) -> Value:
    """The tensor of a feature in one record, or in a batch of records."""
    if feature.kind != "tensor" or feature.shape is None:
        return Value("tensor", dtype=feature.dtype if feature.kind == "tensor" else "")
    return Value("tensor", dtype=feature.dtype, shape=(None, *feature.shape) if several else feature.shape)


# Training and test samples.
DATASET_ROWS = {
    "mnist": (60_000, 10_000), "fashion_mnist": (60_000, 10_000), "cifar10": (50_000, 10_000),
    "cifar100": (50_000, 10_000), "imdb": (25_000, 25_000), "reuters": (8_982, 2_246), "boston_housing": (404, 102),
    "california_housing": (16_512, 4_128),
}  # fmt: skip
# The shape of one sample, of data sets whose samples have equal shapes.
SAMPLE_SHAPES = {
    "mnist": (28, 28), "fashion_mnist": (28, 28), "cifar10": (32, 32, 3), "cifar100": (32, 32, 3),
    "boston_housing": (13,), "california_housing": (8,),
}  # fmt: skip
LABEL_SHAPES = {"cifar10": (1,), "cifar100": (1,)}  # the shape of one label, if it is no number


def loaded_arrays(name: str, call: CallArgs) -> Value:
    """The result of ``load_data``: ``(x, y)`` for training and for test."""
    known = DATASET_ROWS.get(name, (None, None)) if "test_split" not in call.keywords else (None, None)
    return sequence_value("tuple", [sequence_value("tuple", _samples(name, rows)) for rows in known])


def _samples(name: str, rows: int | None) -> list[Value]:
    labels = Value("array", shape=(rows, *LABEL_SHAPES.get(name, ())))
    sample = SAMPLE_SHAPES.get(name)
    if sample is None:  # texts of different lengths, as lists of word numbers
        words = Value("list", items={None: number_value("int")})
        return [Value("list", items={None: words}, shape=(rows,) if rows is not None else None), labels]
    dtype = "uint8" if len(sample) > 1 else ""
    return [Value("array", shape=(rows, *sample), dtype=dtype), labels]
