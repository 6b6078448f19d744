"""Handles tf.functions, iterators and marks that existed before a recording began inside a running process."""

from __future__ import annotations

import gc
import sys
from typing import Any

from slowtrain.capture.inspection import user_code
from slowtrain.capture.nonfinite.function_replay import NonfiniteCheck
from slowtrain.capture.tensorflow.function_patches import FUNCTION_MODULE

ITERATOR_MODULE = "tensorflow.python.data.ops.iterator_ops"
GRADIENT_SCOPE = (
    "gradient_tape/"  # the scope in which GradientTape.gradient creates its ops, in TensorFlow 2.15 and 2.21
)
MARK_ATTRIBUTES = ("_slowtrain_known", "_slowtrain")
FIRST_NUMBER = 1_000_000  # numbers of functions that existed before; later ones count from 1


def adopt_functions(checking: NonfiniteCheck | None = None) -> int:
    """Describes every existing tf.function, as its patched ``__init__`` would have. Returns their number.

    ``checking`` gets the variables that their traces use. The objects are found through Python's collector, which
    takes some tenths of a second, once.
    """
    function = getattr(sys.modules.get(FUNCTION_MODULE), "Function", None)
    iterator = getattr(sys.modules.get(ITERATOR_MODULE), "OwnedIterator", None)
    kinds = tuple(kind for kind in (function, iterator) if isinstance(kind, type))
    found = 0
    for one in gc.get_objects() if kinds else ():
        if type(one) not in kinds:
            continue
        known = dict(one.__dict__.get("_slowtrain") or {}) if type(one) is function else {}
        for mark in MARK_ATTRIBUTES:
            one.__dict__.pop(mark, None)
        if type(one) is function:
            found += 1
            about = known or user_code.describe_function(one.python_function)
            about["number"], about["made"] = FIRST_NUMBER + found, about.get("made")
            if about.get("training") or is_training_function(one):
                about["training"] = True
            one._slowtrain = about
            if checking is not None:
                for graph in _concrete_graphs(one):
                    checking.variables.add(graph)
    return found


def is_training_function(function: Any) -> bool:
    """Returns whether a gradient was taken in any of a function's traces."""
    graphs = _concrete_graphs(function)
    return any(
        op.name.startswith(GRADIENT_SCOPE) or f"/{GRADIENT_SCOPE}" in op.name
        for g in graphs
        for op in g.get_operations()
    )


def _concrete_graphs(function: Any) -> list[Any]:
    try:
        return [c.graph for c in function._list_all_concrete_functions()]
    except Exception:
        return []
