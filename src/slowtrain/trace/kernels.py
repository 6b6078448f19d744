"""What ran inside the deep windows: op executions from the profiler's own planes, per step."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slowtrain.errors import InputError
from slowtrain.trace import Kernels, intervals, xplane

# Ops that only call other ops: their time is their callees'.
CALLERS = frozenset(
    "PartitionedCall StatefulPartitionedCall If StatelessIf While StatelessWhile Case StatelessCase RemoteCall "
    "MapDefun SymbolicGradient IteratorGetNext IteratorGetNextAsOptional IteratorGetNextSync".split()
)
INPUT_THREADS = ("tf_data", "iterator_")
FUNCTION_CALL = "EagerLocalExecute: __"
EAGER_CALL = "EagerLocalExecute: "
WAITS = ("IteratorGetNextOp::DoCompute", "IteratorGetNextAsOptionalOp::DoCompute", "IteratorGetNextSyncOp::DoCompute")


def read(files: list[tuple[Path, int]]) -> Kernels | None:
    """``files``: each window's profile with the number of steps in it. None when there is nothing to read."""
    found = [k for path, steps in files if steps > 0 and (k := _read(path, steps)) is not None]
    return max(found, key=lambda k: k.steps) if found else None


def _read(path: Path, steps: int) -> Kernels | None:
    try:
        space = xplane.read(path)
    except (InputError, OSError):
        return None
    starts, ends, wait, functions, eager, runs, calls = [], [], 0.0, 0.0, 0, 0.0, 0.0
    by_type: dict[str, list[float]] = {}
    by_name: dict[str, list[float]] = {}
    by_input: dict[str, list[float]] = {}
    for plane in space.planes:
        if not plane.name.startswith("/host:CPU"):
            continue
        for line in plane.lines:
            events = line.events()
            if not len(events):
                continue
            ids, inverse = np.unique(events.metadata_id, return_inverse=True)
            ms, count = np.bincount(inverse, events.duration_ps) / 1e9, np.bincount(inverse)
            texts = [plane.event_names.get(int(i), "") for i in ids]
            for text, spent, n in zip(texts, ms, count):
                if text in WAITS:
                    wait += float(spent)
                elif text == "FunctionRun":
                    functions += float(spent)
                elif text.startswith(FUNCTION_CALL):
                    calls += float(spent)
                elif text.startswith(EAGER_CALL):
                    eager += int(n)
                elif text.startswith("KernelAndDevice") and text.endswith("::Run"):
                    runs += float(spent)
            is_op = np.array([_op_type(t) is not None for t in texts])
            if line.name.startswith(INPUT_THREADS):
                for text, spent, n, op in zip(texts, ms, count, is_op):
                    if op:
                        row = by_input.setdefault(_op_type(text) or "", [0.0, 0.0])
                        row[0] += float(spent)
                        row[1] += float(n)
                continue
            for text, spent, n, op in zip(texts, ms, count, is_op):
                if op:
                    kind = _op_type(text) or ""
                    for table, key in ((by_type, kind), (by_name, text)):
                        row = table.setdefault(key, [0.0, 0.0])
                        row[0] += float(spent)
                        row[1] += float(n)
            rows = is_op[inverse]
            starts.append(events.start_ps[rows] / 1e9)
            ends.append((events.start_ps[rows] + events.duration_ps[rows]) / 1e9)
    if not starts:
        return None
    start, end = np.concatenate(starts), np.concatenate(ends)
    return Kernels(
        steps,
        0.0,
        intervals.total(intervals.union(start, end)) / steps,
        float((end - start).sum()) / steps,
        len(start) / steps,
        wait / steps,
        _per_step(by_type, steps),
        _per_step(by_name, steps),
        eager / steps,
        max(runs - calls, 0.0) / steps,
        functions / steps,
        _per_step(by_input, steps),
    )


def _per_step(table: dict[str, list[float]], steps: int) -> dict[str, tuple[float, float]]:
    return {k: (ms / steps, n / steps) for k, (ms, n) in sorted(table.items(), key=lambda i: -i[1][0])[:400]}


def _op_type(text: str) -> str | None:
    """``dense/MatMul:MatMul`` -> ``MatMul``; None for what is no op, or only calls ops."""
    name, colon, kind = text.rpartition(":")
    if not colon or not kind.replace("_", "").isalnum() or name.endswith(":") or " " in name or kind in CALLERS:
        return None
    return kind
