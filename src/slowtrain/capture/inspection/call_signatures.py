"""Describes the arguments of a call so that calls can be compared: shapes and dtypes of tensors, values of the rest."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import attrgetter, methodcaller
from typing import Any

MAX_LEAVES = 200
SAMPLED_ELEMENTS = 4  # elements of a list that are read; the rest are assumed to be alike
MAX_NESTING = 8  # levels of nested lists


_shape_readers: dict[type, Callable[[Any], Any] | None] = {}


def batch_size(args: tuple[Any, ...]) -> int:
    """Returns the first dimension of the first array-like argument (one level deep), or 0 if there is none.

    This is on the hot path. The way to read the shape of a type is looked up once, because testing a tensor for a
    missing attribute takes microseconds.
    """
    for value in args:
        kind = type(value)
        if kind is tuple or kind is list:
            if not value:
                continue
            value = value[0]
            kind = type(value)
        elif kind is dict and value:
            value = next(iter(value.values()))
            kind = type(value)
        if kind not in _shape_readers:
            _shape_readers[kind] = _shape_reader(value)
        read = _shape_readers[kind]
        if read is not None:
            try:
                shape = read(value)
                return int(shape[0]) if len(shape) else 0
            except (TypeError, ValueError):
                return 0
    return 0


def _shape_reader(value: Any) -> Callable[[Any], Any] | None:
    if not hasattr(value, "shape") or hasattr(value, "assign"):
        return None
    # An eager tensor creates its ``shape`` object when it is first read, and each step has new tensors. This tuple is
    # made in C.
    made_in_c = type(value).__name__ == "EagerTensor" and hasattr(value, "_shape_tuple")
    return methodcaller("_shape_tuple") if made_in_c else attrgetter("shape")


def host_bytes(args: tuple[Any, ...]) -> int:
    """Returns the bytes of NumPy arrays among the arguments, plus eight for each plain number in lists.

    Only a few elements of a list are read, and one of each list inside it, because some are nested four deep and this
    runs in each step.
    """
    return int(sum(_host_bytes_of(value, SAMPLED_ELEMENTS) for value in args))


def _host_bytes_of(value: Any, looked_at: int, depth: int = 0) -> float:
    if isinstance(value, (list, tuple)):
        if not value or depth == MAX_NESTING:
            return 0.0
        some = value[:looked_at]
        return sum(_host_bytes_of(one, 1, depth + 1) for one in some) * len(value) / len(some)
    if isinstance(value, (int, float)):
        return 8.0 if depth else 0.0
    size = getattr(value, "nbytes", None)
    # "cpu" as of NumPy 2; older arrays have no such attribute
    on_host = isinstance(size, int) and getattr(value, "device", "cpu") == "cpu"
    return float(size or 0) if on_host else 0.0


def describe_argument(value: Any) -> dict[str, Any]:
    """Describes an argument: ``kind`` (tensor, array, variable, python, object) with shape and dtype, or the value."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        module = type(value).__module__.split(".")[0]
        kind = "variable" if hasattr(value, "assign") else "array" if module == "numpy" else "tensor"
        try:
            dims: list[Any] = [None if d is None else int(d) for d in shape]
        except (TypeError, ValueError):
            dims = []
        return {"kind": kind, "shape": dims, "dtype": getattr(dtype, "name", str(dtype))}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"kind": "python", "type": type(value).__name__, "value": repr(value)[:80]}
    return {"kind": "object", "type": type(value).__name__, "id": id(value)}


def describe_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Describes the arguments of a call by parameter name: ``{"lr": {...}, "boxes[3]": {...}}``."""
    python_function = getattr(function, "python_function", function)
    try:
        bound = inspect.signature(python_function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {f"argument {i}": v for i, v in enumerate(args)} | kwargs
    leaves: dict[str, Any] = {}
    for name, value in bound.items():
        _collect_leaves(name, value, leaves, 0)
    return leaves


def _collect_leaves(name: str, value: Any, leaves: dict[str, Any], depth: int) -> None:
    if len(leaves) >= MAX_LEAVES:
        return
    if isinstance(value, (list, tuple)) and depth < 4:
        leaves[name] = {"kind": "sequence", "length": len(value)}
        for i, item in enumerate(value[:32]):
            _collect_leaves(f"{name}[{i}]", item, leaves, depth + 1)
    elif isinstance(value, dict) and depth < 4:
        for key, item in list(value.items())[:32]:
            _collect_leaves(f"{name}[{key!r}]", item, leaves, depth + 1)
    else:
        leaves[name] = describe_argument(value)
