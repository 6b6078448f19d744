"""Digests of a probe's weights after its first steps, for scripts whose steps return no loss.

The weights are read between two steps, after a few of them only. All trainable variables count, wherever the script
keeps them. No name in the script has to be known, so that an eager loop, a ``tf.function`` and Keras are treated
alike.
"""

from __future__ import annotations

import gc
import hashlib
import math
import sys
from typing import Any

from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.nonfinite import variable_values

FIRST_READ_STEP = 1  # steps taken when the weights are first read; some have no value before
KERAS_TRAINING_STEP = 5  # a training step of Keras, as Progress.step counts
READ_STEPS = (5, 10, 20, 50)
MAX_WEIGHT_BYTES = 1 << 30


class WeightDigests:
    """``marks``: steps taken, a digest of all weights, and their distance from those after the first step.

    The distance is the Euclidean norm over all weights, as float64.
    """

    def __init__(self, recorder: Recorder, progress: Progress) -> None:
        self.recorder = recorder
        self.progress = progress
        self.marks: list[tuple[int, str, float]] = []
        self._began: list[tuple[Any, Any]] = []  # each variable's handle and its value after the first step

    def at_boundary(self, steps: int) -> None:
        """Called before step number ``steps``, which is counted from 1 for each kind of step."""
        taken = steps - 1
        if taken == FIRST_READ_STEP or taken in READ_STEPS:
            self.recorder.guard("weights", self._mark, taken)
        if taken >= READ_STEPS[-1]:
            self._began.clear()

    def _mark(self, taken: int) -> None:
        if taken == FIRST_READ_STEP:  # happens again if a stronger kind of step is counted from 1
            self.marks.clear()
            # Reading weights takes time from the steps that are compared. A step of Keras always returns its loss.
            has_scalars = any(scalars for _, _, scalars, _ in self.progress.trajectory or ())
            self._began = [] if has_scalars and self.progress.kind == KERAS_TRAINING_STEP else _trainable_values()
        if taken == FIRST_READ_STEP or not self._began:
            return
        digests, moved = [], 0.0
        for handle, before in self._began:
            value, old = _numpy_value(variable_values.read_variable(handle, before.dtype)), _numpy_value(before)
            if value is None or old is None or value.shape != old.shape:
                return
            digests.append(hashlib.blake2b(value.tobytes(), digest_size=16).digest())
            moved += float(((value.astype("float64") - old.astype("float64")) ** 2).sum())
        whole = hashlib.blake2b(b"".join(sorted(digests)), digest_size=16).hexdigest()
        self.marks.append((taken, whole, math.sqrt(moved)))


def _trainable_values() -> list[tuple[Any, Any]]:
    """Returns handles and values of all trainable variables that are alive; empty if they are too large to be kept."""
    base = getattr(sys.modules.get("tensorflow.python.ops.resource_variable_ops"), "BaseResourceVariable", None)
    if base is None:
        return []
    found: list[tuple[Any, Any]] = []
    room = MAX_WEIGHT_BYTES
    for one in gc.get_objects():
        # type(), because an object of the user's may claim to be anything.
        if not issubclass(type(one), base) or not one.trainable or not one.dtype.is_floating:
            continue
        value = variable_values.read_variable(one.handle, one.dtype) if hasattr(one.handle, "_id") else None
        room -= variable_values.tensor_bytes(value)
        if room < 0:
            return []
        if value is not None:
            found.append((one.handle, value))
    return found


def _numpy_value(value: Any) -> Any:
    """Returns the value as NumPy array. Does not use ``numpy()``, which the recorder counts as a read by the script."""
    return None if value is None else value._numpy_internal()
