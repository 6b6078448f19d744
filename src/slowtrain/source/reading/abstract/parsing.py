"""Records and files that TensorFlow parses: tensors of the requested dtypes and shapes."""

from __future__ import annotations

from slowtrain.source.reading.abstract.values import Given, Value, dtype, sequence, sizes

RECORDS = frozenset({"parse_single_example", "parse_example"})
FEATURES = frozenset({"FixedLenFeature", "FixedLenSequenceFeature"})


def read(last: str, given: Given) -> Value | None:
    """The result of the parser of this name; None for other functions."""
    if last in FEATURES:
        asked = given.get("shape", 0)
        shape = sizes(asked) if asked.items or isinstance(asked.known, int) else ()
        whole = (None, *shape) if last != "FixedLenFeature" and shape is not None else shape
        return Value("tensor", dtype=dtype(given.get("dtype", 1)), shape=whole)
    if last in RECORDS:
        features = given.get("features", 1)
        if features.kind != "dict" or not features.items or None in features.items:
            return None
        several = last == "parse_example"
        return Value("dict", items={k: _of(v, several=several) for k, v in features.items.items()})
    if last == "decode_wav":
        wide = sequence("tuple", [given.get("desired_samples", 2), given.get("desired_channels", 1)])
        return sequence("tuple", [Value("tensor", dtype="float32", shape=sizes(wide)), Value("tensor", shape=())])
    return None


def _of(feature: Value, *, several: bool) -> Value:
    """The tensor of a feature in one record, or in a batch of records."""
    if feature.kind != "tensor" or feature.shape is None:
        return Value("tensor", dtype=feature.dtype if feature.kind == "tensor" else "")
    return Value("tensor", dtype=feature.dtype, shape=(None, *feature.shape) if several else feature.shape)
