"""Packs or samples the batches that a ``PyDataset`` of a script makes: see :mod:`script_dataset`.

``slowtrain pack`` puts ``take_batches(…)`` around the data that the script gives to ``fit``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from slowtrain.capture.packing import script_dataset
from slowtrain.errors import InputError


def take_batches(data: Any) -> Any:
    """Samples or packs the rows of all batches, one record for each batch; called by the edited script."""
    try:
        rows, size = rows_of_batches(data)
    except InputError as error:
        script_dataset.end_with_error(error)
    else:
        script_dataset.take_results(rows, size)
    return data


def rows_of_batches(data: Any) -> tuple[Any, int]:
    """A ``tf.data`` data set of the rows of all batches, and the number of rows in a batch.

    Raises ``InputError`` for data whose batches are not the same in every epoch, or are no arrays.
    """
    import keras

    base = getattr(keras.utils, "PyDataset", None)
    if base is None:
        raise InputError(f"batches are packed with Keras 3, and this is Keras {keras.__version__}")
    if not isinstance(data, base):
        raise InputError(f"fit gets {type(data).__name__} here, and no PyDataset; only the batches of that are packed")
    for name in ("on_epoch_begin", "on_epoch_end"):
        if getattr(type(data), name, None) is not getattr(base, name, None):
            raise InputError(f"{type(data).__name__}.{name} may change the batches, so packing would change training")
    try:
        count = data.num_batches
    except NotImplementedError:
        count = None
    if not count:
        raise InputError(f"{type(data).__name__} has no length, so it cannot be packed")
    if np.shape(tf.nest.flatten(data[0])[0])[:1] == (1,):
        raise InputError(f"the batches of {type(data).__name__} have one row each; only larger ones are packed")
    first, last = _row_count(data[0], 0), _row_count(data[count - 1], count - 1)
    signature = tf.nest.map_structure(_row_spec, data[0])

    def batches() -> Iterator[Any]:
        for number in range(count):
            batch = data[number]
            rows = _row_count(batch, number)
            if rows != (first if number < count - 1 else last):
                raise InputError(
                    f"batch {number:,} has {rows} rows and others {first}, so the batches cannot be packed"
                )
            yield batch

    rows = tf.data.Dataset.from_generator(batches, output_signature=signature).unbatch()
    return rows.apply(tf.data.experimental.assert_cardinality(first * (count - 1) + last)), first


def _row_spec(array: Any) -> Any:
    array = np.asarray(array)
    return tf.TensorSpec([None, *array.shape[1:]], array.dtype)


def _row_count(batch: Any, number: int) -> int:
    """The length of all arrays of a batch. Raises ``InputError`` if they have none or different ones."""
    shapes = [np.shape(one) for one in tf.nest.flatten(batch)]
    lengths = {shape[0] if shape else 0 for shape in shapes}
    if len(lengths) != 1 or 0 in lengths:
        raise InputError(f"batch {number:,} holds {shapes}, and no arrays of one length; it cannot be packed")
    return int(lengths.pop())
