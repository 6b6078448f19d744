"""Throughput over batch size: a probe at each doubling, the knee, and a line through the steps' times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from slowtrain.errors import InputError
from slowtrain.memory.peak_forecast import MemoryPool, PeakForecast
from slowtrain.model.measurements import BatchCurve, Device, Point
from slowtrain.number_text import format_count
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace, side_files
from slowtrain.verify.batch_sizes import memory_need
from slowtrain.verify.batch_sizes.batch_probe import (
    BatchProbes,
    NoRecord,
    device_for_framework,
    has_time_for,
    measure_peaks,
    step_batch,
)
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Rule, Treatment

MIN_DOUBLING_GAIN = 0.1  # of a doubling: a smaller gain is not worth the memory and the changed training
MAX_HALVINGS = 2  # halvings of the script's own batch that are tried
CURVE_RULE = Rule(seconds=2.0, steps=12)
STEP_BLOCKS = 8  # parts of a probe's steady steps; their spread gives the interval
STUDENT_95 = 2.365  # for 8 values
DOUBLINGS_BEYOND_KNEE = 2  # doublings beyond the knee that are still measured, because one may have been disturbed
MIN_KNEE_POINTS = 3  # for a knee: itself, one above and, if possible, one below
MAX_TIMED_BATCH = 1 << 20
MIN_CURVE_PROBE_S = 10.0  # a probe's own time
TIME_MARGIN_FACTOR = 1.2  # the time left for another probe, in durations of the longest one so far
STEPS_WERE_TIMED = (
    "steps are timed with the script's own settings in separate processes, because the memory probes run without oneDNN"
)
NO_MEMORY_RECORD = "memory and limit are unknown, because the memory of this framework is not recorded"


def measure_curve(
    bench: Bench,
    device: Device | None,
    *,
    growth: bool = False,
    own: int | None = None,
    most: int | None = None,
    texts: Mapping[str, str] | None = None,
) -> BatchCurve:
    """Measures the curve. Raises ``InputError`` for a script that cannot be measured.

    ``own``: the script's batch, if the caller knows it and only wants larger ones. Then no smaller batch is timed, and
    memory is measured only if it has to fit a ``device``. ``most``: the largest batch that is of use. ``texts``: see
    :class:`BatchProbes`.
    """
    sizing = BatchProbes(bench, texts)
    sizing.own = own or sizing.own
    found, notes = None, []
    try:
        if device is not None:
            found = measure_peaks(sizing, None)
        elif own is None:
            sizing.first()
    except NoRecord:
        device, notes = None, [NO_MEMORY_RECORD]
    device = device_for_framework(sizing, device) if found is not None else device
    pool = MemoryPool(device.limit_bytes, growth) if device is not None else None
    limit = found.largest_fit(pool) if found is not None and pool is not None else None
    below = own is None
    search = _KneeSearch(sizing, limit, below, MAX_TIMED_BATCH if most is None else most)
    points = search.points()
    if not points:
        raise InputError(f"{bench.script.target} could not be timed: {search.ended}")
    if found is None and sizing.recorded:
        found, lacking = _measure_memory(sizing)
        notes += [lacking] if lacking else []
    if found is not None:
        points = [replace(p, peak_bytes=found.outcome(p.batch).peak_bytes) for p in points]
        notes += [*memory_need.memory_notes(sizing, found, limit, device), STEPS_WERE_TIMED]
    fixed, slope, low, high = fit_step_line(points)
    sure = _is_knee_found(points, below)
    return BatchCurve(
        script=bench.script.target,
        batch=sizing.own,
        points=tuple(points),
        knee=find_knee(points) if sure else None,
        knee_low=find_knee(points, optimism=-1) if sure else None,
        knee_high=find_knee(points, optimism=1) if sure else None,
        gain_share=MIN_DOUBLING_GAIN,
        fixed_ms=fixed,
        ms_per_sample=slope,
        fixed_low_ms=low,
        fixed_high_ms=high,
        limit_batch=limit,
        device=device,
        ended=search.ended,
        measured_on=side_files.computing_device(sizing.facts),
        source_sha256=side_files.source_sha256(sizing.facts),
        notes=tuple(notes),
    )


def _measure_memory(sizing: BatchProbes) -> tuple[PeakForecast | None, str]:
    """Memory if no device limits the batch: measured after the steps if time is left, else the reason why not."""
    if not has_time_for(sizing, sizing.own):
        return None, "memory was not measured because the time ended; give a longer --budget"
    try:
        return measure_peaks(sizing, None), ""
    except InputError as error:
        return None, f"memory was not measured: {error}"


class _KneeSearch:
    """Times the script's own batch, then its neighbours until the knee lies between measured batches.

    ``below``: smaller batches as well. ``ended``: why no further batch was tried.
    """

    def __init__(self, sizing: BatchProbes, limit: int | None, below: bool, most: int) -> None:
        self.sizing, self.limit, self.most = sizing, limit, most
        self.ended = ""
        self._points: dict[int, Point] = {}
        self._up, self._down = True, below
        self._longest_s = 0.0  # of a probe

    def points(self) -> list[Point]:
        """The measured points, by batch."""
        while (batch := self._next_batch()) is not None:
            left_s = max(self.sizing.bench.left_s, 0.0)
            if self._points and left_s < TIME_MARGIN_FACTOR * self._longest_s:
                over = f"{left_s:.0f} s were left, and another batch takes about {self._longest_s:.0f}"
                self.ended = "; ".join(filter(None, (self.ended, over, "give a longer --budget")))
                break
            try:
                self._points[batch], seconds = _time_batch(self.sizing, batch)
                self._longest_s = max(self._longest_s, seconds)
            except InputError as error:
                self._close(batch, str(error), both=not self._points or isinstance(error, _FixedBatch))
        return [self._points[batch] for batch in sorted(self._points)]

    def _next_batch(self) -> int | None:
        """The next batch to time; None if the answer is known or nothing more can be measured."""
        if not self._points:
            return self._first()
        points = [self._points[batch] for batch in sorted(self._points)]
        low, high, at = points[0].batch, points[-1].batch, find_knee(points)
        wanted = self._up and (at is None or high < at << DOUBLINGS_BEYOND_KNEE)
        if wanted and self.limit is not None and 2 * high > self.limit:
            self._close(2 * high, f"batch {2 * high:,} would not fit")
            wanted = False
        up = 2 * high if wanted and 2 * high <= self.most else None
        down = low // 2 if self._down and low > 1 and (at == low or low > self.sizing.own >> MAX_HALVINGS) else None
        return (down or up) if at == low else (up or down)

    def _first(self) -> int | None:
        """The script's own batch, or the largest below it that fits the device."""
        batch = self.sizing.own
        while self._down and self.limit is not None and self.limit < batch > 1:
            self._close(batch, f"batch {batch:,} would not fit")
            batch //= 2
        if self.limit is not None and batch > self.limit:
            self.ended = f"batch {batch:,} would not fit"
            return None
        return batch if batch <= self.most and (self._up or self._down) else None

    def _close(self, batch: int, why: str, *, both: bool = False) -> None:
        """Stops the search on this side."""
        larger = all(batch > known for known in self._points)
        if larger or both:
            self._up, self.ended = False, why
        if both or not larger:
            self._down, self.ended = False, self.ended or why


