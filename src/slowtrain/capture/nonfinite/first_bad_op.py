"""Runs one step op by op and examines every number, to find the op that first made a non-finite one.

The step's Python runs eagerly under TensorFlow's own op callbacks, as with ``tf.debugging.enable_check_numerics``. An
op is an origin if its inputs were finite and its result was not. Of several origins the earliest whose result reaches
the loss or a variable counts, because an infinity that is masked again does no harm.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from slowtrain.capture.inspection import user_code

# infinities from these ops are intended
CONSTANT_OPS = frozenset("Const Fill Range LinSpace Eye OnesLike ZerosLike".split())
WRITE_OPS = ("AssignVariable", "AssignAdd", "AssignSub", "ResourceApply", "ResourceSparseApply", "ResourceScatter")
MAX_REPLAY_S = 60.0
MAX_INPUT_RANGES = 4


class ReplayTimeout(BaseException):
    """The replay takes too long. Not an ``Exception``, because the user's code may catch those."""


class FirstBadOp:
    """Called for every op during :meth:`run`."""

    def __init__(self, names: dict[int, str], data: Sequence[tuple[str, Any]], numbers: Any) -> None:
        self.numbers = numbers  # the numpy module
        self.names = names  # of variables, by their handle
        self.origins: list[dict[str, Any]] = []
        self.ops = 0
        self.values = 0
        self.subnormal = 0
        self.reached: set[int] = set()  # origins that reached a variable
        self._of: dict[int, int | None] = {}  # origin by tensor; None: an intended infinity
        self._variables: dict[int, int] = {}  # origin by variable
        self._made_by: dict[int, dict[str, Any]] = {}  # where a tensor of the forward pass was created
        self._until = time.monotonic() + MAX_REPLAY_S
        for name, tensor in data:
            array = self._array(tensor)
            if array is not None and self._bad(array):
                self._of[tensor._id] = self._origin({"kind": "data", "name": name, "output": self._range(array)})

    def run(self, step: Callable[[], Any]) -> Any:
        """Returns the result of ``step``; raises what it raises."""
        from tensorflow.python.framework import op_callbacks

        op_callbacks.add_op_callback(self)
        try:
            return step()
        finally:
            op_callbacks.remove_op_callback(self)

    def first(self, results: Sequence[Any]) -> dict[str, Any] | None:
        """Returns the earliest origin that reached the step's results or a variable."""
        reached = set(self.reached)
        for result in results:
            reached.add(self._of.get(getattr(result, "_id", -1)) or 0)
        reached.discard(0)
        return self.origins[min(reached) - 1] if reached else None

    def __call__(
        self, op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        if graph is not None:
            return
        if time.monotonic() > self._until:
            raise ReplayTimeout
        kind = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        self.ops += 1
        frame = sys._getframe(1)
        if kind.startswith(WRITE_OPS) and inputs:
            self._note_assignment(kind, inputs, frame)
        where: dict[str, Any] | None = None
        for output in outputs or ():
            array = self._array(output)
            if array is None:
                continue
            where = where or self._where(kind, inputs, frame)
            self._made_by[output._id] = where
            if self._bad(array):
                self._of[output._id] = self._why(kind, inputs, array, where)

    def _why(self, kind: str, inputs: Any, array: Any, where: dict[str, Any]) -> int | None:
        """Returns the origin of a non-finite result."""
        if kind == "ReadVariableOp":
            handle = inputs[0]._id
            earlier = self._variables.get(handle)
            name = self.names.get(handle, "a variable")
            return earlier or self._origin({"kind": "weights", "name": name, "output": self._range(array)})
        if kind.startswith("Iterator"):
            return self._origin({"kind": "data", "name": "the batch", "output": self._range(array)})
        bad = [(t, a) for t in inputs if (a := self._array(t)) is not None and self._bad(a)]
        known = [o for t, _ in bad if (o := self._of.get(t._id, 0)) is not None]
        if known:
            # 0: it came from outside the step, and was not examined.
            found = [o for o in known if o]
            return min(found) if found else self._origin({"kind": "outside", **where, "output": self._range(array)})
        if kind in CONSTANT_OPS:
            return None
        isnan = self.numbers.isnan
        if bad and not isnan(array).any():
            return None  # an intended infinity that is passed on
        return self._add_op_origin(kind, inputs, array, where)

    def _add_op_origin(self, kind: str, inputs: Any, array: Any, where: dict[str, Any]) -> int:
        ranges = [self._range(a) for t in inputs if (a := self._array(t)) is not None and a.size]
        about = {"kind": "op", "type": kind, **where, "inputs": ranges[:MAX_INPUT_RANGES], "output": self._range(array)}
        return self._origin(about)

    def _origin(self, about: dict[str, Any]) -> int:
        self.origins.append(about)
        return len(self.origins)

    def _note_assignment(self, kind: str, inputs: Any, frame: FrameType) -> None:
        """Handles the new value of a variable: an origin that reaches it counts. An update may itself overflow."""
        handle, *values = inputs
        found = [o for t in values if (o := self._of.get(getattr(t, "_id", -1)))]
        if not found and not kind.startswith("AssignVariable") and handle._id not in self._variables:
            array = self._value(handle)
            if array is not None and self._bad(array):
                where = {**self._where(kind, inputs, frame), "variable": self.names.get(handle._id)}
                found = [self._add_op_origin(kind, values, array, where)]
        if found:
            self.reached.add(min(found))
            self._variables.setdefault(handle._id, min(found))

    def _value(self, handle: Any) -> Any:
        from slowtrain.capture.nonfinite.variable_values import read_variable

        return self._array(read_variable(handle))

    # -- numbers

    def _array(self, tensor: Any) -> Any:
        dtype = getattr(tensor, "dtype", None)
        if not getattr(dtype, "is_floating", False):
            return None
        try:
            array = self.numbers.asarray(tensor._numpy())
        except Exception:
            return None
        # bfloat16 in old versions of NumPy
        return array.astype(self.numbers.float32) if array.dtype.kind == "V" else array

    def _bad(self, array: Any) -> bool:
        return not bool(self.numbers.isfinite(array).all())

    def _range(self, array: Any) -> dict[str, Any]:
        return number_range(array, self.numbers)

    # -- places

    def _where(self, kind: str, inputs: Any, frame: FrameType) -> dict[str, Any]:
        """Returns layer and line of an op. For an op of a gradient, those of the op that it is the gradient of."""
        layers: list[str] = []
        gradient, optimizer = False, None
        one: FrameType | None = frame
        while one is not None:
            file = one.f_code.co_filename
            gradient = gradient or file.endswith(("imperative_grad.py", "backprop.py"))
            owner = one.f_locals.get("self") if "self" in one.f_code.co_varnames[:1] else None
            if owner is not None and is_layer(type(owner)):
                name = str(getattr(owner, "name", ""))
                if name and name not in layers:
                    layers.append(name)
            elif owner is not None and is_keras_class(type(owner), "Optimizer", "BaseOptimizer"):
                optimizer = type(owner).__name__
            one = one.f_back
        about = {"layer": "/".join(reversed(layers)), "site": user_code.user_place(frame), "gradient": gradient}
        if optimizer is not None and not gradient:
            about["optimizer"] = optimizer
        if gradient:
            for tensor in inputs:
                origin = self._made_by.get(getattr(tensor, "_id", -1))
                if origin is not None and not origin["gradient"]:
                    return {**origin, "gradient": True}
        return about | {"of": kind}


def number_range(array: Any, numbers: Any) -> dict[str, Any]:
    """Returns the least and the largest finite number, and counts of NaN, infinity, zero and negative numbers.

    ``numbers`` is the numpy module.
    """
    wide = numbers.asarray(array, dtype=numbers.float64)
    finite = wide[numbers.isfinite(wide)]
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "least": float(finite.min()) if finite.size else None,
        "most": float(finite.max()) if finite.size else None,
        "count": int(wide.size),
        "nan": int(numbers.isnan(wide).sum()),
        "inf": int(numbers.isinf(wide).sum()),
        "zero": int((wide == 0).sum()),
        "below": int((finite < 0).sum()),
    }


def is_layer(kind: type) -> bool:
    """Returns whether a class is a layer.

    A model is one as well, but its name does not say where in the model an op is.
    """
    return is_keras_class(kind, "Layer") and not is_keras_class(kind, "Model")


def is_keras_class(kind: type, *names: str) -> bool:
    """Returns whether a class is one of Keras' own with one of these names, or derived from it."""
    return any(c.__name__ in names and "keras" in c.__module__ for c in kind.__mro__)
