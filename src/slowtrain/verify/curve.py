"""Throughput over batch size: a probe at each doubling, the knee, and a line through the steps' times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from slowtrain.errors import InputError
from slowtrain.memory.replay import Pool
from slowtrain.memory.sized import Sized
from slowtrain.model.sizing import BatchCurve, Device, Point
from slowtrain.trace import Trace, beside, build
from slowtrain.verify import needs
from slowtrain.verify.pairs import Bench
from slowtrain.verify.probes import Rule, Treatment
from slowtrain.verify.sizing import NoRecord, Sizing, batch_of, given_out, measure

GAIN = 0.1  # of a doubling: less is not worth the memory, nor the change of training
BELOW = 2  # halvings of the script's own batch that are tried, to see where it stands
RULE = Rule(seconds=2.0, steps=12)
BLOCKS = 8  # parts of a probe's steady steps; their spread gives the interval
STUDENT_95 = 2.365  # of 8 values
PAST = 2  # doublings beyond the knee that are still measured, since one may have been disturbed
MOST = 1 << 20
LEAST_S = 10.0  # a probe's own time, at the least
UNRECORDED = "memory and limit are not told: no record is kept here of the memory of what computes these steps"


def curve(
    bench: Bench,
    device: Device | None,
    *,
    growth: bool = False,
    own: int | None = None,
    most: int | None = None,
    texts: Mapping[str, str] | None = None,
) -> BatchCurve:
    """Raises ``InputError`` for a script that cannot be measured.

    ``own`` is the script's batch for those who know it and look for a larger one: no smaller one is timed, and memory
    measured only where there is a ``device`` that it has to fit. ``most`` is the largest that is of any use to them.
    ``texts``: see :class:`Sizing`.
    """
    sizing = Sizing(bench, texts)
    sizing.own = own or sizing.own
    found, said = None, []
    try:
        found = measure(sizing, None) if device is not None or own is None else None
    except NoRecord:
        device, said = None, [UNRECORDED]
    device = given_out(sizing, device) if found is not None else device
    limit = found.largest(Pool(device.limit_bytes, growth)) if found is not None and device is not None else None
    points, ended = _points(sizing, found, limit, BELOW if own is None else 0, MOST if most is None else most)
    if not points:
        raise InputError(f"{bench.script.target} could not be timed: {ended}")
    fixed, slope, low, high = line(points)
    return BatchCurve(
        script=bench.script.target,
        batch=sizing.own,
        points=tuple(points),
        knee=knee(points),
        knee_low=knee(points, optimism=-1),
        knee_high=knee(points, optimism=1),
        gain_share=GAIN,
        fixed_ms=fixed,
        ms_per_sample=slope,
        fixed_low_ms=low,
        fixed_high_ms=high,
        limit_batch=limit,
        device=device,
        ended=ended,
        measured_on=beside.computed_on(sizing.facts),
        source_sha256=beside.source_sha256(sizing.facts),
        notes=tuple(needs.notes(sizing, found, limit, device) if found is not None else said),
    )


def _points(sizing: Sizing, found: Sized | None, limit: int | None, below: int, most: int) -> tuple[list[Point], str]:
    """By batch, up to ``most``, and why there are no more; from the script's own, halved ``below`` times or less."""
    points: list[Point] = []
    batch = sizing.own
    for _ in range(below):
        batch = batch // 2 if batch % 2 == 0 else batch
    while batch <= most:
        if limit is not None and batch > limit:
            return points, f"batch {batch:,} would not fit"
        if points and sizing.bench.left_s < 2 * LEAST_S:
            return points, "the time was over; --budget gives more"
        try:
            point = _timed(sizing, batch)
        except InputError as error:
            return points, str(error)
        points.append(replace(point, peak_bytes=found.outcome(batch).peak_bytes if found is not None else None))
        at = knee(points)
        if at is not None and batch >= at << PAST and batch >= sizing.own:
            return points, ""
        batch *= 2
    return points, ""


def _timed(sizing: Sizing, batch: int) -> Point:
    own = batch == sizing.own and not sizing.given
    probe = sizing.run(None if own else batch, f"steps of {batch:,} samples", Treatment(), RULE)
    if probe.failed:
        raise InputError(f"at batch {batch:,} the script failed: {probe.failed}")
    trace = build.load(probe.folder)
    taken = batch_of(trace)
    if taken == sizing.own != batch:
        raise InputError(f"asked for {batch:,} samples its steps took {taken:,}: it cannot be changed from outside")
    if taken != batch:
        raise InputError(f"no step took {batch:,} samples, the largest {taken:,}: its data has no more")
    return _point(trace, batch)


def _point(trace: Trace, batch: int) -> Point:
    ms = trace.steps.steady_ms
    if len(ms) < 2:
        raise InputError(f"at batch {batch:,} there were not enough steady steps in the time")
    mean = float(ms.mean())
    blocks = np.array([part.mean() for part in np.array_split(ms, min(BLOCKS, len(ms)))])
    spread = STUDENT_95 * float(blocks.std(ddof=1)) / len(blocks) ** 0.5
    low, high = 1e3 * batch / (mean + spread), 1e3 * batch / max(mean - spread, mean / 10)
    return Point(batch, mean, 1e3 * batch / mean, low, high)


def knee(points: Sequence[Point], *, optimism: int = 0) -> int | None:
    """The first batch beyond which no doubling that was measured gained ``GAIN``; None where the last one did.

    ``optimism``: 1 counts each gain as large as the intervals allow, -1 as small.
    """
    found: int | None = None
    for this, after in pairwise(points):
        gained = _gain(this, after, optimism) >= GAIN
        if gained:
            found = None
        elif found is None:
            found = this.batch
    return found


def _gain(this: Point, after: Point, optimism: int) -> float:
    before, behind = {
        0: (this.samples_per_s, after.samples_per_s),
        1: (this.low, after.high),
        -1: (this.high, after.low),
    }[optimism]
    return behind / before - 1 if before > 0 else 0.0


def line(points: Sequence[Point]) -> tuple[float | None, float | None, float | None, float | None]:
    """Fixed ms, ms a sample, and the range of the first when any one point is left out; None with less than three."""
    if len(points) < 3:
        return None, None, None, None
    fixed, slope = _line(points)
    without = [_line([*points[:i], *points[i + 1 :]])[0] for i in range(len(points))]
    return fixed, slope, min(*without, fixed), max(*without, fixed)


def _line(points: Sequence[Point]) -> tuple[float, float]:
    """Each point weighs by its own time, so that the smallest batches count as much as the largest."""
    batch, ms = (np.array([getattr(p, name) for p in points], float) for name in ("batch", "step_ms"))
    slope, fixed = np.polyfit(batch, ms, 1, w=1 / ms)
    return max(float(fixed), 0.0), max(float(slope), 0.0)
