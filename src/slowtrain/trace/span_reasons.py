"""The reason that a span of a host thread gives for a device's wait, where its name alone does not tell it."""

from __future__ import annotations

import numpy as np

from slowtrain.trace import Bools, Floats, Ints, asides, intervals, names
from slowtrain.trace.activities import NO_INTS
from slowtrain.trace.wire import Codes


def role(text: str, *, devices: bool = False) -> int:
    reason = names.host_reason(text)
    if devices and asides.RECEIVED.search(text):
        return -1
    return names.REASONS.index(reason) if reason else -1


def on_host(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], launched: Floats) -> Ints:
    """Ops of a graph that the host itself computed beside a device: long ones in which nothing was launched."""
    ops = [is_op(text) and of_model(text) and not names.WAITING_OP.search(text.rpartition(":")[2]) for text in texts]
    rows = np.flatnonzero(np.array(ops, dtype=bool)[code] & (end - start >= names.HOST_OP_MS))
    calls = np.sort(launched)
    none = np.searchsorted(calls, start[rows]) == np.searchsorted(calls, end[rows], side="right")
    return np.asarray(rows[none])


def begun_before(start: Floats, code: Codes, texts: tuple[str, ...]) -> Ints:
    """Python's frames of which the tracer saw only the end: it lets them begin when it began itself, all at once.

    What they were before nobody knows; and a generator that is asked again leaves such an end in every step.
    """
    rows = np.flatnonzero(np.array([t.startswith(names.PYTHON_CALL) for t in texts], dtype=bool)[code])
    first = rows[start[rows] == start[rows].min(initial=np.inf)]
    return first if len(first) > 1 else NO_INTS


def mark_compiled(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], reason: Codes) -> None:
    """A call of JAX's in which something is compiled is tracing and lowering from end to end."""
    compiling = names.REASONS.index("compile")
    calls = np.flatnonzero(np.array([t.startswith(names.PJIT_CALL) for t in texts], dtype=bool)[code])
    mine = reason == compiling
    if len(calls) and mine.any():
        inside = intervals.covered(intervals.union(start[mine], end[mine]), start[calls], end[calls])
        reason[calls[inside > 0]] = compiling


def mark_loop_ops(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], reason: Codes) -> None:
    """All of Python's call of an op of Keras' own loop is dispatch: nobody asked for the value that it waits for."""
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
    """Whether an op computes what the model is made of: no summary, no save, no decoding, no waiting for others."""
    return names.host_reason(event) not in ("callback", names.READING, names.PEERS) and not asides.HLO_PEERS.fullmatch(
        event
    )


def waits_for_peers(event: str) -> bool:
    """Whether the host is in it until other processes of the training have come so far."""
    return names.host_reason(event) == names.PEERS or asides.HLO_PEERS.fullmatch(event) is not None
