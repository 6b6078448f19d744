"""Reasons for a device's wait from host spans whose name alone does not give it."""

from __future__ import annotations

import numpy as np

from slowtrain.trace import Bools, Floats, Ints, asides, intervals, names
from slowtrain.trace.activities import NO_INTS
from slowtrain.trace.wire import Codes


def role(text: str, *, devices: bool = False) -> int:
    """Return the index of a name's reason, -1 for none."""
    reason = names.host_reason(text)
    if devices and asides.RECEIVED.search(text):
        return -1
    return names.REASONS.index(reason) if reason else -1


def on_host(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], launched: Floats) -> Ints:
    """Return the graph ops that the host itself computed next to a device: long ones in which nothing was launched."""
    ops = [is_op(text) and of_model(text) and not names.WAITING_OP.search(text.rpartition(":")[2]) for text in texts]
    rows = np.flatnonzero(np.array(ops, dtype=bool)[code] & (end - start >= names.HOST_OP_MS))
    calls = np.sort(launched)
    none = np.searchsorted(calls, start[rows]) == np.searchsorted(calls, end[rows], side="right")
    return np.asarray(rows[none])


def begun_before(start: Floats, code: Codes, texts: tuple[str, ...]) -> Ints:
    """Return Python frames of which the tracer saw only the end; it gives all of them its own start as start.

    Where such frames came from is unknown. A generator that is resumed leaves one in every step.
    """
    rows = np.flatnonzero(np.array([t.startswith(names.PYTHON_CALL) for t in texts], dtype=bool)[code])
    first = rows[start[rows] == start[rows].min(initial=np.inf)]
    return first if len(first) > 1 else NO_INTS


def mark_compiled(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], reason: Codes) -> None:
    """Mark JAX calls in which something is compiled as tracing and lowering from start to end."""
    compiling = names.REASONS.index("compile")
    calls = np.flatnonzero(np.array([t.startswith(names.PJIT_CALL) for t in texts], dtype=bool)[code])
    mine = reason == compiling
    if len(calls) and mine.any():
        inside = intervals.covered(intervals.union(start[mine], end[mine]), start[calls], end[calls])
        reason[calls[inside > 0]] = compiling


def mark_loop_ops(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], reason: Codes) -> None:
    """Mark the whole call of an op of Keras' own loop as dispatch, because the user did not ask for its value."""
    wanted = {f"{names.EAGER_LOCAL}{op}" for op in names.LOOP_OPS}
    ops = np.flatnonzero(np.array([t in wanted for t in texts], dtype=bool)[code])
    calls = np.flatnonzero(is_text(texts, code, names.EAGER_FAST_PATH))
    if len(ops) and len(calls):
        around = calls[np.maximum(np.searchsorted(start[calls], start[ops], side="right") - 1, 0)]
        around = around[end[around] >= end[ops]]
        inside = intervals.covered(intervals.union(start[around], end[around]), start, end) >= end - start
        reason[inside & (reason >= 0)] = names.REASONS.index("dispatch")


def is_text(texts: tuple[str, ...], code: Codes, text: str) -> Bools:
    return code == texts.index(text) if text in texts else np.zeros(len(code), dtype=bool)


def is_op(text: str) -> bool:
    found = names.graph_op(text)
    return found is not None and found[1] not in names.CALLER_OPS


def of_model(event: str) -> bool:
    """Return whether an op computes the model: not a summary, a save, decoding, or a wait for other processes."""
    return names.host_reason(event) not in ("callback", names.READING, names.PEERS) and not asides.HLO_PEERS.fullmatch(
        event
    )


def waits_for_peers(event: str) -> bool:
    """Return whether the op waits on the host for other training processes."""
    return names.host_reason(event) == names.PEERS or asides.HLO_PEERS.fullmatch(event) is not None
