"""Calls of tf.functions on a thread of a profile, and which of them traced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowtrain.columns.arrays import Bools, Floats, Ints
from slowtrain.profile import framework_names
from slowtrain.profile.format import xplane


@dataclass(frozen=True)
class FunctionCalls:
    """Calls in order of their start. ``name`` indexes the thread's texts; ``nth`` counts traces including this one."""

    start_ms: Floats
    end_ms: Floats
    name: Ints
    nth: Ints  # 0: unknown
    traced: Bools


def read_calls(events: xplane.Events, start: Floats, end: Floats, code: Ints) -> tuple[FunctionCalls, Ints] | None:
    """Return the calls and their rows, None if there are none. ``end`` and ``code`` belong to all events."""
    stat = events.stats.get(framework_names.FUNCTION_CALL)
    if stat is None or not len(stat.rows):
        return None
    rows = stat.rows[np.argsort(start[stat.rows], kind="stable")]
    traced = np.array([*(t.startswith(framework_names.TRACED_PREFIX) for t in stat.texts), False])[stat.labels()[rows]]
    count = events.stats.get(framework_names.TRACING_COUNT)
    nth = count.filled(0).astype(np.int64)[rows] if count is not None else np.zeros_like(rows)
    return FunctionCalls(start[rows], end[rows], code[rows], nth, traced), rows


def tracing_ends(calls: FunctionCalls, runs: Floats) -> Floats:
    """Return when each call's graph began to run; in a call that traces, the time before is tracing.

    ``runs``: when graphs of the thread began to run, in order. Calls without a run give their end.
    """
    if not len(runs):
        return calls.end_ms
    begun = runs[np.maximum(np.searchsorted(runs, calls.end_ms) - 1, 0)]
    inside = (begun > calls.start_ms) & (begun < calls.end_ms)
    return np.where(calls.traced & inside, begun, calls.end_ms)
