"""The arrays of Keras's own data sets."""

from __future__ import annotations

from slowtrain.script.interpreter.domain.abstract_values import CallArgs, Value, number_value, sequence_value

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


def loaded_arrays(name: str, given: CallArgs) -> Value:
    """What ``load_data`` gives: ``(x, y)`` for training and for test."""
    known = DATASET_ROWS.get(name, (None, None)) if "test_split" not in given.keywords else (None, None)
    return sequence_value("tuple", [sequence_value("tuple", _samples(name, rows)) for rows in known])


def _samples(name: str, rows: int | None) -> list[Value]:
    labels = Value("array", shape=(rows, *LABEL_SHAPES.get(name, ())))
    sample = SAMPLE_SHAPES.get(name)
    if sample is None:  # texts of different lengths, as lists of word numbers
        words = Value("list", items={None: number_value("int")})
        return [Value("list", items={None: words}, shape=(rows,) if rows is not None else None), labels]
    dtype = "uint8" if len(sample) > 1 else ""
    return [Value("array", shape=(rows, *sample), dtype=dtype), labels]
