"""How the elements of a data set become records: its form, and the bytes of each record.

A record of a TFRecord file is a ``tf.train.Example`` with one bytes feature for each tensor of an element. Tensors of
known shape are stored as their bytes, scalar strings as they are, all others as ``tf.io.serialize_tensor`` gives them.

A record of an ArrayRecord file is read without TensorFlow: first the fields of a NumPy type, with the length in place
of a scalar string, then the strings. It holds one element, so that elements can be read in any order, or one batch of
the script, and no tensors of unknown shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf

from slowtrain.errors import InputError
from slowtrain.model.packing import ARRAY_RECORD, TFRECORD, ElementForm, PackedPart
from slowtrain.script.fixes.input import grain_reading, packed_reading

Row = tuple[tuple[Any, ...], int]  # the values of a record, and the number of its elements
RAW_DTYPES = frozenset(
    "bool uint8 int8 uint16 int16 int32 int64 float16 float32 float64 complex64 complex128".split()
)  # that tf.io.decode_raw returns


def describe_elements(spec: Any, file_format: str = TFRECORD, block: int = 0) -> ElementForm:
    """The form for a data set's ``element_spec``. Raises ``InputError`` for what a record cannot hold.

    ``block``: elements in a record of an ArrayRecord file; one if it is 0.
    """
    parts: list[PackedPart] = []
    structure = _structure(spec, "", parts)
    if not parts:
        raise InputError("the elements of the data set hold no tensor; there is nothing to pack")
    if file_format == ARRAY_RECORD:
        unread = [part for part in parts if part.storage == "tensor" or (block > 1 and part.storage == "string")]
        if unread:
            what = f"{unread[0].key} ({unread[0].dtype} {unread[0].shape or 'of any rank'})"
            raise InputError(
                f"ArrayRecord files hold numbers of known shape and scalar strings, not {what}; use TFRecord"
            )
        return ElementForm(tuple(parts), structure, block or 1, file_format)
    return ElementForm(tuple(parts), structure, _block_of(parts))


def _block_of(parts: Sequence[PackedPart]) -> int:
    is_fixed = all(one.storage == "raw" for one in parts)
    return packed_reading.elements_together(sum(_part_bytes(one) or 0 for one in parts)) if is_fixed else 1


def holds_elements(form: ElementForm, spec: Any) -> bool:
    """Whether records of this form hold the elements of a data set with this ``element_spec``."""
    own = describe_elements(spec, form.file_format, form.block)
    return (
        own.structure == form.structure
        and len(own.parts) == len(form.parts)
        and all(map(_holds, form.parts, own.parts))
    )


def _holds(part: PackedPart, own: PackedPart) -> bool:
    """Whether a part is as the spec says, or has the shape that all elements of a sample had."""
    if part == own:
        return True
    is_known = own.storage == "tensor" and part.storage == "raw" and (part.key, part.dtype) == (own.key, own.dtype)
    return is_known and tf.TensorShape(own.shape).is_compatible_with(part.shape)


def with_known_shapes(form: ElementForm, rows: list[Row]) -> tuple[ElementForm, list[Row]]:
    """The form with the shapes that all sampled elements have, for tensors whose shape the data set does not know.

    Also the sampled records in that form.
    """
    columns = [[values[n] for values, _ in rows] for n in range(len(form.parts))]
    parts = tuple(map(_with_known_shape, form.parts, columns))
    if parts == form.parts:
        return form, rows
    known = ElementForm(parts, form.structure, _block_of(parts), form.file_format)
    columns = [
        column if old == new else [tf.io.parse_tensor(one, new.dtype).numpy() for one in column]
        for column, old, new in zip(columns, form.parts, parts, strict=True)
    ]
    blocks = [[column[at : at + known.block] for column in columns] for at in range(0, len(rows), known.block)]
    return known, [
        (tuple(map(np.stack, block)) if known.block > 1 else tuple(one[0] for one in block), len(block[0]))
        for block in blocks
    ]


def _with_known_shape(part: PackedPart, values: Sequence[Any]) -> PackedPart:
    if part.storage != "tensor" or part.shape is None or part.dtype not in RAW_DTYPES:
        return part
    shapes = {tuple(tf.io.parse_tensor(one, part.dtype).shape) for one in values}
    shape = shapes.pop()
    return part if shapes or 0 in shape else PackedPart(part.key, part.dtype, shape, "raw")


def _structure(spec: Any, name: str, parts: list[PackedPart]) -> str:
    """Python code for the nested structure, in the order of ``tf.nest.flatten``; adds the tensors to ``parts``."""
    if type(spec) is tuple:
        inner = [_structure(one, _joined(name, str(n)), parts) for n, one in enumerate(spec)]
        return f"({', '.join(inner)},)" if len(inner) == 1 else f"({', '.join(inner)})"
    if type(spec) is dict:
        if not all(isinstance(key, str) for key in spec):
            raise InputError("the elements are dictionaries whose keys are no strings; give them names to pack them")
        # tf.nest.flatten sorts the keys
        found = {key: _structure(spec[key], _joined(name, key), parts) for key in sorted(spec)}
        return "{{" + ", ".join(f"{_escaped(key)}: {found[key]}" for key in spec) + "}}"
    if not isinstance(spec, tf.TensorSpec):
        raise InputError(f"{_refusal(spec)}{f' (in {name})' if name else ''}")
    parts.append(_described_part(spec, name or "0"))
    return f"{{{len(parts) - 1}}}"


def _joined(name: str, inner: str) -> str:
    return f"{name}/{inner}" if name else inner


def _escaped(key: str) -> str:
    return repr(key).replace("{", "{{").replace("}", "}}")


def _refusal(spec: Any) -> str:
    if isinstance(spec, tf.RaggedTensorSpec):
        return (
            "the data set yields ragged tensors, which records do not hold; call to_tensor() or pack in front of them"
        )
    if isinstance(spec, tf.SparseTensorSpec):
        return "the data set yields sparse tensors, which records do not hold; pack in front of them"
    return f"the data set yields objects ({type(spec).__name__}), which records do not hold; yield tensors to pack it"


def _described_part(spec: Any, name: str) -> PackedPart:
    dtype, shape = spec.dtype.name, None if spec.shape.rank is None else tuple(spec.shape.as_list())
    if dtype in ("variant", "resource"):
        raise InputError("the data set yields objects such as other data sets, which records do not hold; flatten it")
    if dtype == "string" and shape == ():
        return PackedPart(name, dtype, shape, "string")
    is_raw = dtype in RAW_DTYPES and shape is not None and None not in shape and 0 not in shape
    return PackedPart(name, dtype, shape, "raw" if is_raw else "tensor")


def _part_bytes(part: PackedPart) -> int | None:
    if part.storage != "raw" or part.shape is None:
        return None
    return prod(n for n in part.shape if n is not None) * int(tf.as_dtype(part.dtype).size)


def element_rows(dataset: Any, form: ElementForm, start: int = 0) -> Iterator[Row]:
    """The values of each record, from element ``start`` on, with the number of elements in it.

    A value is an array, of a whole block if ``form`` has blocks, or bytes.
    """

    def stored_parts(*element: Any) -> tuple[Any, ...]:
        flat = tf.nest.flatten(element[0] if len(element) == 1 else element)
        pairs = zip(flat, form.parts, strict=True)
        return tuple(
            tf.io.serialize_tensor(one) if part.storage == "tensor" else tf.ensure_shape(one, part.shape)
            for one, part in pairs
        )

    rows = (dataset.skip(start) if start else dataset).map(stored_parts, num_parallel_calls=tf.data.AUTOTUNE)
    if form.block > 1:
        rows = rows.batch(form.block, num_parallel_calls=tf.data.AUTOTUNE)
    for values in rows.as_numpy_iterator():
        yield values, len(values[0]) if form.block > 1 else 1


def encode_record(form: ElementForm, values: Sequence[Any]) -> bytes:
    """The record for the values of one element or block. Equal values give equal bytes."""
    if form.file_format == ARRAY_RECORD:
        return _array_record(form, values)
    feature = {
        part.key: tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[value.tobytes() if part.storage == "raw" else value])
        )
        for part, value in zip(form.parts, values, strict=True)
    }
    encoded: bytes = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)
    return encoded


def _array_record(form: ElementForm, values: Sequence[Any]) -> bytes:
    fields = np.zeros(len(values[0]) if form.block > 1 else 1, grain_reading.fields_type(form))
    strings = []
    for part, value in zip(form.parts, values, strict=True):
        is_string = part.storage == "string"
        fields[part.key] = len(value) if is_string else value
        strings += [value] if is_string else []
    return b"".join([fields.tobytes(), *strings])