class _FixedBatch(InputError):
    """The script takes steps of its own size whatever batch is asked for."""


def _is_knee_found(points: Sequence[Point], below: bool) -> bool:
    """Whether measurements on both sides show the knee, or that it lies beyond them.

    If no smaller batches were asked for, the smallest stands for all below it.
    """
    at = find_knee(points)
    if at is None:
        return True
    lowest = points[0].batch
    return len(points) >= MIN_KNEE_POINTS and (not below or at > lowest or lowest == 1)


def _time_batch(sizing: BatchProbes, batch: int) -> tuple[Point, float]:
    """The point at one batch, and the probe's duration in s."""
    own = batch == sizing.own and not sizing.given
    probe = sizing.run(None if own else batch, f"steps of {format_count(batch, 'sample')}", Treatment(), CURVE_RULE)
    if probe.failed:
        raise InputError(f"the script failed at batch {batch:,}: {probe.failed}")
    trace = recording_trace.load_recording(probe.folder)
    taken = step_batch(trace)
    if taken == sizing.own != batch:
        raise _FixedBatch(
            f"{batch:,} samples were requested, but its steps took {taken:,}: the batch cannot be changed from outside"
        )
    if taken != batch:
        raise InputError(f"no step took {batch:,} samples, the largest took {taken:,}: its data has no more")
    return _batch_point(trace, batch), probe.wall_s


def _batch_point(trace: Trace, batch: int) -> Point:
    ms = trace.steps.steady_ms
    if len(ms) < 2:
        raise InputError(f"batch {batch:,} had too few steady steps in the time")
    mean = float(ms.mean())
    blocks = np.array([part.mean() for part in np.array_split(ms, min(STEP_BLOCKS, len(ms)))])
    spread = STUDENT_95 * float(blocks.std(ddof=1)) / len(blocks) ** 0.5
    low, high = 1e3 * batch / (mean + spread), 1e3 * batch / max(mean - spread, mean / 10)
    return Point(batch, mean, 1e3 * batch / mean, low, high)


def find_knee(points: Sequence[Point], *, optimism: int = 0) -> int | None:
    """The first batch beyond which no measured doubling gained ``MIN_DOUBLING_GAIN``; None if the last one did.

    ``optimism``: 1 takes each gain at the upper end of its interval, -1 at the lower end.
    """
    found: int | None = None
    for this, after in pairwise(points):
        gained = _doubling_gain(this, after, optimism) >= MIN_DOUBLING_GAIN
        if gained:
            found = None
        elif found is None:
            found = this.batch
    return found


def _doubling_gain(this: Point, after: Point, optimism: int) -> float:
    before, behind = {
        0: (this.samples_per_s, after.samples_per_s),
        1: (this.low, after.high),
        -1: (this.high, after.low),
    }[optimism]
    return behind / before - 1 if before > 0 else 0.0


def fit_step_line(points: Sequence[Point]) -> tuple[float | None, float | None, float | None, float | None]:
    """Fixed ms, ms per sample, and the range of the fixed ms if any one point is left out.

    None with fewer than three points.
    """
    if len(points) < 3:
        return None, None, None, None
    fixed, slope = _weighted_line(points)
    without = [_weighted_line([*points[:i], *points[i + 1 :]])[0] for i in range(len(points))]
    return fixed, slope, min(*without, fixed), max(*without, fixed)


def _weighted_line(points: Sequence[Point]) -> tuple[float, float]:
    """Weights each point by its own time, so that small batches count as much as large ones."""
    batch, ms = (np.array([getattr(p, name) for p in points], float) for name in ("batch", "step_ms"))
    slope, fixed = np.polyfit(batch, ms, 1, w=1 / ms)
    return max(float(fixed), 0.0), max(float(slope), 0.0)
