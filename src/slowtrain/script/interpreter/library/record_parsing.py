"""Records and files that TensorFlow parses: tensors of the requested dtypes and shapes."""

from __future__ import annotations

from slowtrain.script.interpreter.domain.abstract_values import (
    CallArgs,
    Value,
    dtype_name,
    sequence_value,
    shape_argument,
)

RECORD_PARSERS = frozenset({"parse_single_example", "parse_example"})
FEATURE_CLASSES = frozenset({"FixedLenFeature", "FixedLenSequenceFeature"})


def record_result(last: str, given: CallArgs) -> Value | None:
    """The result of the parser of this name; None for other functions."""
    if last in FEATURE_CLASSES:
        asked = given.get("shape", 0)
        shape = shape_argument(asked) if asked.items or isinstance(asked.known, int) else ()
        whole = (None, *shape) if last != "FixedLenFeature" and shape is not None else shape
        return Value("tensor", dtype=dtype_name(given.get("dtype", 1)), shape=whole)
    if last in RECORD_PARSERS:
        features = given.get("features", 1)
        if features.kind != "dict" or not features.items or None in features.items:
            return None
        several = last == "parse_example"
        return Value("dict", items={k: _feature_tensor(v, several=several) for k, v in features.items.items()})
    if last == "decode_wav":
        wide = sequence_value("tuple", [given.get("desired_samples", 2), given.get("desired_channels", 1)])
        return sequence_value(
            "tuple", [Value("tensor", dtype="float32", shape=shape_argument(wide)), Value("tensor", shape=())]
        )
    return None


def _feature_tensor(feature: Value, *, several: bool) -> Value:
    """The tensor of a feature in one record, or in a batch of records."""
    if feature.kind != "tensor" or feature.shape is None:
        return Value("tensor", dtype=feature.dtype if feature.kind == "tensor" else "")
    return Value("tensor", dtype=feature.dtype, shape=(None, *feature.shape) if several else feature.shape)
