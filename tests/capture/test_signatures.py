"""The size of a batch, as read on the hot path."""

from __future__ import annotations

import numpy as np
import pytest

from slowtrain.capture.signatures import batch_size


def test_first_dimension_of_the_first_array() -> None:
    array = np.zeros((5, 2))
    assert batch_size((3, "text", array)) == 5
    assert batch_size(([array], 1)) == 5
    assert batch_size(({"x": array},)) == 5
    assert batch_size((np.zeros(()), array)) == 0
    assert batch_size(((), {}, 3)) == 0


@pytest.mark.tensorflow
def test_a_tensor_is_not_made_to_build_its_shape() -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed here")
    batch_size((tf.zeros((2,)),))  # the first of a type is asked what it has
    tensor = tf.identity(tf.zeros((7, 3)))
    assert batch_size((tf.Variable([1.0, 2.0]), tensor)) == 7
    assert tensor._tensor_shape is None  # it costs several times all else that a wrapped call does
    assert len(tensor.shape) == 2
    assert tensor._tensor_shape is not None
