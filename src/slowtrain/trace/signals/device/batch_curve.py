"""What ``slowtrain batch`` measured of the same script, stored next to a recording: steps at other batch sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns.arrays import quantile
from slowtrain.model import Category, Signal
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work

BATCH_FACT = "batch"  # key of the sidecar file
# Bytes per ms from pageable memory to a device, including the driver's pinning or copying (6 GB/s on an H100).
PAGEABLE_BYTES_PER_MS = 6e6
MIN_STEPS_PER_EPOCH = 8  # steps that an epoch must keep; fewer are hardly training
MAX_KERNEL_START_MS = 0.01  # upper bound of a kernel's start-up within its own time; empty kernels take 1 to 5 µs


class StepTimeCurve(Struct, frozen=True):
    """Milliseconds per step by batch size, ascending, and the knee if it was found."""

    ms: Mapping[int, float]
    knee: int | None
    limit_batch: int | None
    memory: Mapping[int, int]

    def ms_at(self, batch: float) -> float:
        """Return the time at a batch size.

        Linear between measured ones, and extrapolated from the nearest two outside them.
        """
        known = sorted(self.ms)
        if len(known) == 1:
            return self.ms[known[0]]
        after = min(max(next((i for i, b in enumerate(known) if b >= batch), len(known) - 1), 1), len(known) - 1)
        low, high = known[after - 1], known[after]
        share = (batch - low) / (high - low)
        return max(self.ms[low] + share * (self.ms[high] - self.ms[low]), 0.0)


def batch_signals(trace: Trace) -> Iterator[Signal]:
    known = read_curve(trace)
    if known is not None and len(known.ms) > 1:
        yield Signal.BATCHES


def read_curve(trace: Trace) -> StepTimeCurve | None:
    """Return the curve; None if nothing was measured, or the stored data is inconsistent."""
    about = trace.fact(BATCH_FACT)
    if not isinstance(about, Mapping):
        return None
    try:
        points = [(int(p["batch"]), float(p["step_ms"]), p.get("peak_bytes")) for p in about["points"]]
        knee, limit = about.get("knee"), about.get("limit_batch")
        alone = len(points) == 1 and limit is not None and int(limit) < 2 * points[0][0]  # no larger batch fits
        if (len(points) < 2 and not alone) or not all(b > 0 and math.isfinite(ms) and ms > 0 for b, ms, _ in points):
            return None
        return StepTimeCurve(
            {b: ms for b, ms, _ in sorted(points)},
            None if knee is None else int(knee),
            None if limit is None else int(limit),
            {b: int(size) for b, _, size in points if size is not None},
        )
    except (KeyError, TypeError, ValueError):
        return None


def largest_data_batch(trace: Trace, size: float) -> int | None:
    """Return the largest batch with which an epoch keeps enough steps; None if the data's length is unknown.

    It is unknown if the data was no array and no epoch of its steps, of ``size`` samples, has ended.
    """
    ended = trace.steps.block.max(initial=0) > 0
    rows = op_work.fit_rows(trace) or (op_work.longest_epoch_rows(trace, size) if ended else None)
    return None if rows is None else rows // MIN_STEPS_PER_EPOCH


def with_batch_fact(trace: Trace, about: Mapping[str, Any]) -> Trace:
    """Return the trace of a script whose steps were measured at other batch sizes."""
    found = replace(trace, facts={**trace.facts, BATCH_FACT: about})
    return replace(found, signals=found.signals | frozenset(batch_signals(found)))


def batch_dependent_ms(trace: Trace) -> float | None:
    """Return the part of a step on an accelerator that depends on its batch; None without a window of the device.

    This is kernel time beyond their start-up, without the optimizer, and making and copying the batch. The rest is
    calls from the host, which a larger batch does not lengthen.
    """
    device, kernels = trace.device, trace.kernels
    if not trace.on_accelerator or device is None or kernels is None or not kernels.by_name or not device.kernels:
        return None
    ops = op_work.window_ops(kernels)
    start = min(float(quantile([o.ms / o.count for o in ops if o.count], 0.25)), MAX_KERNEL_START_MS)
    over = sum(max(o.ms - start * o.count, 0.0) for o in ops if not o.update)
    computing = trace.mean(Category.DEVICE) * over / (sum(o.ms for o in ops) or 1.0)
    copied = device.copies.get("h2d")
    copying = min(copied.bytes / PAGEABLE_BYTES_PER_MS, trace.mean(Category.FEED)) if copied is not None else 0.0
    # Python of the user's loop may iterate over the batch, so that all of it is counted.
    return computing + copying + trace.mean(Category.INPUT) + trace.mean(Category.PYTHON)
