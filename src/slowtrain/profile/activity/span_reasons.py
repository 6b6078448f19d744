"""Reasons for a device's wait from host spans whose name alone does not give it."""

from __future__ import annotations

import numpy as np

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, Ints
from slowtrain.profile import auxiliary_ops, framework_names
from slowtrain.profile.activity.device_activity import NO_INTS
from slowtrain.profile.format.wire_format import Codes


def reason_index(text: str, *, devices: bool = False) -> int:
    """Return the index of a name's reason, -1 for none."""
    reason = framework_names.host_reason(text)
    if devices and auxiliary_ops.RECEIVE_OP.search(text):
        return -1
    return framework_names.REASONS.index(reason) if reason else -1


def host_computed_ops(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], launched: Floats) -> Ints:
    """Return the graph ops that the host itself computed next to a device: long ones in which nothing was launched."""
    ops = [
        is_graph_op(text) and is_model_op(text) and not framework_names.WAITING_OP.search(text.rpartition(":")[2])
        for text in texts
    ]
    rows = np.flatnonzero(np.array(ops, dtype=bool)[code] & (end - start >= framework_names.MIN_HOST_OP_MS))
    calls = np.sort(launched)
    none = np.searchsorted(calls, start[rows]) == np.searchsorted(calls, end[rows], side="right")
    return np.asarray(rows[none])


def frames_begun_before(start: Floats, code: Codes, texts: tuple[str, ...]) -> Ints:
    """Return Python frames of which the tracer saw only the end; it gives all of them its own start as start.

    Where such frames came from is unknown. A generator that is resumed leaves one in every step.
    """
    rows = np.flatnonzero(np.array([t.startswith(framework_names.PYTHON_CALL) for t in texts], dtype=bool)[code])
    first = rows[start[rows] == start[rows].min(initial=np.inf)]
    return first if len(first) > 1 else NO_INTS


def mark_compiling_calls(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], reason: Codes) -> None:
    """Mark JAX calls in which something is compiled as tracing and lowering from start to end."""
    compiling = framework_names.REASONS.index("compile")
    calls = np.flatnonzero(np.array([t.startswith(framework_names.PJIT_CALL) for t in texts], dtype=bool)[code])
    mine = reason == compiling
    if len(calls) and mine.any():
        inside = intervals.covered_length(intervals.union(start[mine], end[mine]), start[calls], end[calls])
        reason[calls[inside > 0]] = compiling


def mark_loop_ops(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], reason: Codes) -> None:
    """Mark the whole call of an op of Keras' own loop as dispatch, because the user did not ask for its value."""
    wanted = {f"{framework_names.EAGER_LOCAL}{op}" for op in framework_names.LOOP_OPS}
    ops = np.flatnonzero(np.array([t in wanted for t in texts], dtype=bool)[code])
    calls = np.flatnonzero(matches_text(texts, code, framework_names.EAGER_FAST_PATH))
    if len(ops) and len(calls):
        around = calls[np.maximum(np.searchsorted(start[calls], start[ops], side="right") - 1, 0)]
        around = around[end[around] >= end[ops]]
        inside = intervals.covered_length(intervals.union(start[around], end[around]), start, end) >= end - start
        reason[inside & (reason >= 0)] = framework_names.REASONS.index("dispatch")


def matches_text(texts: tuple[str, ...], code: Codes, text: str) -> Bools:
    return code == texts.index(text) if text in texts else np.zeros(len(code), dtype=bool)


def is_graph_op(text: str) -> bool:
    found = framework_names.graph_op(text)
    return found is not None and found[1] not in framework_names.CALLER_OPS


def is_model_op(event: str) -> bool:
    """Return whether an op computes the model: not a summary, a save, decoding, or a wait for other processes."""
    return framework_names.host_reason(event) not in (
        "callback",
        framework_names.READING_REASON,
        framework_names.PEERS_REASON,
    ) and not auxiliary_ops.HLO_PEER_OPS.fullmatch(event)


def waits_for_peers(event: str) -> bool:
    """Return whether the op waits on the host for other training processes."""
    return (
        framework_names.host_reason(event) == framework_names.PEERS_REASON
        or auxiliary_ops.HLO_PEER_OPS.fullmatch(event) is not None
    )
