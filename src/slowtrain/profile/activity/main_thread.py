"""Finds the main thread of the user's script by what it does; its name is the process's name or empty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slowtrain.profile import framework_names
from slowtrain.profile.activity.host_threads import HostThread


def find_main_thread(threads: Sequence[HostThread]) -> HostThread | None:
    """Return the thread that calls the training functions, else the one with Python's name, else one that runs Python.

    None if no thread runs Python. TensorFlow's pools also run Python (``py_function``); they are excluded.
    """
    known = [
        (_main_thread_rank(t), i, t)
        for i, t in enumerate(threads)
        if not t.label.startswith(framework_names.FRAMEWORK_THREADS)
    ]
    rank, _, best = max(known, key=lambda k: (k[0], -k[1]), default=((), 0, None))
    return best if any(rank[:-1]) else None


def _main_thread_rank(thread: HostThread) -> tuple[bool, bool, int, int, int, int]:
    """Return the signs of the main thread, strongest first: function calls, name, eager ops, frames, spans."""
    calls, ops, frames = (
        _count_spans(thread, prefixes) for prefixes in (_CALL_PREFIXES, _EAGER_PREFIXES, (framework_names.PYTHON_CALL,))
    )
    named = framework_names.PYTHON_THREAD.fullmatch(thread.label) is not None
    return calls > 0, named, calls, ops, frames, len(thread.start_ms)


_CALL_PREFIXES = (
    framework_names.PJIT_CALL,
    *(f"{call}{prefix}" for call in framework_names.EAGER_CALLS for prefix in framework_names.FUNCTION_PREFIXES),
)
_EAGER_PREFIXES = (*framework_names.EAGER_CALLS, framework_names.EAGER_FAST_PATH)


def _count_spans(thread: HostThread, prefixes: tuple[str, ...]) -> int:
    mine = np.array([text.startswith(prefixes) for text in thread.texts], dtype=bool)
    return int(mine[thread.name].sum()) if len(thread.name) else 0
