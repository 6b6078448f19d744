"""Describes the arguments of a function compiled by JAX: static ones, the batch, and differences between traces."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from slowtrain.capture.inspection import call_signatures

LeafShapes = tuple[tuple[tuple[int, ...], str], ...]


class StaticArguments(NamedTuple):
    """Arguments that count by their value: a new value causes a new trace."""

    positions: frozenset[int]
    names: frozenset[str]


class BatchPlace(NamedTuple):
    """An array among the arguments: the argument's position or name, and the index of the leaf."""

    argument: int | str
    leaf: int


def tree_leaves(tree: Any) -> list[Any]:
    return list(sys.modules["jax"].tree_util.tree_leaves(tree))


def static_arguments(python: Any, settings: dict[str, Any]) -> StaticArguments:
    """Returns the static arguments given to ``jax.jit``, by position and by name."""
    positions, names = _as_tuple(settings.get("static_argnums")), _as_tuple(settings.get("static_argnames"))
    try:
        known = list(inspect.signature(python).parameters)
    except (TypeError, ValueError):
        known = []
    at = {p % len(known) if known else p for p in positions}
    both = {known[p] for p in at if p < len(known)} | set(names)
    return StaticArguments(frozenset(at | {known.index(n) for n in names if n in known}), frozenset(both))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,) if isinstance(value, (int, str)) else tuple(value)


# -- the batch


def batch_samples(where: BatchPlace | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Returns the samples in a call's batch; 0 if not known."""
    if where is None:
        return 0
    named = isinstance(where.argument, str)
    if (where.argument not in kwargs) if named else (int(where.argument) >= len(args)):
        return 0
    leaves = tree_leaves(kwargs[str(where.argument)] if named else args[int(where.argument)])
    shape = tuple(leaves[where.leaf].shape) if where.leaf < len(leaves) else ()
    return int(shape[0]) if shape else 0


def find_batch(args: tuple[Any, ...], kwargs: dict[str, Any], fixed: StaticArguments, result: Any) -> BatchPlace | None:
    """Returns the first argument that may be a batch: its arrays have equal length, and the function does not return
    it.

    Arguments that are returned in the same shapes are state: weights, an optimizer's variables.
    """
    state = {_leaf_shapes(tree_leaves(part)) for part in _result_parts(result, 2)}
    arguments: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for argument, value in arguments:
        if argument in (fixed.names if isinstance(argument, str) else fixed.positions):
            continue
        found = tree_leaves(value)
        arrays = [i for i, leaf in enumerate(found) if _may_count_samples(leaf)]
        if arrays and _leaf_shapes(found) not in state and len({found[i].shape[0] for i in arrays}) == 1:
            return BatchPlace(argument, arrays[0])
    return None


def _result_parts(result: Any, depth: int) -> Iterator[Any]:
    yield result
    inside = result.values() if isinstance(result, dict) else result if isinstance(result, (list, tuple)) else ()
    for part in inside if depth else ():
        yield from _result_parts(part, depth - 1)


def _leaf_shapes(leaves: list[Any]) -> LeafShapes:
    return tuple((tuple(getattr(leaf, "shape", ())), str(getattr(leaf, "dtype", ""))) for leaf in leaves)


def _may_count_samples(leaf: Any) -> bool:
    """Returns whether an array's first dimension may count samples: it has one, and is no key for random numbers."""
    shape, dtype = tuple(getattr(leaf, "shape", ())), str(getattr(leaf, "dtype", ""))
    return bool(shape) and not dtype.startswith("key<") and not (dtype == "uint32" and shape == (2,))


# -- what was given


def describe_jit_call(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fixed: StaticArguments
) -> dict[str, Any]:
    """Describes the leaves of a call by name, in the form of
    :func:`slowtrain.capture.inspection.call_signatures.describe_call`.

    Static arguments are described by their values, the others by their shapes.
    """
    try:
        bound = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {f"argument {i}": v for i, v in enumerate(args)} | kwargs
    util = sys.modules["jax"].tree_util
    found: dict[str, Any] = {}
    for name, value in bound.items():
        if name in fixed.names:
            found[name] = call_signatures.describe_argument(value)
            continue
        if isinstance(value, (list, tuple)):
            found[name] = {"kind": "sequence", "length": len(value)}
        for path, leaf in util.tree_flatten_with_path(value)[0]:
            if len(found) >= call_signatures.MAX_LEAVES:
                return found
            found[name + util.keystr(path)] = _describe_traced(leaf)
    return found


def _describe_traced(value: Any) -> dict[str, Any]:
    """Describes a traced value. A number counts only by its type, and an array counts the same whoever created it."""
    if isinstance(value, (bool, int, float, complex)):
        return {"kind": "tensor", "shape": [], "dtype": f"Python {type(value).__name__}"}
    about = call_signatures.describe_argument(value)
    return {**about, "kind": "tensor"} if about["kind"] == "array" else about
