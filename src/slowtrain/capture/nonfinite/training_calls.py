"""Calls of training functions: arguments, batches from iterators, and whether the results are finite."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from slowtrain.capture.core.thread_state import loss_scalars
from slowtrain.capture.nonfinite import variable_values


class ResultWithBatch(NamedTuple):
    """What a traced function returns while the check is on: its result, and the batch from its iterator."""

    result: Any
    batch: Any


class TrainingCall(NamedTuple):
    """One call of a training function."""

    function: Any
    args: Any
    kwargs: Any
    batch: Any
    result: Any
    step: int


def return_batch_too(python_func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function to be traced that returns its iterator's batch with its result, as ``ResultWithBatch``."""

    def call_with_batch(*args: Any, **kwargs: Any) -> Any:
        result = python_func(*args, **kwargs)
        graph = sys.modules["tensorflow"].compat.v1.get_default_graph()
        batches = [op for op in graph.get_operations() if op.type == "IteratorGetNext"]
        return ResultWithBatch(result, tuple(batches[0].outputs)) if len(batches) == 1 else result

    call_with_batch.__wrapped__ = python_func  # type: ignore[attr-defined]
    return call_with_batch


def call_inputs(call: TrainingCall) -> list[Any]:
    """Returns all inputs of a call."""
    return [*call.args, *call.kwargs.values(), *(call.batch or ())]


def call_input_bytes(call: TrainingCall) -> int:
    return sum(map(variable_values.tensor_bytes, call_inputs(call)))


def own_result(returned: Any) -> Any:
    """Returns a function's own result, without the batch."""
    return returned.result if type(returned) is ResultWithBatch else returned


def remove_result_patch(function: Any) -> None:
    """Removes our patch. The traced graph keeps returning the batch, so this function drops it from the result."""
    function._call = functools.partial(_call_for_own_result, function)


def _call_for_own_result(function: Any, *args: Any, **kwargs: Any) -> Any:
    return own_result(type(function)._call(function, *args, **kwargs))


def iterator_positions(args: Sequence[Any]) -> list[int]:
    """Returns the positions of the iterators among the arguments."""
    return [i for i, a in enumerate(args) if hasattr(a, "get_next") and hasattr(a, "element_spec")]


def replay_arguments(call: TrainingCall) -> tuple[Any, ...]:
    """Returns the arguments of a call, with its iterator replaced by one that gives the same batch again."""
    at = iterator_positions(call.args)
    if not at:
        return tuple(call.args)
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.data.util import structure

    element = structure.from_tensor_list(call.args[at[0]].element_spec, list(call.batch))
    fresh = iter(dataset_ops.DatasetV2.from_tensors(element))
    return tuple(fresh if i == at[0] else a for i, a in enumerate(call.args))


def loss_tensors(result: Any) -> Any:
    """Returns the loss among the scalars of a step's result, else all scalars, or the optional that holds it.

    Not the result itself, which may be large.
    """
    if hasattr(result, "get_value") and hasattr(result, "has_value"):
        return result
    found = [
        (name, t)
        for name, t in flatten_tensors("", result)
        if getattr(getattr(t, "dtype", None), "is_floating", False) and getattr(t, "shape", None) == ()
    ]
    return [t for _, t in loss_scalars(found)][:16]


def optional_value(result: Any) -> Any:
    """Returns the value of an optional, or the result itself."""
    if hasattr(result, "get_value") and hasattr(result, "has_value"):
        return result.get_value()
    return result


def is_result_finite(result: Any) -> bool:
    return all(math.isfinite(float(t._numpy())) for t in loss_tensors(optional_value(result)))


def is_state_finite(state: variable_values.VariableState) -> bool:
    import numpy as np

    return all(
        bool(np.isfinite(np.asarray(value._numpy())).all()) for _, value in state.values() if value.dtype.is_floating
    )


def flatten_tensors(name: str, tree: Any) -> list[tuple[str, Any]]:
    """Returns the tensors of a nested structure with their names."""
    if isinstance(tree, dict):
        return [t for key, value in tree.items() for t in flatten_tensors(f"{name}[{key!r}]", value)]
    if isinstance(tree, (list, tuple)):
        return [t for i, value in enumerate(tree) for t in flatten_tensors(f"{name}[{i}]", value)]
    return [(name, tree)] if hasattr(tree, "_id") and hasattr(tree, "dtype") else []
