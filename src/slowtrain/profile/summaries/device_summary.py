"""Totals of what a device did in its steps: kernels by name and op, formats, copies, launches; its allocators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, median_value
from slowtrain.columns.device import Device, DirectionCopies, Kernels, PageableCopies
from slowtrain.columns.intervals import Intervals
from slowtrain.profile import device_activity, framework_names, host_reasons, timeline
from slowtrain.profile.device_activity import (
    COLLECTIVE,
    D2D,
    D2H,
    H2D,
    KERNEL,
    KIND_NAMES,
    MEMSET,
    PAGEABLE,
    UNKNOWN_MEMORY,
    Activities,
)
from slowtrain.profile.format import xplane
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.summaries import idle_reasons, window_ops
from slowtrain.profile.timeline import Timeline

BUFFERED_CALL_MS = 1e-3  # assumed length of a call; shorter than any launch
MAX_TABLE_NAMES = 2000  # rows in a table; models with some hundred layers have as many ops
_NUMBER_STATS = ("bytes_allocated", "bytes_available", "fragmentation", "peak_bytes_in_use", "requested_bytes")
_ALLOCATOR_STATS = ("allocator_name", *_NUMBER_STATS)
MAX_ALLOCATORS = 64


def summarize_device(
    whole: Timeline, device: timeline.ProfiledDevice, found: StepTimes, waits: idle_reasons.IdleMoments
) -> Device:
    """Summarize the device's work in the steps, in ms per step."""
    inside = _activities_in_steps(device.activities, found)
    steps = max(len(found), 1)
    kernels = inside.of(KERNEL, COLLECTIVE)
    span = intervals.union(found.start_ms, found.end_ms)
    busy = intervals.total_length(intervals.intersect(span, inside.busy(*range(len(KIND_NAMES)))))
    by_kernel = _time_table(kernels, kernels.name, steps)
    by_op = by_kernel if inside is kernels and kernels.op is kernels.name else _time_table(inside, inside.op, steps)
    precision, matrix, cores = _time_by_format(kernels, steps)
    delay, queued, buffered = _launch_figures(whole, device, kernels)
    origin = float(found.start_ms[0]) if len(found) else whole.start_ms
    computing = device.activities.busy(KERNEL, COLLECTIVE, MEMSET)  # also after the last step, which a copy may outlast
    return Device(
        device.name, device.kind, device.facts, len(found),
        float((found.end_ms - found.start_ms).mean()) if len(found) else 0.0,
        busy / steps, float(kernels.ms.sum()) / steps, len(kernels) / steps,
        float(median_value(kernels.ms)) * 1e3 if len(kernels) else 0.0,
        by_kernel, by_op,
        {KIND_NAMES[kind]: _copy_totals(inside.of(kind), computing, steps) for kind in (H2D, D2H,
        D2D) if len(inside.of(kind))},
        {reason: intervals.total_length(spans) / steps for reason, spans in waits.reasons.items()},
        idle_reasons.longest_gaps(whole, device, waits, origin), precision, matrix, cores, delay, queued,
        {text: device.places[text] for text in by_op if text in device.places}, None, buffered / steps,
    )  # fmt: skip


def _time_by_format(kernels: Activities, steps: int) -> tuple[dict[str, float], dict[str, float], float]:
    """Return ms per step by number format, the same for matrix work, and the part of it on tensor cores.

    The format comes from the kernel's name, else from the operands of its op. All kernels of a convolution's op are
    matrix work, because a library that uses Fourier or Winograd transforms does so for lack of a faster unit.
    """
    precision: dict[str, float] = {}
    matrix: dict[str, float] = {}
    cores = 0.0
    for op_format, mine in _kernels_by_format(kernels):
        spent = np.bincount(mine.name, mine.ms, minlength=len(mine.texts)) / steps if len(mine) else np.zeros(0)
        for name in np.flatnonzero(spent):
            text, ms = mine.texts[name], float(spent[name])
            format_ = framework_names.kernel_precision(text) or op_format
            if format_ is not None:
                precision[format_] = precision.get(format_, 0.0) + ms
            if re.match(framework_names.GRAPH_RUN, text):
                matrix["unknown"] = matrix.get("unknown", 0.0) + ms  # may hide any kernels
            elif re.search(framework_names.MATRIX_KERNEL, text) or op_format is not None:
                matrix[format_ or "unknown"] = matrix.get(format_ or "unknown", 0.0) + ms
                by_xla = (
                    re.match(framework_names.XLA_MATRIX_KERNEL, text) is not None
                    and format_ in device_activity.ALIGNED_ELEMENTS
                )
                cores += ms if by_xla or re.search(framework_names.TENSOR_CORE, text) else 0.0
    return precision, matrix, cores


