"""The variables of traced functions: their values as they are now, and putting them back.

A value that was read shares the variable's memory; TensorFlow copies when the variable is next written, so that to
keep one state costs one copy of what changes. Of a variable on a card the state is a copy in the host's memory: what
is free on the card is the script's.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from slowtrain.capture.room import on_card

MOST_VARIABLES = 5000

State = dict[int, tuple[Any, Any]]  # by the handle's number: the handle and the value


def read(handle: Any, dtype: Any = None) -> Any:
    """The value of a variable by its handle, of a number format where it is known; None where it has none yet."""
    from tensorflow.python.ops import gen_resource_variable_ops as ops

    dtype = held(handle) if dtype is None else dtype
    try:
        return ops.read_variable_op(handle, dtype) if dtype is not None else None
    except Exception:
        return None


def held(handle: Any) -> Any:
    """The number format of the variable behind a handle; None where it is no variable's."""
    from tensorflow.python.framework import dtypes
    from tensorflow.python.ops import resource_variable_ops as variables

    try:
        data = variables.get_eager_safe_handle_data(handle)
        return dtypes.as_dtype(data.shape_and_type[0].dtype) if data.is_set and data.shape_and_type else None
    except Exception:
        return None


def written(state: State) -> None:
    """Puts the values back."""
    from tensorflow.python.ops import gen_resource_variable_ops as ops

    for handle, value in state.values():
        ops.assign_variable_op(handle, value)


class Variables:
    """Handles of all variables that the traced functions capture, and their names."""

    def __init__(self) -> None:
        self.handles: dict[int, Any] = {}
        self.names: dict[int, str] = {}
        self.complete = True  # whether the newest state has them all: some have no value before the first step
        self.models: list[weakref.ref[Any]] = []  # of Keras', that train

    def add(self, graph: Any) -> None:
        for outside, _ in graph.captures:
            if len(self.handles) < MOST_VARIABLES and _is_handle(outside) and held(outside) is not None:
                self.handles.setdefault(outside._id, outside)
        for variable in graph.variables:
            handle = getattr(variable, "handle", None)
            if handle is not None and hasattr(handle, "_id"):
                self.names[handle._id] = str(getattr(variable, "name", "")).removesuffix(":0")

    def of_metrics(self) -> set[int]:
        """The numbers of the handles in which metrics count: a ratio of nothing is no number, and harms no training."""
        found = set()
        for known in self.models:
            with contextlib.suppress(Exception):  # a model may say by itself what its metrics are
                for metric in getattr(known(), "metrics", ()):
                    found |= {v.handle._id for v in metric.variables}
        return found

    def state(self) -> State:
        found = {}
        self.complete = True
        for key, handle in self.handles.items():
            value = read(handle)
            if value is None or (value.shape == (0,) and not _is_empty(handle)):
                self.complete = False
            else:
                found[key] = (handle, value._copy_nograd(device_name="CPU:0") if on_card(value) else value)
        return found


def _is_empty(handle: Any) -> bool:
    """Whether a variable is declared to hold nothing. TensorFlow reads one without a value as such, too."""
    from tensorflow.python.ops import resource_variable_ops as ops

    shape = ops.get_eager_safe_handle_data(handle).shape_and_type[0].shape
    return [d.size for d in shape.dim] == [0]


def size_bytes(state: State) -> int:
    return sum(nbytes(value) for _, value in state.values())


def nbytes(tensor: Any) -> int:
    shape, dtype = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
    if shape is None or dtype is None:
        return 0
    try:
        return int(shape.num_elements() or 0) * int(dtype.size)
    except Exception:
        return 0


def _is_handle(tensor: Any) -> bool:
    return hasattr(tensor, "_id") and getattr(getattr(tensor, "dtype", None), "name", "") == "resource"
