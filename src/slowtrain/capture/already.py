"""Handles tf.functions, iterators and marks that existed before a recording began inside a running process."""

from __future__ import annotations

import gc
import sys
from typing import Any

from slowtrain.capture import frames
from slowtrain.capture.checked import Checking
from slowtrain.capture.tensorflow import FUNCTION

ITERATOR = "tensorflow.python.data.ops.iterator_ops"
GRADIENT = "gradient_tape/"  # the scope in which GradientTape.gradient creates its ops, in TensorFlow 2.15 and 2.21
MARKS = ("_slowtrain_known", "_slowtrain")
FIRST = 1_000_000  # numbers of functions that existed before; later ones count from 1


def adopt(checking: Checking | None = None) -> int:
    """Describes every existing tf.function, as its patched ``__init__`` would have. Returns their number.

    ``checking`` gets the variables that their traces use. The objects are found through Python's collector, which
    takes some tenths of a second, once.
    """
    function = getattr(sys.modules.get(FUNCTION), "Function", None)
    iterator = getattr(sys.modules.get(ITERATOR), "OwnedIterator", None)
    kinds = tuple(kind for kind in (function, iterator) if isinstance(kind, type))
    found = 0
    for one in gc.get_objects() if kinds else ():
        if type(one) not in kinds:
            continue
        known = dict(one.__dict__.get("_slowtrain") or {}) if type(one) is function else {}
        for mark in MARKS:
            one.__dict__.pop(mark, None)
        if type(one) is function:
            found += 1
            about = known or frames.describe(one.python_function)
            about["number"], about["made"] = FIRST + found, about.get("made")
            if about.get("training") or trains(one):
                about["training"] = True
            one._slowtrain = about
            if checking is not None:
                for graph in _graphs(one):
                    checking.variables.add(graph)
    return found


def trains(function: Any) -> bool:
    """Returns whether a gradient was taken in any of a function's traces."""
    graphs = _graphs(function)
    return any(op.name.startswith(GRADIENT) or f"/{GRADIENT}" in op.name for g in graphs for op in g.get_operations())


def _graphs(function: Any) -> list[Any]:
    try:
        return [c.graph for c in function._list_all_concrete_functions()]
    except Exception:
        return []
