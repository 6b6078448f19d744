"""Finds the main thread of the user's script by what it does; its name is the process's name or empty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slowtrain.trace import names
from slowtrain.trace.timeline import Thread


def find(threads: Sequence[Thread]) -> Thread | None:
    """Return the thread that calls the training functions, else the one with Python's name, else one that runs Python.

    None if no thread runs Python. TensorFlow's pools also run Python (``py_function``); they are excluded.
    """
    known = [(_rank(t), i, t) for i, t in enumerate(threads) if not t.label.startswith(names.FRAMEWORK_THREADS)]
    rank, _, best = max(known, key=lambda k: (k[0], -k[1]), default=((), 0, None))
    return best if any(rank[:-1]) else None


def _rank(thread: Thread) -> tuple[bool, bool, int, int, int, int]:
    """Return the signs of the main thread, strongest first: function calls, name, eager ops, frames, spans."""
    calls, ops, frames = (_count(thread, prefixes) for prefixes in (_CALLS, _EAGER, (names.PYTHON_CALL,)))
    named = names.PYTHON_THREAD.fullmatch(thread.label) is not None
    return calls > 0, named, calls, ops, frames, len(thread.start_ms)


_CALLS = (
    names.PJIT_CALL,
    *(f"{call}{prefix}" for call in names.EAGER_CALLS for prefix in names.FUNCTION_PREFIXES),
)
_EAGER = (*names.EAGER_CALLS, names.EAGER_FAST_PATH)


def _count(thread: Thread, prefixes: tuple[str, ...]) -> int:
    mine = np.array([text.startswith(prefixes) for text in thread.texts], dtype=bool)
    return int(mine[thread.name].sum()) if len(thread.name) else 0
