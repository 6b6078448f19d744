"""Describes the arguments of a function compiled by JAX: static ones, the batch, and differences between traces."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from slowtrain.capture import signatures

Shapes = tuple[tuple[tuple[int, ...], str], ...]


class Static(NamedTuple):
    """Arguments that count by their value: a new value causes a new trace."""

    positions: frozenset[int]
    names: frozenset[str]


class Where(NamedTuple):
    """An array among the arguments: the argument's position or name, and the index of the leaf."""

    argument: int | str
    leaf: int


def leaves(given: Any) -> list[Any]:
    return list(sys.modules["jax"].tree_util.tree_leaves(given))


def static(python: Any, settings: dict[str, Any]) -> Static:
    """Returns the static arguments given to ``jax.jit``, by position and by name."""
    positions, names = _several(settings.get("static_argnums")), _several(settings.get("static_argnames"))
    try:
        known = list(inspect.signature(python).parameters)
    except (TypeError, ValueError):
        known = []
    at = {p % len(known) if known else p for p in positions}
    both = {known[p] for p in at if p < len(known)} | set(names)
    return Static(frozenset(at | {known.index(n) for n in names if n in known}), frozenset(both))


def _several(given: Any) -> tuple[Any, ...]:
    return () if given is None else (given,) if isinstance(given, (int, str)) else tuple(given)


# -- the batch


def size(where: Where | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Returns the samples in a call's batch; 0 if not known."""
    if where is None:
        return 0
    named = isinstance(where.argument, str)
    if (where.argument not in kwargs) if named else (int(where.argument) >= len(args)):
        return 0
    given = leaves(kwargs[str(where.argument)] if named else args[int(where.argument)])
    shape = tuple(given[where.leaf].shape) if where.leaf < len(given) else ()
    return int(shape[0]) if shape else 0


def batch(args: tuple[Any, ...], kwargs: dict[str, Any], fixed: Static, result: Any) -> Where | None:
    """Returns the first argument that may be a batch: its arrays have equal length, and the function does not return
    it.

    Arguments that are returned in the same shapes are state: weights, an optimizer's variables.
    """
    state = {_shapes(leaves(part)) for part in _parts(result, 2)}
    given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for argument, value in given:
        if argument in (fixed.names if isinstance(argument, str) else fixed.positions):
            continue
        found = leaves(value)
        arrays = [i for i, leaf in enumerate(found) if _counted(leaf)]
        if arrays and _shapes(found) not in state and len({found[i].shape[0] for i in arrays}) == 1:
            return Where(argument, arrays[0])
    return None


def _parts(result: Any, depth: int) -> Iterator[Any]:
    yield result
    inside = result.values() if isinstance(result, dict) else result if isinstance(result, (list, tuple)) else ()
    for part in inside if depth else ():
        yield from _parts(part, depth - 1)


def _shapes(given: list[Any]) -> Shapes:
    return tuple((tuple(getattr(leaf, "shape", ())), str(getattr(leaf, "dtype", ""))) for leaf in given)


def _counted(leaf: Any) -> bool:
    """Returns whether an array's first dimension may count samples: it has one, and is no key for random numbers."""
    shape, dtype = tuple(getattr(leaf, "shape", ())), str(getattr(leaf, "dtype", ""))
    return bool(shape) and not dtype.startswith("key<") and not (dtype == "uint32" and shape == (2,))


# -- what was given


def describe(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fixed: Static) -> dict[str, Any]:
    """Describes the leaves of a call by name, in the form of :func:`slowtrain.capture.signatures.describe`.

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
            found[name] = signatures.leaf(value)
            continue
        if isinstance(value, (list, tuple)):
            found[name] = {"kind": "sequence", "length": len(value)}
        for path, leaf in util.tree_flatten_with_path(value)[0]:
            if len(found) >= signatures.MAX_LEAVES:
                return found
            found[name + util.keystr(path)] = _traced(leaf)
    return found


def _traced(value: Any) -> dict[str, Any]:
    """Describes a traced value. A number counts only by its type, and an array counts the same whoever created it."""
    if isinstance(value, (bool, int, float, complex)):
        return {"kind": "tensor", "shape": [], "dtype": f"Python {type(value).__name__}"}
    about = signatures.leaf(value)
    return {**about, "kind": "tensor"} if about["kind"] == "array" else about
