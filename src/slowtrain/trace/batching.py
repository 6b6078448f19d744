"""What ``slowtrain batch`` measured of the same script, kept beside a recording: steps at other batch sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from slowtrain.model import Category, Signal
from slowtrain.trace import Trace, work
from slowtrain.trace.ordered import quantile
from slowtrain.values import dataclass

FACT = "batch"  # see beside.KEPT
# Bytes a millisecond from ordinary memory to a device: the driver locks or copies them first (an H100 took 6 GB/s).
PAGED = 6e6
LEAST_STEPS = 8  # of an epoch, to be left: fewer are hardly training
START_MS = 0.01  # the most that a kernel's start takes, of its own time: those that do nothing take 1 to 5 µs


@dataclass(frozen=True)
class Curve:
    """Milliseconds of a step by batch size, ascending, and the knee where it was found."""

    ms: Mapping[int, float]
    knee: int | None
    limit_batch: int | None
    memory: Mapping[int, int]

    def ms_at(self, batch: float) -> float:
        """Between two measured batches on a straight line; beyond them as the nearest two have it."""
        known = sorted(self.ms)
        if len(known) == 1:
            return self.ms[known[0]]
        after = min(max(next((i for i, b in enumerate(known) if b >= batch), len(known) - 1), 1), len(known) - 1)
        low, high = known[after - 1], known[after]
        share = (batch - low) / (high - low)
        return max(self.ms[low] + share * (self.ms[high] - self.ms[low]), 0.0)


def signals(trace: Trace) -> Iterator[Signal]:
    known = curve(trace)
    if known is not None and len(known.ms) > 1:
        yield Signal.BATCHES


def curve(trace: Trace) -> Curve | None:
    """None where nothing was measured, or what was kept does not fit together."""
    about = trace.fact(FACT)
    if not isinstance(about, Mapping):
        return None
    try:
        points = [(int(p["batch"]), float(p["step_ms"]), p.get("peak_bytes")) for p in about["points"]]
        knee, limit = about.get("knee"), about.get("limit_batch")
        alone = len(points) == 1 and limit is not None and int(limit) < 2 * points[0][0]  # nothing larger fits
        if (len(points) < 2 and not alone) or not all(b > 0 and math.isfinite(ms) and ms > 0 for b, ms, _ in points):
            return None
        return Curve(
            {b: ms for b, ms, _ in sorted(points)},
            None if knee is None else int(knee),
            None if limit is None else int(limit),
            {b: int(size) for b, _, size in points if size is not None},
        )
    except (KeyError, TypeError, ValueError):
        return None


def of_data(trace: Trace, size: float) -> int | None:
    """The largest batch of which the data gives ``LEAST_STEPS`` steps; None where nobody knows how long it is.

    That is where it was no array and no epoch of its steps, of ``size`` samples, has come to its end.
    """
    ended = trace.steps.block.max(initial=0) > 0
    rows = work.samples(trace) or (work.epoch(trace, size) if ended else None)
    return None if rows is None else rows // LEAST_STEPS


def told(trace: Trace, about: Mapping[str, Any]) -> Trace:
    """The trace of a script whose steps were measured at other batch sizes, as :func:`curve` reads them."""
    found = replace(trace, facts={**trace.facts, FACT: about})
    return replace(found, signals=found.signals | frozenset(signals(found)))


def following_ms(trace: Trace) -> float | None:
    """Of a step on an accelerator what follows its batch; None where no window saw the device.

    That is what kernels take beyond their start, those of the optimizer aside, and making and copying the batch. The
    rest is calls from the host, which a larger batch does not lengthen.
    """
    device, kernels = trace.device, trace.kernels
    if not trace.on_accelerator or device is None or kernels is None or not kernels.by_name or not device.kernels:
        return None
    ops = work.ops(kernels)
    start = min(float(quantile([o.ms / o.count for o in ops if o.count], 0.25)), START_MS)
    over = sum(max(o.ms - start * o.count, 0.0) for o in ops if not o.update)
    computing = trace.mean(Category.DEVICE) * over / (sum(o.ms for o in ops) or 1.0)
    copied = device.copies.get("h2d")
    copying = min(copied.bytes / PAGED, trace.mean(Category.FEED)) if copied is not None else 0.0
    # Python of the loop's own may well go through the batch: nobody counted its turns.
    return computing + copying + trace.mean(Category.INPUT) + trace.mean(Category.PYTHON)
