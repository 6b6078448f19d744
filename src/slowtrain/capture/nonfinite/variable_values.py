"""Reads and restores the variables of traced functions.

A value that was read shares the variable's memory. TensorFlow copies it when the variable is next written, so that
keeping one state costs one copy of what changes. For a variable on a card the state is a copy in the host's memory,
because the free memory of the card belongs to the script.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from slowtrain.capture.core.recorder import now

MAX_VARIABLES = 5000

VariableState = dict[int, tuple[Any, Any]]  # by the handle's id: the handle and the value


def read_variable(handle: Any, dtype: Any = None) -> Any:
    """Returns the value behind a handle, None if it has none yet. ``dtype`` saves looking up the dtype."""
    from tensorflow.python.ops import gen_resource_variable_ops as ops

    dtype = variable_dtype(handle) if dtype is None else dtype
    try:
        return ops.read_variable_op(handle, dtype) if dtype is not None else None
    except Exception:
        return None


def variable_dtype(handle: Any) -> Any:
    """Returns the dtype of the variable behind a handle; None if it is not the handle of a variable."""
    from tensorflow.python.framework import dtypes
    from tensorflow.python.ops import resource_variable_ops as variables

    try:
        data = variables.get_eager_safe_handle_data(handle)
        return dtypes.as_dtype(data.shape_and_type[0].dtype) if data.is_set and data.shape_and_type else None
    except Exception:
        return None


def restore_variables(state: VariableState) -> None:
    """Writes the values of ``state`` back into the variables."""
    from tensorflow.python.ops import gen_resource_variable_ops as ops

    for handle, value in state.values():
        ops.assign_variable_op(handle, value)


class CapturedVariables:
    """Handles and names of all variables that the traced functions capture."""

    def __init__(self) -> None:
        self.handles: dict[int, Any] = {}
        self.names: dict[int, str] = {}
        self.complete = True  # whether the newest state has them all; some have no value before the first step
        self.models: list[weakref.ref[Any]] = []  # Keras models that train

    def add(self, graph: Any) -> None:
        for outside, _ in graph.captures:
            if len(self.handles) < MAX_VARIABLES and _is_handle(outside) and variable_dtype(outside) is not None:
                self.handles.setdefault(outside._id, outside)
        for variable in graph.variables:
            handle = getattr(variable, "handle", None)
            if handle is not None and hasattr(handle, "_id"):
                self.names[handle._id] = str(getattr(variable, "name", "")).removesuffix(":0")

    def of_metrics(self) -> set[int]:
        """Returns the ids of the handles of metrics.

        A metric may be NaN without harm, for example a ratio of two zeros.
        """
        found = set()
        for known in self.models:
            with contextlib.suppress(Exception):  # the user may have overridden ``metrics``
                for metric in getattr(known(), "metrics", ()):
                    found |= {v.handle._id for v in metric.variables}
        return found

    def state(self) -> VariableState:
        found = {}
        self.complete = True
        for key, handle in self.handles.items():
            value = read_variable(handle)
            if value is None or (value.shape == (0,) and not _is_declared_empty(handle)):
                self.complete = False
            else:
                found[key] = (handle, value._copy_nograd(device_name="CPU:0") if is_on_card(value) else value)
        return found


def _is_declared_empty(handle: Any) -> bool:
    """Returns whether a variable is declared as empty. TensorFlow reads a variable without a value as empty, too."""
    from tensorflow.python.ops import resource_variable_ops as ops

    shape = ops.get_eager_safe_handle_data(handle).shape_and_type[0].shape
    return [d.size for d in shape.dim] == [0]


def state_bytes(state: VariableState) -> int:
    return sum(tensor_bytes(value) for _, value in state.values())


def tensor_bytes(tensor: Any) -> int:
    shape, dtype = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
    if shape is None or dtype is None:
        return 0
    try:
        return int(shape.num_elements() or 0) * int(dtype.size)
    except Exception:
        return 0


def _is_handle(tensor: Any) -> bool:
    return hasattr(tensor, "_id") and getattr(getattr(tensor, "dtype", None), "name", "") == "resource"


# Two states, up to three more during a replay, and the inputs of the steps: a quarter stays free.
BUDGET_SHARE = 1 / 8
MAX_CARD_BYTES = (
    256 << 20
)  # of a card's memory, for which the framework's pool does not report free bytes, and of an unknown host
READING_PERIOD_NS = 5_000_000_000  # between two readings, which take half a millisecond


class MemoryBudget:
    """The limit for one kind of data: states, batches, or the variables of one step."""

    def __init__(self, free: Callable[[], int | None] | None = None) -> None:
        self._free = _free_host_bytes if free is None else free
        self._bytes = 0
        self._due_ns = 0

    def holds(self, size: int, held_bytes: int = 0, *, on_card: bool = False) -> bool:
        """Returns whether ``size`` bytes fit. Without us, ``held_bytes`` more would be free."""
        if on_card:
            return size <= MAX_CARD_BYTES
        if size > self._bytes or now() >= self._due_ns:
            free = self._free()
            self._bytes = MAX_CARD_BYTES if free is None else int(BUDGET_SHARE * (free + held_bytes))
            self._due_ns = now() + READING_PERIOD_NS
        return size <= self._bytes

    def refusal_reason(self, size: int) -> str:
        """Returns the reason why ``size`` bytes are not kept."""
        limit = f"{self._bytes / 1e6:.0f} MB are kept, an eighth of the memory that is free"
        return f"{size / 1e6:.0f} MB, and up to {limit}"


def _free_host_bytes() -> int | None:
    from slowtrain.machine.host.host_facts import free_bytes  # imported late, to keep the script's start fast

    return free_bytes()


def is_on_card(tensor: object) -> bool:
    """Returns whether a TensorFlow tensor is in a card's memory, and not in the host's."""
    return "CPU" not in str(getattr(tensor, "backing_device", "CPU"))
