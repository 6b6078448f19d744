"""The size of a batch, as read on the hot path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slowtrain.capture.inspection.call_signatures import MAX_NESTING, SAMPLED_ELEMENTS, batch_size, host_bytes


def test_first_dimension_of_the_first_array() -> None:
    array = np.zeros((5, 2))
    assert batch_size((3, "text", array)) == 5
    assert batch_size(([array], 1)) == 5
    assert batch_size(({"x": array},)) == 5
    assert batch_size((np.zeros(()), array)) == 0
    assert batch_size(((), {}, 3)) == 0


@pytest.mark.tensorflow
def test_a_tensor_is_not_made_to_build_its_shape() -> None:
    import tensorflow as tf

    batch_size((tf.zeros((2,)),))  # the first of a type is asked what it has
    tensor = tf.identity(tf.zeros((7, 3)))
    assert batch_size((tf.Variable([1.0, 2.0]), tensor)) == 7
    assert tensor._tensor_shape is None  # it costs several times all else that a wrapped call does
    assert len(tensor.shape) == 2
    assert tensor._tensor_shape is not None


def test_bytes_of_arrays_and_of_numbers_in_lists() -> None:
    array = np.zeros((5, 2), np.float32)
    assert host_bytes((array, 3, "text", None, [])) == 40
    assert host_bytes(([array] * 9,)) == 360
    assert host_bytes(([1, 2.0, 3],)) == 24
    assert host_bytes(([[(0, 0, 1)] * 20] * 64,)) == 64 * 20 * 3 * 8


def test_of_nested_lists_few_elements_are_looked_at() -> None:
    """Each conversion asks: going through a replay buffer of boards took longer than converting it."""
    seen = 0

    class Counted(list[object]):
        def __getitem__(self, at: Any) -> Any:
            nonlocal seen
            found = super().__getitem__(at)
            seen += len(found) if isinstance(at, slice) else 1
            return found

    board = Counted([Counted([Counted([0, 1, 0])] * 20)] * 20)
    assert host_bytes((Counted([board] * 64),)) == 64 * 20 * 20 * 3 * 8
    assert seen <= SAMPLED_ELEMENTS * MAX_NESTING

    endless: list[object] = []
    endless.append(endless)
    assert host_bytes((endless,)) == 0