def _kernels_by_format(kernels: Activities) -> Iterator[tuple[str | None, Activities]]:
    """Yield kernels by the number format of their op's product; None if it is no product or the format is unknown."""
    if not len(kernels) or kernels.op is kernels.name:
        yield None, kernels
        return
    formats = [device_activity.product_format(text) for text in kernels.texts]
    different = sorted({f for f in formats if f is not None})
    code = np.array([*(different.index(f) if f is not None else -1 for f in formats), -1], dtype=np.int8)[kernels.op]
    for i, op_format in enumerate([*different, None]):
        yield op_format, kernels.where(code == (i if op_format is not None else -1))


def _activities_in_steps(acts: Activities, found: StepTimes) -> Activities:
    """Return the activities that start in a step."""
    if not len(found):
        return acts
    at = intervals.sorted_positions(found.start_ms, acts.start_ms, "right") - 1
    return acts.where((at >= 0) & (acts.start_ms < found.end_ms[np.maximum(at, 0)]))


def _time_table(acts: Activities, key: Any, steps: int) -> Mapping[str, tuple[float, float]]:
    """Return ms and count per step by text, costliest first."""
    code, ms_each = key, acts.ms
    if not (known := key >= 0).all():
        code, ms_each = code[known], ms_each[known]
    if not len(code):
        return {}
    ms = np.bincount(code, ms_each, minlength=len(acts.texts))
    count = np.bincount(code, minlength=len(acts.texts))
    found: dict[str, list[float]] = {}
    for i in np.flatnonzero(count):
        row = found.setdefault(acts.texts[i], [0.0, 0.0])
        row[0] += float(ms[i]) / steps
        row[1] += float(count[i]) / steps
    ordered = sorted(found.items(), key=lambda item: -item[1][0])[:MAX_TABLE_NAMES]
    return {name: (row[0], row[1]) for name, row in ordered}


def _copy_totals(mine: Activities, others: Intervals, steps: int) -> DirectionCopies:
    """Return the totals of one direction; ``exposed`` is the part not overlapped by ``others``."""
    spans = intervals.union(mine.start_ms, mine.end_ms)
    exposed = intervals.total_length(intervals.subtract(spans, others)) / steps
    found = DirectionCopies(len(mine) / steps, float(mine.bytes.sum()) / steps, float(mine.ms.sum()) / steps, exposed)
    if not len(mine.memory) or (mine.memory == UNKNOWN_MEMORY).any():
        return found
    slow = mine.where(mine.memory == PAGEABLE)
    alone = intervals.subtract(intervals.union(slow.start_ms, slow.end_ms), others)
    of_host = PageableCopies(
        float(slow.bytes.sum()) / steps, float(slow.ms.sum()) / steps, intervals.total_length(alone) / steps
    )
    return replace(found, pageable=of_host)


def _launch_figures(
    whole: Timeline, device: timeline.ProfiledDevice, kernels: Activities
) -> tuple[float | None, float | None, int]:
    """Return the median delay from call to kernel in µs, the share of kernels that waited in the queue, and a count.

    The count is the number of kernels in command buffers, which a run without the profiler launches together.
    """
    threads = [t for t in whole.threads if t.host == device.host]
    if not any(len(t.launches[0]) for t in threads):
        return None, None, 0
    owner, start, stop = timeline.launch_calls(threads, kernels.correlation)
    off = intervals.union_all(t.of(host_reasons.COMMAND_BUFFER_REASON) for t in threads)
    known = np.where(owner >= 0, start, -1.0)
    buffered = intervals.covered_length(off, known, known + BUFFERED_CALL_MS) > 0
    hit = (owner >= 0) & ~buffered
    if hit.sum() < 2:
        return None, None, int(buffered.sum())
    before = np.concatenate(([-np.inf], np.maximum.accumulate(kernels.end_ms)[:-1]))
    delay_us = float(median_value((kernels.start_ms - start)[hit])) * 1e3
    return delay_us, float((stop <= before)[hit].mean()), int(buffered.sum())


def profile_ops(
    space: xplane.Space, device: timeline.ProfiledDevice | None, found: StepTimes, some: StepTimes
) -> Kernels | None:
    """Return the ops in the form that recordings have; for an accelerator with what its host adds."""
    if not len(found):
        return None
    host = window_ops.host_window_ops(space, 0.0, some.on_host)
    if device is None or device.kind == "CPU":
        return host
    own = device_ops(device.activities, found)
    if host is None:
        return own
    # Ops started from Python compute in the device's kernels, so that they have no time of their own.
    return replace(own, wait_ms=host.wait_ms, eager_ops=host.eager_ops, function_ms=host.function_ms,
                   by_input=host.by_input)  # fmt: skip


def device_ops(acts: Activities, found: StepTimes) -> Kernels:
    """Return an accelerator's kernels by type and name of their ops."""
    inside = _activities_in_steps(acts, found)
    mine = inside.of(KERNEL, COLLECTIVE)
    steps = len(found)
    span = found.end_ms - found.start_ms
    busy = intervals.covered_length(mine.busy(KERNEL, COLLECTIVE), found.start_ms, found.end_ms)
    named = _time_table(mine, np.where(mine.op >= 0, mine.op, mine.name), steps)
    by_name: dict[str, tuple[float, float]] = {}
    by_type: dict[str, tuple[float, float]] = {}
    for text, (ms, count) in named.items():
        name = text.split("#")[0]
        parsed = framework_names.graph_op(name)
        kind = parsed[1] if parsed else name
        for table, key in ((by_name, name if parsed else f"{name}:{name}"), (by_type, kind)):
            old = table.get(key, (0.0, 0.0))
            table[key] = (old[0] + ms, old[1] + count)
    return Kernels(steps, float(span.mean()), float(busy.mean()), float(mine.ms.sum()) / steps, len(mine) / steps, 0.0,
                   by_type, by_name)  # fmt: skip


def read_pools(spaces: Iterable[xplane.Space]) -> dict[str, dict[str, float]]:
    """Return figures by allocator at the moment of its highest use, for allocators with a limit."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for space in spaces:
        for plane in space.planes:
            wanted = allocator_event_ids(plane, framework_names.ALLOCATION_EVENT)
            for line in plane.lines if wanted is not None else ():
                _add_requests(found, line.events(_ALLOCATOR_STATS, wanted))
    return {name: _pool_figures(np.array(rows)) for name, rows in found.items()}


def allocator_event_ids(plane: xplane.Plane, *called: str) -> Bools | None:
    """Return which metadata ids belong to these events, as ``Line.events`` expects; None if the plane has none."""
    wanted = plane.wanted_ids(lambda name: name in called)
    return wanted if wanted is not None and wanted.any() else None


def _add_requests(found: dict[str, list[tuple[float, ...]]], events: Any) -> None:
    if not len(events):
        return
    label = events.stats["allocator_name"]
    columns = [events.stats[n].per_event(float("nan")).astype(float) for n in _NUMBER_STATS]
    rows = np.stack(columns, axis=1)
    for i, code in enumerate(label.labels()):
        name = label.texts[code] if code >= 0 else ""
        if name and (name in found or len(found) < MAX_ALLOCATORS) and np.isfinite(rows[i, :2]).all():
            found.setdefault(name, []).append(tuple(rows[i]))


def _pool_figures(rows: Any) -> dict[str, float]:
    """Return one allocator's figures. ``peak_bytes`` also covers the time before the profile."""
    used, available, fragmentation, peak, requested = rows.T
    fullest = int(np.argmax(used))
    limit = float((used + available).max())
    most = float(np.nanmax(peak)) if np.isfinite(peak).any() else float(used.max())
    found = {
        "in_use_bytes": float(used[fullest]),
        "limit_bytes": limit,
        "peak_bytes": max(most, float(used.max())),
        "requests": float(len(rows)),
        "largest_request_bytes": float(np.nanmax(requested)) if np.isfinite(requested).any() else 0.0,
    }
    if np.isfinite(fragmentation).any():
        found["fragmentation_share"] = float(median_value(fragmentation[~np.isnan(fragmentation)]))
    return found
